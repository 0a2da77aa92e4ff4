//! Chat completions as `OpenAI` made them, and as many services speak them. One attempt of one call: the request goes out when
//! the stream is first polled, pieces come as the network brings them, dropping the stream closes the connection.
//! May not know other providers, retries, or where a key came from.

mod event;
mod failure;
mod halves;
mod request;
mod stream;
#[cfg(test)]
mod tests;
mod translate;

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, TryStreamExt, stream as streams};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Response, Url};
use serde_json::{Map, Value};

use super::{Attempt, Error, OpenaiOptions, Provider, install_tls, json};
use crate::protocol::{CallError, CallErrorKind, CallRequest};
use stream::Reply;

/// Fields of the body that are Headwater's own.
const OWN_FIELDS: [&str; 4] = ["model", "messages", "tools", "stream"];

/// An explanation of an error is read up to so many bytes.
const EXPLANATION_BYTES_MAX: usize = 64 << 10;

/// Checked options.
#[derive(Debug)]
pub struct Settings {
    url: Url,
    headers: HeaderMap,
    key: Option<Key>,
    model: String,
    temperature: Option<f64>,
    max_tokens: Option<u64>,
    extra: Map<String, Value>,
    connect: Duration,
    idle: Duration,
}

/// A key that no dump shows.
struct Key(String);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[key]")
    }
}

impl Settings {
    /// Checks `options`; `key` is the secret that they refer to.
    pub fn new(options: &OpenaiOptions, key: Option<String>) -> Result<Self, Error> {
        if options.model.is_empty() {
            return Err(Error::option("model", "is empty; give the model's name"));
        }
        if options.temperature.is_some_and(|temperature| !temperature.is_finite()) {
            return Err(Error::option("temperature", "must be a finite number"));
        }
        Ok(Self {
            url: url(&options.base_url)?,
            headers: headers(key.as_deref())?,
            key: key.map(Key),
            model: options.model.clone(),
            temperature: options.temperature,
            max_tokens: options.max_tokens,
            extra: extra(options)?,
            connect: seconds("connect_secs", options.connect_secs)?,
            idle: seconds("idle_secs", options.idle_secs)?,
        })
    }

    fn is_local(&self) -> bool {
        matches!(self.url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"))
    }

    /// An error's text for people: without the key, then clipped, so that no half of it stays either.
    fn presentable(&self, mut error: CallError) -> CallError {
        if let Some(Key(key)) = &self.key {
            error.message = error.message.replace(key, "[key]");
        }
        error.message = failure::clipped(&error.message);
        error
    }
}

fn url(base_url: &str) -> Result<Url, Error> {
    let fault = |message: &str| Error::option("base_url", format!("{message}; it looks like \"https://api.openai.com/v1\""));
    let url = Url::parse(&format!("{}/chat/completions", base_url.trim_end_matches('/'))).map_err(|error| fault(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(fault("begins with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(fault("has no user and no password in it; the key is `api_key`"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(fault("has no ? and no # in it"));
    }
    Ok(url)
}

fn headers(key: Option<&str>) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    if let Some(key) = key {
        let mut value = HeaderValue::try_from(format!("Bearer {key}"))
            .map_err(|_| Error::option("api_key", "has characters that can't stand in an HTTP header"))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

fn extra(options: &OpenaiOptions) -> Result<Map<String, Value>, Error> {
    let mut extra = Map::new();
    for (name, value) in &options.extra {
        let key = format!("extra.{name}");
        if OWN_FIELDS.contains(&name.as_str()) {
            return Err(Error::option(key, format!("is set by Headwater; so are {}", OWN_FIELDS.join(", "))));
        }
        let value = json::from_toml(value.clone()).map_err(|message| Error::option(key, message))?;
        extra.insert(name.clone(), value);
    }
    Ok(extra)
}

fn seconds(key: &str, seconds: u64) -> Result<Duration, Error> {
    match seconds {
        1..=86_400 => Ok(Duration::from_secs(seconds)),
        _ => Err(Error::option(key, format!("is {seconds}; 1 to 86400 are allowed"))),
    }
}

/// A worker thread's own client. It keeps connections and uses them again; it follows no redirects.
pub fn client(settings: &Settings) -> Result<Client, reqwest::Error> {
    install_tls();
    let builder = Client::builder()
        .user_agent(concat!("headwater/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(settings.connect)
        .tcp_nodelay(true);
    // Plain HTTP needs no certificates, which a bare machine doesn't have; this machine itself needs no proxy.
    let builder = if settings.url.scheme() == "http" { builder.tls_certs_only([]) } else { builder };
    let builder = if settings.is_local() { builder.no_proxy() } else { builder };
    builder.build()
}

/// A model behind chat completions.
#[derive(Debug)]
pub struct Openai {
    settings: Arc<Settings>,
    client: Client,
}

impl Openai {
    /// A provider that calls through `client`, which [`client`] made on this thread.
    pub fn new(settings: Arc<Settings>, client: Client) -> Self {
        Self { settings, client }
    }
}

impl Provider for Openai {
    fn start(&self, request: CallRequest) -> Attempt {
        let (settings, client) = (Arc::clone(&self.settings), self.client.clone());
        let presented = Arc::clone(&self.settings);
        async move { head(&settings, &client, &request).await.map(|response| reply(&settings, response)) }
            .map(|reply| match reply {
                Ok(reply) => reply.left_stream(),
                Err(error) => streams::iter([Err(error)]).right_stream(),
            })
            .flatten_stream()
            .map_err(move |error| presented.presentable(error))
            .boxed_local()
    }
}

/// Sends the request and waits for an answer that streams.
async fn head(settings: &Settings, client: &Client, request: &CallRequest) -> Result<Response, CallError> {
    let body = request::body(settings, request)?;
    let sent = client.post(settings.url.clone()).headers(settings.headers.clone()).body(body).send();
    let response = tokio::time::timeout(settings.connect + settings.idle, sent)
        .await
        .map_err(|_| CallError::new(CallErrorKind::TimedOut, silent(settings.idle)))?
        .map_err(|error| failure::of_connection(&error))?;
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if response.status().is_success() && (kind.is_empty() || is_event_stream(kind)) {
        return Ok(response);
    }
    Err(explained(settings, response).await)
}

fn is_event_stream(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("text/event-stream")
}

/// Reads why a request was refused, within limits of time and size.
async fn explained(settings: &Settings, mut response: Response) -> CallError {
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
    let _ = tokio::time::timeout(settings.idle, read).await;
    failure::of_answer(status.as_u16(), &headers, &String::from_utf8_lossy(&body))
}

fn reply(settings: &Settings, response: Response) -> Reply {
    let body = response.bytes_stream().map_err(|error| failure::chain(&error));
    Reply::new(body.boxed(), settings.idle)
}

fn silent(idle: Duration) -> String {
    format!("the provider was silent for {} s", idle.as_secs_f64())
}
