//! What every service has in common that is reached over HTTP: one attempt of one call. The request goes out when the stream is
//! first polled, pieces come as the network brings them, dropping the stream closes the connection. A service adds its options,
//! its request, its events, their translation, and its names of errors. May not know any service, retries, or where a key came
//! from.

pub(super) mod failure;
pub(super) mod halves;
mod options;
#[cfg(test)]
pub mod recorded;
mod reply;
#[cfg(test)]
pub mod upstream;
pub(super) mod usage;
#[cfg(test)]
pub(super) mod wire;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, TryStreamExt, stream as streams};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, Url};

use super::{Attempt, Chunk, Error, Provider};
use crate::protocol::{CallError, CallErrorKind, CallRequest, Finish, Usage};
use crate::service::{self, Secrets};

pub(super) use options::{extra, finite, model, without};
pub(super) use reply::Reply;

/// An explanation of an error is read up to so many bytes.
const EXPLANATION_BYTES_MAX: usize = 64 << 10;

/// The most bytes of a whole reply.
const REPLY_BYTES_MAX: usize = 16 << 20;

/// A service: what goes out, and how what comes in is understood.
pub trait Api: std::fmt::Debug + Send + Sync + 'static {
    /// Reads the events of one reply.
    type Translator: Translate;

    /// Whether an agent is behind it that stands in a model's place.
    const IS_AGENT: bool = false;

    /// Whether it wants to know the branch.
    fn asks_for_branch(&self) -> bool {
        false
    }

    /// How it is reached.
    fn connection(&self) -> &Connection;

    /// The request for one attempt. Asked when it goes out.
    fn outgoing(&self, request: &CallRequest) -> Result<Outgoing, CallError>;

    /// What reads the reply to `request`.
    fn translator(&self, request: &CallRequest) -> Self::Translator;
}

/// A request in the making.
pub struct Outgoing {
    /// Where it goes.
    pub url: Url,
    /// JSON.
    pub body: Vec<u8>,
}

/// One reply in the making: events in, chunks out.
pub trait Translate: Send + 'static {
    /// The service's name, in reports of tokens and in errors' tables.
    const SERVICE: &'static str;

    /// The most bytes of one event.
    const EVENT_BYTES_MAX: usize = 4 << 20;

    /// Reads one event; its chunks are added to `chunks`.
    fn read(&mut self, name: &str, data: &str, chunks: &mut VecDeque<Chunk>) -> Result<Progress, CallError>;

    /// Whether the model said that it is done. What may still come is waited for only shortly.
    fn has_finished(&self) -> bool;

    /// The last report of tokens, once.
    fn take_usage(&mut self) -> Option<Usage>;

    /// How the reply ended; [cut](CallErrorKind::Cut) when it didn't. `said_done`: the service said so, not only the model.
    /// Chunks that were held back are added to `chunks`.
    fn end(&mut self, said_done: bool, chunks: &mut VecDeque<Chunk>) -> Result<Finish, CallError>;

    /// The reply has failed: what must not be lost of it is added to `chunks`.
    fn give_up(&mut self, _chunks: &mut VecDeque<Chunk>) {}
}

/// Whether more is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Yes.
    More,
    /// The service said that this was all.
    Done,
}

/// The reply ended before the model was done.
pub(super) fn cut() -> CallError {
    CallError::new(CallErrorKind::Cut, "the stream ended before the model was done")
}

/// The window is full before anything is said: a shorter request has room for a reply.
pub(super) fn no_room() -> CallError {
    CallError::new(CallErrorKind::TooLong, "the request leaves no room in the model's window for a reply")
}

/// What can't be understood.
pub(super) fn nonsense(message: impl Into<String>) -> CallError {
    CallError::new(CallErrorKind::Nonsense, message)
}

/// Counts the bytes of a reply.
#[derive(Debug, Default)]
pub(super) struct Size(usize);

impl Size {
    /// So many more.
    pub fn add(&mut self, bytes: usize) -> Result<(), CallError> {
        self.0 += bytes;
        if self.0 > REPLY_BYTES_MAX { Err(nonsense(format!("the reply is longer than {REPLY_BYTES_MAX} bytes"))) } else { Ok(()) }
    }

    /// Whether there were none.
    pub fn is_zero(&self) -> bool {
        self.0 == 0
    }
}

/// How a service is reached: checked options.
#[derive(Debug)]
pub struct Connection {
    base: Url,
    headers: HeaderMap,
    /// Values that no text may show.
    secrets: Secrets,
    connect: Duration,
    idle: Duration,
}

impl Connection {
    /// A service at `base_url`; an error shows `example` of one.
    pub fn new(base_url: &str, example: &str, connect_secs: u64, idle_secs: u64) -> Result<Self, Error> {
        Self::to(service::base("base_url", base_url, example, "api_key")?, connect_secs, idle_secs)
    }

    /// A service at exactly this address, which stands at `key`.
    pub fn at(key: &str, address: &str, example: &str, connect_secs: u64, idle_secs: u64) -> Result<Self, Error> {
        let address = service::address(key, address, example, "headers")?;
        // What a query holds may be a key.
        let query = address.query().unwrap_or_default().replace(['=', '&'], " ");
        let mut connection = Self::to(address, connect_secs, idle_secs)?;
        connection.secrets.add_words(&query);
        Ok(connection)
    }

    fn to(base: Url, connect_secs: u64, idle_secs: u64) -> Result<Self, Error> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        Ok(Self {
            base,
            headers,
            secrets: Secrets::default(),
            connect: service::seconds("connect_secs", connect_secs)?,
            idle: service::seconds("idle_secs", idle_secs)?,
        })
    }

    /// Sends the secret `key` along with every request, as `value` in a header.
    pub fn with_key(mut self, header: HeaderName, key: Option<String>, value: impl FnOnce(&str) -> String) -> Result<Self, Error> {
        if let Some(key) = key {
            let mut value = HeaderValue::try_from(value(&key))
                .map_err(|_| Error::option("api_key", "has characters that can't stand in an HTTP header"))?;
            value.set_sensitive(true);
            self.headers.insert(header, value);
            self.secrets.add(&key);
        }
        Ok(self)
    }

    /// Sends a header along with every request that is no secret.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Sends these headers, whose values may be secrets, along with every request; `own` may not be among them.
    pub fn with_headers(mut self, headers: &std::collections::BTreeMap<String, String>, own: &[HeaderName]) -> Result<Self, Error> {
        service::add_headers(&mut self.headers, headers, own)?;
        for value in headers.values() {
            self.secrets.add_words(value);
        }
        Ok(self)
    }

    /// Where it is.
    pub fn base(&self) -> &Url {
        &self.base
    }

    /// The address of `path` below the base. Its parts are escaped where they must be.
    pub fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        // Checked when it was read: it has a host.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    /// A worker thread's own client. It keeps connections and uses them again; it follows no redirects.
    pub fn client(&self) -> Result<Client, reqwest::Error> {
        service::client(&self.base, self.connect)
    }

    /// The same with other limits of time.
    #[cfg(test)]
    #[must_use]
    pub fn waiting(self, wait: Duration) -> Self {
        Self { connect: wait, idle: wait, ..self }
    }

    /// An error's text for people: without secrets, and without pieces of them.
    fn presentable(&self, mut error: CallError) -> CallError {
        error.message = service::clipped(&self.secrets.hide(&error.message));
        error
    }
}

/// A model behind a service.
#[derive(Debug)]
pub struct Http<A> {
    api: Arc<A>,
    client: Client,
}

impl<A: Api> Http<A> {
    /// A provider that calls through `client`, which its [`Connection`] made on this thread.
    pub fn new(api: Arc<A>, client: Client) -> Self {
        Self { api, client }
    }
}

impl<A: Api> Provider for Http<A> {
    fn is_agent(&self) -> bool {
        A::IS_AGENT
    }

    fn asks_for_branch(&self) -> bool {
        self.api.asks_for_branch()
    }

    fn start(&self, request: CallRequest) -> Attempt {
        let (api, client) = (Arc::clone(&self.api), self.client.clone());
        let presented = Arc::clone(&self.api);
        async move {
            let response = head(&*api, &client, &request).await?;
            let body = response.bytes_stream().map_err(|error| service::reasons(&error));
            Ok(Reply::new(body.boxed(), api.connection().idle, api.translator(&request)))
        }
        .map(|reply| match reply {
            Ok(reply) => reply.left_stream(),
            Err(error) => streams::iter([Err(error)]).right_stream(),
        })
        .flatten_stream()
        .map_err(move |error| presented.connection().presentable(error))
        .boxed_local()
    }
}

/// Sends the request and waits for an answer that streams.
async fn head<A: Api>(api: &A, client: &Client, request: &CallRequest) -> Result<Response, CallError> {
    let Outgoing { url, body } = api.outgoing(request)?;
    let connection = api.connection();
    let sent = client.post(url).headers(connection.headers.clone()).body(body).send();
    let response = tokio::time::timeout(connection.connect + connection.idle, sent)
        .await
        .map_err(|_| silent(connection.idle))?
        .map_err(|error| failure::of_connection(&error))?;
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if response.status().is_success() && (kind.is_empty() || is_event_stream(kind)) {
        return Ok(response);
    }
    Err(explained(connection, response).await)
}

fn is_event_stream(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("text/event-stream")
}

/// Reads why a request was refused, within limits of time and size.
async fn explained(connection: &Connection, mut response: Response) -> CallError {
    let (status, headers) = (response.status(), response.headers().clone());
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(bytes)) = response.chunk().await {
            body.extend_from_slice(&bytes[..bytes.len().min(EXPLANATION_BYTES_MAX - body.len())]);
            if body.len() == EXPLANATION_BYTES_MAX {
                break;
            }
        }
    };
    // Whatever came until then explains something.
    let _ = tokio::time::timeout(connection.idle, read).await;
    failure::of_answer(status.as_u16(), &headers, &String::from_utf8_lossy(&body))
}

fn silent(idle: Duration) -> CallError {
    CallError::new(CallErrorKind::TimedOut, format!("the provider was silent for {} s", idle.as_secs_f64()))
}
