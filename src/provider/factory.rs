//! From options to providers: secrets are resolved and scripts loaded once, before the server starts; then each worker thread
//! makes its own provider without failing.

use std::path::Path;
use std::sync::Arc;

use futures_util::{StreamExt, stream};

use super::openai::{Openai, Settings, client};
use super::{Attempt, Error, Factory, OpenaiOptions, Options, Provider, Secret, script};
use crate::protocol::{CallError, CallErrorKind, CallRequest};

const ATTEMPTS_DEFAULT: u32 = 3;
const ATTEMPTS_MAX: u32 = 100;

/// What makes each worker thread's provider. Paths are relative to `base_dir`, the configuration file's folder.
pub fn factory(options: &Options, base_dir: &Path) -> Result<Factory, Error> {
    if !(1..=ATTEMPTS_MAX).contains(&attempts(options)) {
        return Err(Error::option("attempts", format!("is {}; 1 to {ATTEMPTS_MAX} are allowed", attempts(options))));
    }
    match options {
        Options::Script(options) => {
            let script = script::Script::load(options, base_dir)?;
            Ok(Arc::new(move || Box::new(script.clone())))
        }
        Options::Openai(options) => openai(options, base_dir),
    }
}

/// Attempts of a call, the first included.
pub fn attempts(options: &Options) -> u32 {
    match options {
        Options::Script(options) => options.attempts,
        Options::Openai(options) => options.attempts,
    }
    .unwrap_or(ATTEMPTS_DEFAULT)
}

/// Makes ring the process's provider of TLS, once. Every client needs it.
pub fn install_tls() {
    // An error says that there is one already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn openai(options: &OpenaiOptions, base_dir: &Path) -> Result<Factory, Error> {
    let key = options.api_key.as_ref().map(|secret| resolve(secret, base_dir)).transpose()?;
    let settings = Arc::new(Settings::new(options, key)?);
    // What would fail on every worker thread fails here.
    client(&settings).map_err(|source| Error::Client { base_url: options.base_url.clone(), source })?;
    Ok(Arc::new(move || match client(&settings) {
        Ok(client) => Box::new(Openai::new(Arc::clone(&settings), client)),
        Err(error) => Box::new(Unusable(error.to_string())),
    }))
}

fn resolve(secret: &Secret, base_dir: &Path) -> Result<String, Error> {
    let (from, value) = match secret {
        Secret::Env(name) => (name.clone(), std::env::var(name).map_err(|_| Error::SecretNotSet { name: name.clone() })?),
        Secret::File(path) => {
            let file = base_dir.join(path);
            let value = std::fs::read_to_string(&file).map_err(|source| Error::SecretUnreadable { file: file.clone(), source })?;
            (file.display().to_string(), value)
        }
    };
    let value = value.trim();
    if value.is_empty() {
        return Err(Error::SecretUnusable { from, fault: "is empty" });
    }
    if !value.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Error::SecretUnusable { from, fault: "has characters that can't stand in an HTTP header" });
    }
    Ok(value.to_owned())
}

/// Stands in for a provider whose client could be made at the start and can't now.
struct Unusable(String);

impl Provider for Unusable {
    fn start(&self, _: CallRequest) -> Attempt {
        let error = CallError::new(CallErrorKind::Unavailable, format!("no HTTP client could be made: {}", self.0));
        stream::iter([Err(error)]).boxed_local()
    }
}
