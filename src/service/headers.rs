//! Headers that the configuration adds to requests. May not know to what.

use std::collections::BTreeMap;

use reqwest::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};

use super::Wrong;

/// Headers that belong to every request.
const OWN: [HeaderName; 5] = [ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING];

/// Adds headers that the configuration asks for; those of every request and `own` may not be among them. No dump shows their values.
pub fn add_headers(headers: &mut HeaderMap, more: &BTreeMap<String, String>, own: &[HeaderName]) -> Result<(), Wrong> {
    for (name, value) in more {
        let key = format!("headers.{name}");
        let fault = |message: &str| Wrong::new(key.clone(), message);
        let name = HeaderName::try_from(name).map_err(|_| fault("is no name of an HTTP header"))?;
        if OWN.contains(&name) || own.contains(&name) {
            return Err(fault("is set by Headwater"));
        }
        let mut value = HeaderValue::try_from(value).map_err(|_| fault("has characters that can't stand in an HTTP header"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(())
}
