//! Options that services have in common: checked, each fault named with what is allowed. May not know which service.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};
use serde_json::{Map, Value};

use crate::provider::{Error, json};

/// Headers that belong to every request.
const OWN_HEADERS: [HeaderName; 5] = [ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING];

/// The address below which everything is.
pub(super) fn base(base_url: &str, example: &str) -> Result<Url, Error> {
    let fault = |message: &str| Error::option("base_url", format!("{message}; it looks like \"{example}\""));
    let url = Url::parse(base_url.trim_end_matches('/')).map_err(|error| fault(&error.to_string()))?;
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

pub(super) fn seconds(key: &str, seconds: u64) -> Result<Duration, Error> {
    match seconds {
        1..=86_400 => Ok(Duration::from_secs(seconds)),
        _ => Err(Error::option(key, format!("is {seconds}; 1 to 86400 are allowed"))),
    }
}

/// Adds headers that the configuration asks for.
pub(super) fn add_headers(headers: &mut HeaderMap, more: &BTreeMap<String, String>, own: &[HeaderName]) -> Result<(), Error> {
    for (name, value) in more {
        let key = format!("headers.{name}");
        let fault = |message: &str| Error::option(key.clone(), message);
        let name = HeaderName::try_from(name).map_err(|_| fault("is no name of an HTTP header"))?;
        if OWN_HEADERS.contains(&name) || own.contains(&name) {
            return Err(fault("is set by Headwater"));
        }
        let mut value = HeaderValue::try_from(value).map_err(|_| fault("has characters that can't stand in an HTTP header"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(())
}

/// The model's name.
pub(in crate::provider) fn model(model: &str) -> Result<String, Error> {
    if model.is_empty() {
        return Err(Error::option("model", "is empty; give the model's name"));
    }
    Ok(model.to_owned())
}

/// A number that JSON has.
pub(in crate::provider) fn finite(key: &str, number: Option<f64>) -> Result<Option<f64>, Error> {
    if number.is_some_and(|number| !number.is_finite()) {
        return Err(Error::option(key, "must be a finite number"));
    }
    Ok(number)
}

/// More fields of a request's body; those that are Headwater's `own` are refused.
pub(in crate::provider) fn extra(fields: &BTreeMap<String, toml::Value>, own: &[&str]) -> Result<Map<String, Value>, Error> {
    let mut extra = Map::new();
    for (name, value) in fields {
        let key = format!("extra.{name}");
        if own.contains(&name.as_str()) {
            return Err(Error::option(key, format!("is set by Headwater; so are {}", own.join(", "))));
        }
        let value = json::from_toml(value.clone()).map_err(|message| Error::option(key, message))?;
        extra.insert(name.clone(), value);
    }
    Ok(extra)
}

/// Those fields but `these`, which mean nothing in this request, so that services refuse them.
pub(in crate::provider) fn without<'a>(extra: &'a Map<String, Value>, these: &[&str]) -> Cow<'a, Map<String, Value>> {
    let mut rest = Cow::Borrowed(extra);
    for field in these {
        if rest.contains_key(*field) {
            rest.to_mut().shift_remove(*field);
        }
    }
    rest
}
