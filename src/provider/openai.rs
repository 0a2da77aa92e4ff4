//! Chat completions as `OpenAI` made them, and as many services speak them. May not know other providers, the network, retries,
//! or where a key came from.

mod event;
mod request;
#[cfg(test)]
mod tests;
mod translate;

use reqwest::Url;
use reqwest::header::AUTHORIZATION;
use serde_json::{Map, Value};

use super::http::{self, Api, Connection, Outgoing};
use super::{Error, OpenaiOptions};
use crate::protocol::{CallError, CallRequest};
use translate::Translator;

/// Fields of the body that are Headwater's own.
const OWN_FIELDS: [&str; 4] = ["model", "messages", "tools", "stream"];

/// A model behind chat completions: checked options.
#[derive(Debug)]
pub struct Openai {
    connection: Connection,
    url: Url,
    model: String,
    temperature: Option<f64>,
    max_tokens: Option<u64>,
    extra: Map<String, Value>,
}

impl Openai {
    /// Checks `options`; `key` is the secret that they refer to.
    pub fn new(options: &OpenaiOptions, key: Option<String>) -> Result<Self, Error> {
        let model = http::model(&options.model)?;
        let temperature = http::finite("temperature", options.temperature)?;
        let connection = Connection::new(&options.base_url, "https://api.openai.com/v1", options.connect_secs, options.idle_secs)?
            .with_key(AUTHORIZATION, key, |key| format!("Bearer {key}"))?;
        Ok(Self {
            url: connection.url(&["chat", "completions"]),
            connection,
            model,
            temperature,
            max_tokens: options.max_tokens,
            extra: http::extra(&options.extra, &OWN_FIELDS)?,
        })
    }
}

impl Api for Openai {
    type Translator = Translator;

    fn connection(&self) -> &Connection {
        &self.connection
    }

    fn outgoing(&self, request: &CallRequest) -> Result<Outgoing, CallError> {
        Ok(Outgoing { url: self.url.clone(), body: request::body(self, request)? })
    }

    fn translator(&self, _: &CallRequest) -> Translator {
        Translator::default()
    }
}
