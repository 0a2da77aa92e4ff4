//! A worker that is reached over HTTP: each attempt of a decision is one signed POST, its answer is the decision's. May not know retries,
//! or what an answer comes to.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use reqwest::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};

use super::breaker::Breaker;
use super::signature::Signer;
use super::{Asking, Error, Worker};
use crate::clock;
use crate::protocol::{DecisionAnswer, DecisionRequest, Digest, Limits, Trigger};
use crate::service::{self, Secrets};

/// So much of an explanation is read, in bytes.
const EXPLANATION_BYTES_MAX: usize = 4 << 10;

/// So much of what a worker names is repeated, in characters.
const NAME_CHARS_MAX: usize = 80;

/// How a worker is reached: checked options, which all threads share.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) url: Url,
    pub(super) signer: Signer,
    /// Values that no text may show.
    pub(super) secrets: Secrets,
    pub(super) connect: Duration,
    pub(super) answer_bytes_max: usize,
    /// What an answer is held to.
    pub(super) limits: Limits,
    pub(super) breaker: Arc<Breaker>,
}

/// A worker behind a URL, asked through the client of one thread.
#[derive(Debug)]
pub(super) struct Http {
    connection: Arc<Connection>,
    client: Client,
}

/// What a worker said in time.
enum Said {
    /// Its answer.
    Answer(DecisionAnswer),
    /// That its answer comes by another way.
    Later,
}

impl Http {
    pub(super) fn new(connection: Arc<Connection>, client: Client) -> Self {
        Self { connection, client }
    }
}

impl Worker for Http {
    fn decide(&self, request: DecisionRequest) -> Asking {
        let (connection, client) = (self.connection.clone(), self.client.clone());
        async move { connection.ask(&client, &request).await }.boxed_local()
    }
}

impl Connection {
    async fn ask(&self, client: &Client, request: &DecisionRequest) -> Result<DecisionAnswer, Error> {
        let attempt = self.breaker.enter(request.deadline).map_err(|pause| {
            let message = "the worker failed again and again, and isn't asked for a moment".to_owned();
            Error::Busy { message, pause }
        })?;
        let left = Duration::from_millis(request.deadline.saturating_sub(clock::now()));
        let said = tokio::time::timeout(left, self.exchange(client, request)).await.unwrap_or(Err(Error::TimedOut));
        // Who answers, if only nonsense, is there.
        attempt.ended(matches!(said, Ok(_) | Err(Error::BadAnswer(_))));
        match said? {
            Said::Answer(answer) => Ok(answer),
            // Whoever gives the answer ends the attempt, or its deadline does.
            Said::Later => std::future::pending().await,
        }
    }

    async fn exchange(&self, client: &Client, request: &DecisionRequest) -> Result<Said, Error> {
        let body = serde_json::to_vec(request).map_err(|error| Error::Failed(format!("the decision can't be written: {error}")))?;
        let response = self.post(client, request, body.into()).await?;
        match response.status() {
            StatusCode::ACCEPTED => Ok(Said::Later),
            StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT => Ok(Said::Answer(DecisionAnswer::default())),
            status if status.is_success() => self.answer(response).await.map(Said::Answer),
            status => Err(self.refused(status, response).await),
        }
    }

    async fn post(&self, client: &Client, request: &DecisionRequest, body: Bytes) -> Result<Response, Error> {
        let sent = self.signed(client, request, &body).body(body.clone()).send().await;
        let sent = match sent {
            // A connection that waited was closed just now; asking again is what at least once means.
            Err(error) if !error.is_connect() && !error.is_timeout() && may_be_repeated(request) => {
                self.signed(client, request, &body).body(body).send().await
            }
            sent => sent,
        };
        sent.map_err(|error| {
            let reasons = self.presentable(&service::reasons(&error));
            if error.is_connect() {
                return Error::Unreached(format!("the worker can't be reached: {reasons}"));
            }
            let what = if error.is_timeout() {
                "the worker can't be reached"
            } else {
                "the worker closed the connection before it answered, or what it says isn't HTTP"
            };
            Error::Failed(format!("{what}: {reasons}"))
        })
    }

    fn signed(&self, client: &Client, request: &DecisionRequest, body: &[u8]) -> RequestBuilder {
        let (id, timestamp) = (request.decision_id.as_str(), clock::now() / 1000);
        let post = client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", timestamp)
            .header("traceparent", traceparent(request))
            .header("headwater-attempt", request.attempt)
            .header("headwater-deadline", request.deadline);
        match self.signer.sign(id, timestamp, body) {
            Some(signature) => post.header("webhook-signature", signature),
            None => post,
        }
    }

    async fn answer(&self, response: Response) -> Result<DecisionAnswer, Error> {
        let kind = essence(response.headers());
        if kind == "text/event-stream" {
            return Err(Error::bad("the worker answered with a stream of events, which isn't available yet; answer with application/json"));
        }
        if !kind.is_empty() && kind != "application/json" && !kind.ends_with("+json") {
            let kind: String = kind.chars().take(NAME_CHARS_MAX).collect();
            return Err(Error::bad(format!("the worker answered with {kind}; answer with application/json")));
        }
        if response.headers().get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
            return Err(Error::bad("the worker's answer is packed; send it without Content-Encoding"));
        }
        let body = self.body(response).await?;
        if body.trim_ascii().is_empty() {
            return Ok(DecisionAnswer::default());
        }
        Ok(DecisionAnswer::decode(&body, &self.limits)?)
    }

    /// The whole body, as long as it isn't too large: not a byte more is read.
    async fn body(&self, mut response: Response) -> Result<Vec<u8>, Error> {
        let most = self.answer_bytes_max;
        let too_large = || Error::bad(format!("the worker's answer has more than {most} bytes; say less, or raise `answer_bytes_max`"));
        if response.content_length().is_some_and(|length| length > most as u64) {
            return Err(too_large());
        }
        let mut body = Vec::new();
        loop {
            let piece = response.chunk().await.map_err(|error| {
                let reasons = self.presentable(&service::reasons(&error));
                Error::Failed(format!("the worker closed the connection in the middle of its answer: {reasons}"))
            })?;
            let Some(piece) = piece else { return Ok(body) };
            if piece.len() > most - body.len() {
                return Err(too_large());
            }
            body.extend_from_slice(&piece);
        }
    }

    /// Why a decision was refused: the status, and what to do about it.
    async fn refused(&self, status: StatusCode, response: Response) -> Error {
        let pause = service::retry_after_ms(response.headers());
        let advice = match status.as_u16() {
            300..=399 => ": redirects are not followed; give `url` the address that it points to",
            401 | 403 => ": it may have another secret than `secret` names",
            404 | 405 | 410 => ": it may take decisions at another `url`",
            413 => ": the conversation is larger than it takes",
            _ => "",
        };
        let said = self.explanation(response).await.map(|said| format!("; it says: {said}")).unwrap_or_default();
        let message = service::clipped(&format!("the worker answered {}{advice}{said}", status.as_u16()));
        match pause {
            Some(pause) => Error::Busy { message, pause },
            None if status.is_client_error() => Error::Unreached(message),
            None => Error::Failed(message),
        }
    }

    /// What a worker says about it, when it says it to programs.
    async fn explanation(&self, mut response: Response) -> Option<String> {
        let kind = essence(response.headers());
        if kind != "text/plain" && kind != "application/json" && !kind.ends_with("+json") {
            return None;
        }
        let mut body = Vec::new();
        while body.len() < EXPLANATION_BYTES_MAX
            && let Ok(Some(piece)) = response.chunk().await
        {
            body.extend_from_slice(&piece[..piece.len().min(EXPLANATION_BYTES_MAX - body.len())]);
        }
        let said = self.presentable(String::from_utf8_lossy(&body).trim());
        Some(said).filter(|said| !said.is_empty())
    }

    fn presentable(&self, text: &str) -> String {
        service::clipped(&self.secrets.hide(text))
    }
}

/// Whether a question that may have arrived is asked once more at once: what it has done may not be done twice.
fn may_be_repeated(request: &DecisionRequest) -> bool {
    !matches!(request.trigger, Trigger::ToolExecute { .. })
}

/// The type of a body, in lower case.
fn essence(headers: &HeaderMap) -> String {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// One trace a turn, one span an attempt: the same whoever asks.
fn traceparent(request: &DecisionRequest) -> String {
    let trace = Digest::default().then(request.session_id.as_str().as_bytes()).then(request.turn_id.as_str().as_bytes());
    let span = trace.then(request.decision_id.as_str().as_bytes()).then(&request.attempt.to_be_bytes()).to_string();
    format!("00-{trace}-{}-01", &span[..16])
}
