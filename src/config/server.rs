//! What `[server]` and `[auth]` say.

use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// `[server]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerOptions {
    /// Where to listen.
    #[serde(deserialize_with = "address")]
    pub listen: SocketAddr,
    /// Worker threads; 0: one a core.
    pub workers: usize,
    /// Origins that browsers may come from; empty: loopback ones.
    pub origins: Vec<Origin>,
    /// The largest body of a POST, in bytes.
    pub body_bytes_max: NonZeroUsize,
    /// The largest WebSocket frame, in bytes.
    pub frame_bytes_max: NonZeroUsize,
    /// The largest WebSocket message, in bytes.
    pub message_bytes_max: NonZeroUsize,
    /// The most messages in one view.
    pub view_messages_max: NonZeroUsize,
    /// The largest content of one message, in bytes.
    pub content_bytes_max: NonZeroUsize,
    /// A stream that was silent for so long gets a comment.
    pub keep_alive_secs: NonZeroU64,
    /// Between two pings on a WebSocket.
    pub ping_secs: NonZeroU64,
}

/// The keys of `[server]` that are the runtime's.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionLimits {
    /// The most readers of one session.
    pub readers_max: NonZeroUsize,
    /// The most batches that wait for one reader.
    pub reader_batches_max: NonZeroUsize,
    /// The most model calls of one turn.
    pub calls_per_turn_max: NonZeroU32,
    /// A session that nobody used for so long leaves memory.
    pub idle_secs: NonZeroU64,
    /// How long running turns may go on at SIGTERM.
    pub drain_secs: u64,
}

impl SessionLimits {
    /// Its keys.
    pub const KEYS: &[&str] = &["readers_max", "reader_batches_max", "calls_per_turn_max", "idle_secs", "drain_secs"];
}

/// `[auth]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthOptions {
    /// How callers show who they are.
    pub mode: AuthMode,
    /// Whether a server without authentication may be reached from other machines.
    pub allow_open: bool,
}

/// How callers show who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthMode {
    /// They don't.
    None,
}

/// An origin as browsers send it: scheme, host, port when it isn't the scheme's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(String);

impl Origin {
    /// As it stands in the `Origin` header.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Origin {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let good = |host: &str| !host.is_empty() && !host.chars().any(|c| c.is_uppercase() || c.is_whitespace() || "/?#@*".contains(c));
        if host.is_some_and(good) {
            Ok(Self(text))
        } else {
            Err(D::Error::custom(format!(
                "`{text}` is not an origin; write scheme, host and port in lower case and nothing after: \"https://chat.example.com\""
            )))
        }
    }
}

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| {
        D::Error::custom(format!("`{text}` is not an address; write an IP address and a port: \"127.0.0.1:8080\" or \"[::1]:8080\""))
    })
}
