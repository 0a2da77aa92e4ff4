//! Options that services have in common: checked, each fault named with what is allowed. May not know which service.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::provider::{Error, json};

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
