//! Gemini, as Google serves it: `streamGenerateContent` with server-sent events. May not know other providers, retries, or where a
//! key came from.

mod contents;
mod event;
mod opaque;
mod request;
#[cfg(test)]
mod tests;
mod translate;

use reqwest::header::HeaderName;
use serde_json::{Map, Value};

use super::http::{self, Api, Connection, Outgoing};
use super::{Error, GeminiOptions, opaque as opaques};
use crate::protocol::{CallError, CallRequest};

pub use translate::Translator;

/// Its name in reports and opaque parts.
const SERVICE: &str = "gemini";

/// Fields of the body that are Headwater's own.
const OWN_FIELDS: [&str; 2] = ["contents", "systemInstruction"];

/// Checked options.
#[derive(Debug)]
pub struct Gemini {
    connection: Connection,
    model: String,
    temperature: Option<f64>,
    max_tokens: Option<u64>,
    /// Tools of the service's own.
    tools: Vec<Value>,
    generation_config: Map<String, Value>,
    extra: Map<String, Value>,
}

impl Gemini {
    /// Checks `options`; `key` is the secret that they refer to.
    pub fn new(options: &GeminiOptions, key: Option<String>) -> Result<Self, Error> {
        let model = http::model(&options.model)?;
        let temperature = http::finite("temperature", options.temperature)?;
        let example = "https://generativelanguage.googleapis.com/v1beta";
        let connection = Connection::new(&options.base_url, example, options.connect_secs, options.idle_secs)?.with_key(
            HeaderName::from_static("x-goog-api-key"),
            key,
            str::to_owned,
        )?;
        let mut extra = http::extra(&options.extra, &OWN_FIELDS)?;
        Ok(Self {
            connection,
            model,
            temperature,
            max_tokens: options.max_tokens,
            tools: match extra.shift_remove("tools") {
                None => Vec::new(),
                Some(Value::Array(tools)) => tools,
                Some(_) => return Err(Error::option("extra.tools", "is a list of tools, like [{ googleSearch = {} }]")),
            },
            generation_config: match extra.shift_remove("generationConfig") {
                None => Map::new(),
                Some(Value::Object(config)) => config,
                Some(_) => return Err(Error::option("extra.generationConfig", "is a table")),
            },
            extra,
        })
    }
}

impl Api for Gemini {
    type Translator = Translator;

    fn connection(&self) -> &Connection {
        &self.connection
    }

    fn outgoing(&self, request: &CallRequest) -> Result<Outgoing, CallError> {
        let model = request.model.as_deref().unwrap_or(&self.model);
        let mut url = self.connection.url(&path(model).iter().map(String::as_str).collect::<Vec<_>>());
        url.set_query(Some("alt=sse"));
        Ok(Outgoing { url, body: request::body(self, request)? })
    }

    fn translator(&self, _: &CallRequest) -> Translator {
        Translator::default()
    }
}

/// Where a model is asked: `models/<model>`, or the address that its name gives, as `tunedModels/<model>`.
fn path(model: &str) -> Vec<String> {
    let folder = if model.contains('/') { None } else { Some("models".to_owned()) };
    let mut path: Vec<String> = folder.into_iter().chain(model.split('/').map(str::to_owned)).collect();
    if let Some(last) = path.last_mut() {
        last.push_str(":streamGenerateContent");
    }
    path
}

/// Puts `more` over `fields`: tables are merged, anything else is replaced.
fn merge(fields: &mut Map<String, Value>, more: &Map<String, Value>) {
    for (name, value) in more {
        match (fields.get_mut(name), value) {
            (Some(Value::Object(fields)), Value::Object(more)) => merge(fields, more),
            (_, value) => {
                fields.insert(name.clone(), value.clone());
            }
        }
    }
}

/// An opaque value, to be recorded.
fn kept(value: &str) -> String {
    opaques::kept(SERVICE, value)
}

/// A recorded opaque value, when it is from here.
fn made(kept: Option<&str>) -> Option<&str> {
    opaques::made_by(SERVICE, kept)
}
