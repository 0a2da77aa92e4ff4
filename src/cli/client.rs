//! A small client of the native API: JSON in, JSON out, and a session's events. Knows HTTP; may not know what its answers are for.

use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{RequestBuilder, Response, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::error::Error;
use super::told::Told;
use crate::protocol::{Code, Refusal};
use crate::service;
use crate::sse::Decoder;

/// A connection must be there within so long.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// An answer must be whole within so long; a whole session may travel in it.
const ANSWER_WITHIN: Duration = Duration::from_mins(5);
/// A stream that says nothing for so long, not even that it is alive, is lost.
const SILENT_MAX: Duration = Duration::from_mins(1);
/// The largest answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// The largest event that is read, in bytes: a whole conversation may be in it.
const EVENT_BYTES_MAX: usize = 64 << 20;

/// A server of Headwater's. Clones share connections.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
}

impl Client {
    /// Of the server at `address`; `http://` may be left out.
    pub fn new(address: &str) -> Result<Self, Error> {
        let wrong = |what: String| Error::Address { given: address.to_owned(), what };
        let with_scheme = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
        let base = Url::parse(&with_scheme).map_err(|error| wrong(error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(wrong(format!("{}:// is not spoken here", base.scheme())));
        }
        if base.query().is_some() || base.fragment().is_some() {
            return Err(wrong("has a ? or # in it".to_owned()));
        }
        let http = service::client(&base, CONNECT_WITHIN).map_err(|error| wrong(error.to_string()))?;
        Ok(Self { http, base })
    }

    /// Where the server is, as it was given.
    pub fn address(&self) -> String {
        self.base.as_str().trim_end_matches('/').to_owned()
    }

    /// Whether a Headwater answers there, within `patience`.
    pub async fn look(&self, patience: Duration) -> Result<(), Error> {
        #[derive(Deserialize)]
        struct Alive {
            server: Option<String>,
        }
        let request = self.http.get(self.url(&["healthz"], &[])?).timeout(patience);
        let (status, body) = self.whole(request).await?;
        match serde_json::from_slice::<Alive>(&body) {
            Ok(Alive { server: Some(server) }) if server == "headwater" => Ok(()),
            Ok(_) | Err(_) => Err(self.stranger(format!("GET /healthz is answered with {status}"))),
        }
    }

    /// Asks for something. `path` is the route's, part by part.
    pub async fn get<T: DeserializeOwned>(&self, path: &[&str], query: &[(&str, &str)]) -> Result<T, Error> {
        self.ask(self.http.get(self.url(path, query)?)).await
    }

    /// Sends JSON.
    pub async fn post<T: DeserializeOwned>(&self, path: &[&str], body: impl Into<reqwest::Body>) -> Result<T, Error> {
        self.ask(self.http.post(self.url(path, &[])?).header(CONTENT_TYPE, "application/json").body(body)).await
    }

    /// A session's events after `cursor`.
    pub async fn events(&self, session: &str, cursor: &str) -> Result<Events, Error> {
        let url = self.url(&["v1", "sessions", session, "events"], &[("after", cursor)])?;
        let request = self.http.get(url).header(ACCEPT, "text/event-stream");
        let response =
            tokio::time::timeout(SILENT_MAX, request.send()).await.map_err(|_| self.silent())?.map_err(|error| self.unreachable(&error))?;
        if response.status().is_success() {
            return Ok(Events { client: self.clone(), response, decoder: Decoder::new(EVENT_BYTES_MAX), ended: false });
        }
        let (status, body) = (response.status().as_u16(), self.body(response).await?);
        Err(self.refusal(status, &body))
    }

    fn url(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Url, Error> {
        // A URL drops such parts, also when they are escaped.
        if let Some(lost) = path.iter().find(|part| matches!(**part, "" | "." | "..")) {
            return Err(Error::Name((*lost).to_owned()));
        }
        let mut url = self.base.clone();
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(url)
    }

    async fn ask<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, Error> {
        let (status, body) = self.whole(request.timeout(ANSWER_WITHIN)).await?;
        if !(200..300).contains(&status) {
            return Err(self.refusal(status, &body));
        }
        serde_json::from_slice(&body).map_err(|error| self.stranger(format!("its answer can't be read: {error}")))
    }

    async fn whole(&self, request: RequestBuilder) -> Result<(u16, Vec<u8>), Error> {
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        Ok((response.status().as_u16(), self.body(response).await?))
    }

    async fn body(&self, mut response: Response) -> Result<Vec<u8>, Error> {
        let mut body = Vec::new();
        while let Some(bytes) = response.chunk().await.map_err(|error| self.unreachable(&error))? {
            if body.len() + bytes.len() > ANSWER_BYTES_MAX {
                return Err(self.stranger(format!("its answer has more than {ANSWER_BYTES_MAX} bytes")));
            }
            body.extend_from_slice(&bytes);
        }
        Ok(body)
    }

    fn refusal(&self, status: u16, body: &[u8]) -> Error {
        /// A refusal, with what may be missing.
        #[derive(Deserialize)]
        struct Answer {
            error: Code,
            message: String,
            #[serde(flatten)]
            details: serde_json::Map<String, serde_json::Value>,
        }
        match serde_json::from_slice(body) {
            Ok(Answer { error, message, details }) => Error::Refused(Refusal { code: error, message, details }),
            Err(_) => self.stranger(format!("it answers with status {status}")),
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> Error {
        // What went wrong is the innermost cause; what lies around it says only who passed it on.
        let mut innermost: &dyn std::error::Error = error;
        while let Some(cause) = innermost.source() {
            innermost = cause;
        }
        let why = innermost.to_string();
        Error::Unreachable { server: self.address(), source: why.into() }
    }

    fn silent(&self) -> Error {
        let source = std::io::Error::new(std::io::ErrorKind::TimedOut, format!("it was silent for {} s", SILENT_MAX.as_secs()));
        Error::Unreachable { server: self.address(), source: Box::new(source) }
    }

    fn stranger(&self, what: String) -> Error {
        Error::Stranger { server: self.address(), what }
    }
}

/// A session's events as they come.
#[derive(Debug)]
pub struct Events {
    client: Client,
    response: Response,
    decoder: Decoder,
    ended: bool,
}

/// An event, and where to go on after it.
#[derive(Debug)]
pub struct Next {
    /// The cursor, when this event has one.
    pub cursor: Option<String>,
    /// What happened.
    pub told: Told,
}

impl Events {
    /// The next event; an error when the stream is lost; nothing when the server ended it.
    pub async fn next(&mut self) -> Result<Option<Next>, Error> {
        loop {
            let pulled = if self.ended { self.decoder.finish() } else { self.decoder.pull() };
            match pulled.map_err(|error| self.client.stranger(error.to_string()))? {
                Some(event) if event.name == "refusal" => return Err(self.client.refusal(200, event.data.as_bytes())),
                Some(event) => {
                    let cursor = Some(event.id).filter(|id| !id.is_empty()).map(str::to_owned);
                    return Ok(Some(Next { cursor, told: Told::read(event.data) }));
                }
                None if self.ended => return Ok(None),
                None => {}
            }
            let chunk = tokio::time::timeout(SILENT_MAX, self.response.chunk()).await.map_err(|_| self.client.silent())?;
            match chunk.map_err(|error| self.client.unreachable(&error))? {
                Some(bytes) => self.decoder.push(&bytes),
                None => self.ended = true,
            }
        }
    }
}
