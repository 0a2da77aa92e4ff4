//! Anthropic's messages API, and services that speak it. May not know other providers, the network, retries, or where a key came
//! from.

mod block;
mod content;
mod event;
mod request;
#[cfg(test)]
mod tests;
mod translate;

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use serde_json::{Map, Value};

use super::http::{self, Api, Connection, Outgoing};
use super::{AnthropicOptions, Error};
use crate::protocol::{CallError, CallRequest};
use translate::Translator;

/// Whose opaque values are sent back.
const MAKER: &str = "anthropic";

/// Fields of the body that are Headwater's own.
const OWN_FIELDS: [&str; 4] = ["model", "messages", "system", "stream"];

const KEY_HEADER: HeaderName = HeaderName::from_static("x-api-key");
const VERSION_HEADER: HeaderName = HeaderName::from_static("anthropic-version");
const VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

/// A model behind the messages API: checked options.
#[derive(Debug)]
pub struct Anthropic {
    connection: Connection,
    url: Url,
    model: String,
    temperature: Option<f64>,
    max_tokens: u64,
    /// Tools that run at the service, besides those of the request.
    tools: Vec<Value>,
    extra: Map<String, Value>,
}

impl Anthropic {
    /// Checks `options`; `key` is the secret that they refer to.
    pub fn new(options: &AnthropicOptions, key: Option<String>) -> Result<Self, Error> {
        let model = http::model(&options.model)?;
        let temperature = http::finite("temperature", options.temperature)?;
        if options.max_tokens == 0 {
            return Err(Error::option("max_tokens", "is 0; at least 1 is needed"));
        }
        let connection = Connection::new(&options.base_url, "https://api.anthropic.com/v1", options.connect_secs, options.idle_secs)?
            .with_header(VERSION_HEADER, VERSION)
            .with_headers(&options.headers, &[KEY_HEADER, AUTHORIZATION])?
            .with_key(KEY_HEADER, key, str::to_owned)?;
        let mut extra = http::extra(&options.extra, &OWN_FIELDS)?;
        let tools = match extra.remove("tools") {
            None => Vec::new(),
            Some(Value::Array(tools)) => tools,
            Some(_) => return Err(Error::option("extra.tools", "a list of tools is expected; they are added to the request's own")),
        };
        let url = connection.url(&["messages"]);
        Ok(Self { connection, url, model, temperature, max_tokens: options.max_tokens, tools, extra })
    }
}

impl Api for Anthropic {
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
