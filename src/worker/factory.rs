//! From options to workers: what is wrong is found once, before the server starts; then each worker thread makes its own without failing.

use std::path::Path;
use std::sync::Arc;

use super::breaker::Breaker;
use super::http::{Connection, Http};
use super::options::{asked, between};
use super::signature::Signer;
use super::{Asking, Configured, Error, HttpOptions, SetupError, SocketOptions, Worker, socket};
use crate::ids::AgentId;
use crate::protocol::native::Token;
use crate::protocol::{DecisionRequest, Limits};
use crate::service::{self, Secrets};

const EXAMPLE: &str = "https://agents.example.com/decide";

/// An agent's worker that gets decisions by POST. What it answers is held to `limits`. Paths are relative to `base_dir`.
pub fn http(options: &HttpOptions, agent: &AgentId, limits: Limits, base_dir: &Path) -> Result<Configured, SetupError> {
    let patience = options.patience();
    patience.check()?;
    asked(&options.triggers)?;
    between("answer_bytes_max", options.answer_bytes_max as u64, 1 << 30)?;
    between("breaker_failures", options.breaker_failures.into(), 1_000_000)?;
    let url = service::address("url", &options.url, EXAMPLE, "secret")?;
    let (mut signer, mut secrets) = (Signer::default(), Secrets::default());
    for (key, secret) in [("secret", &options.secret), ("old_secret", &options.old_secret)] {
        if let Some(secret) = secret {
            let secret = secret.resolve(key, base_dir)?;
            signer.add(key, &secret)?;
            secrets.add(&secret);
        }
    }
    // What a query holds may be a key.
    secrets.add_words(&url.query().unwrap_or_default().replace(['=', '&'], " "));
    let pause = service::seconds("breaker_secs", options.breaker_secs)?;
    let connection = Arc::new(Connection {
        breaker: Arc::new(Breaker::new(agent.clone(), options.breaker_failures, pause)),
        connect: service::seconds("connect_secs", options.connect_secs)?,
        answer_bytes_max: options.answer_bytes_max,
        url,
        signer,
        secrets,
        limits,
    });
    // What would fail on every worker thread fails here.
    let host = || connection.url.host_str().unwrap_or_default().to_owned();
    connection.client().map_err(|source| SetupError::Client { host: host(), source })?;
    let factory = Arc::new(move || -> Box<dyn Worker> {
        match connection.client() {
            Ok(client) => Box::new(Http::new(connection.clone(), client)),
            Err(error) => Box::new(Unusable(error.to_string())),
        }
    });
    Ok(Configured { factory, patience, triggers: options.triggers.clone() })
}

/// An agent whose workers dial in. Paths are relative to `base_dir`.
pub fn dials_in(options: &SocketOptions, base_dir: &Path) -> Result<socket::Agent, SetupError> {
    options.patience().check()?;
    asked(&options.triggers)?;
    between("answer_bytes_max", options.answer_bytes_max as u64, 1 << 30)?;
    between("sockets_max", options.sockets_max as u64, 10_000)?;
    between("waiting_max", options.waiting_max as u64, 1_000_000)?;
    let token = options.token.as_ref().map(|token| token.resolve("token", base_dir)).transpose()?;
    Ok(socket::Agent {
        token: token.map(|token| Token::from(token.as_str())),
        answer_bytes_max: options.answer_bytes_max,
        sockets_max: options.sockets_max,
        waiting_max: options.waiting_max,
    })
}

impl Connection {
    /// A worker thread's own client.
    fn client(&self) -> Result<reqwest::Client, reqwest::Error> {
        service::client(&self.url, self.connect)
    }
}

/// Stands in for a worker whose client could be made at the start and can't now.
struct Unusable(String);

impl Worker for Unusable {
    fn decide(&self, _: DecisionRequest) -> Asking {
        Box::pin(std::future::ready(Err(Error::Failed(format!("no HTTP client could be made: {}", self.0)))))
    }
}
