//! What `[server]` says.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::time::Duration;

use serde::de::{self, Error as _, Visitor};
use serde::{Deserialize, Deserializer};

use crate::protocol::Limits;
use crate::runtime::Pace;

/// `[server]`: where to listen, who may ask, how much, and how long things may take.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Where to listen.
    #[serde(deserialize_with = "address")]
    pub listen: SocketAddr,
    /// Threads that serve; as many as the machine has cores when absent.
    #[serde(deserialize_with = "some_above_zero")]
    pub workers: Option<usize>,
    /// Web pages that may ask: exact `scheme://host[:port]`. Empty: pages on loopback, any port, and only under loopback names.
    #[serde(deserialize_with = "origins")]
    pub origins: Vec<String>,
    /// More names that a request's `Host` may have while `origins` is empty.
    pub hosts: Vec<String>,
    /// The largest body of a request.
    #[serde(deserialize_with = "above_zero")]
    pub body_bytes_max: usize,
    /// The largest file that may be imported.
    #[serde(deserialize_with = "above_zero")]
    pub import_bytes_max: usize,
    /// The most messages of a view.
    #[serde(deserialize_with = "above_zero")]
    pub view_messages_max: usize,
    /// The largest content of one message.
    #[serde(deserialize_with = "above_zero")]
    pub content_bytes_max: usize,
    /// The largest WebSocket frame.
    #[serde(deserialize_with = "above_zero")]
    pub frame_bytes_max: usize,
    /// The largest WebSocket message, all of its frames together.
    #[serde(deserialize_with = "above_zero")]
    pub message_bytes_max: usize,
    /// The most frames of one WebSocket message.
    #[serde(deserialize_with = "above_zero")]
    pub message_frames_max: u32,
    /// Runs of a socket that may wait for the one that it is telling of, or be queued.
    #[serde(deserialize_with = "above_zero")]
    pub waiting_runs_max: usize,
    /// Sessions that one socket may read at once.
    #[serde(deserialize_with = "above_zero")]
    pub socket_subscriptions_max: usize,
    /// Frames of one socket that may wait for their answers.
    #[serde(deserialize_with = "above_zero")]
    pub socket_requests_max: usize,
    /// What may wait to be written to a socket, in batches.
    #[serde(deserialize_with = "above_zero")]
    pub outbox_batches_max: usize,
    /// What may wait to be written to a socket, in bytes.
    #[serde(deserialize_with = "above_zero")]
    pub outbox_bytes_max: usize,
    /// A body must have arrived within so long.
    #[serde(deserialize_with = "above_zero")]
    pub body_secs: u64,
    /// An idle stream gets a comment this often.
    #[serde(deserialize_with = "above_zero")]
    pub keep_alive_secs: u64,
    /// A socket gets a ping this often; after two without an answer it is dead.
    #[serde(deserialize_with = "above_zero")]
    pub ping_secs: u64,
    /// One write to a socket may take so long; then the socket is cut.
    #[serde(deserialize_with = "above_zero")]
    pub write_secs: u64,
    /// The head of a streamed answer waits so long for the first words, so that they travel together.
    pub first_words_ms: u64,
    /// Connections at a time.
    #[serde(deserialize_with = "above_zero")]
    pub connections_max: usize,
    /// Connections of one peer address at a time.
    #[serde(deserialize_with = "above_zero")]
    pub peer_connections_max: usize,
    /// Sockets at a time.
    #[serde(deserialize_with = "above_zero")]
    pub sockets_max: usize,
    /// Requests a second of one peer address.
    #[serde(deserialize_with = "Pace::number")]
    pub peer_requests_per_sec: NonZeroU32,
    /// Of those, so many at once.
    #[serde(deserialize_with = "Pace::number")]
    pub peer_requests_burst: NonZeroU32,
    /// Whether peers on this machine are held to a peer's limits.
    pub limit_loopback: bool,
    /// The largest head of a request: its path, its headers.
    #[serde(deserialize_with = "header_bytes")]
    pub header_bytes_max: usize,
    /// A request's head must have arrived within so long.
    #[serde(deserialize_with = "up_to_a_day")]
    pub header_secs: u64,
    /// A connection without a request is closed after so long.
    #[serde(deserialize_with = "up_to_a_day")]
    pub connection_idle_secs: u64,
    /// Messages a second of one `WebSocket`.
    #[serde(deserialize_with = "Pace::number")]
    pub socket_frames_per_sec: NonZeroU32,
    /// Of those, so many at once.
    #[serde(deserialize_with = "Pace::number")]
    pub socket_frames_burst: NonZeroU32,
    /// The most tools that a client offers.
    #[serde(deserialize_with = "above_zero")]
    pub tools_max: usize,
    /// The most bytes of what a client offers: tools, context, state, forwarded props together.
    #[serde(deserialize_with = "above_zero")]
    pub client_bytes_max: usize,
    /// The most values in one piece of JSON that is only relayed.
    #[serde(deserialize_with = "above_zero")]
    pub json_values_max: usize,
    /// The longest title of a session.
    #[serde(deserialize_with = "title_bytes")]
    pub title_bytes_max: usize,
    /// Whether `/metrics` is there.
    pub metrics: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            workers: None,
            origins: Vec::new(),
            hosts: Vec::new(),
            body_bytes_max: 4 << 20,
            import_bytes_max: 64 << 20,
            view_messages_max: 20_000,
            content_bytes_max: 1 << 20,
            frame_bytes_max: 4 << 20,
            message_bytes_max: 4 << 20,
            message_frames_max: 1024,
            waiting_runs_max: 8,
            socket_subscriptions_max: 64,
            socket_requests_max: 32,
            outbox_batches_max: 256,
            outbox_bytes_max: 4 << 20,
            body_secs: 30,
            keep_alive_secs: 15,
            ping_secs: 20,
            write_secs: 5,
            first_words_ms: 10,
            connections_max: 20_000,
            peer_connections_max: 20_000,
            sockets_max: 10_000,
            peer_requests_per_sec: at_least_one(10_000),
            peer_requests_burst: at_least_one(20_000),
            limit_loopback: false,
            header_bytes_max: 32 << 10,
            header_secs: 10,
            connection_idle_secs: 60,
            socket_frames_per_sec: at_least_one(100),
            socket_frames_burst: at_least_one(400),
            tools_max: 256,
            client_bytes_max: 1 << 20,
            json_values_max: 100_000,
            title_bytes_max: 1024,
            metrics: true,
        }
    }
}

fn at_least_one(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN)
}

impl Options {
    /// What everything that is read is held to.
    pub fn limits(&self) -> Limits {
        Limits {
            view_messages_max: self.view_messages_max,
            content_bytes_max: self.content_bytes_max,
            tools_max: self.tools_max,
            client_bytes_max: self.client_bytes_max,
            json_values_max: self.json_values_max,
            title_bytes_max: self.title_bytes_max,
        }
    }

    /// How often an idle stream gets a comment.
    pub(super) fn keep_alive(&self) -> Duration {
        Duration::from_secs(self.keep_alive_secs.max(1))
    }

    /// How often a socket gets a ping.
    pub(super) fn ping(&self) -> Duration {
        // More than a day is never, and more than the clock has can't be waited for.
        Duration::from_secs(self.ping_secs.clamp(1, 86_400))
    }

    /// How long one write to a socket may take.
    pub(super) fn write(&self) -> Duration {
        // As with pings.
        Duration::from_secs(self.write_secs.clamp(1, 86_400))
    }
}

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    deserializer.deserialize_any(Address)
}

/// Reads an address; a port alone is told what is missing.
struct Address;

impl Visitor<'_> for Address {
    type Value = SocketAddr;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an address in quotes, as \"127.0.0.1:8080\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<SocketAddr, E> {
        text.parse().map_err(|_| {
            let port = text.strip_prefix("localhost").unwrap_or(text).trim_start_matches(':').parse().unwrap_or(8080);
            no_address(text, port)
        })
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<SocketAddr, E> {
        Err(no_address(&number.to_string(), u16::try_from(number).unwrap_or(8080)))
    }
}

fn no_address<E: de::Error>(text: &str, port: u16) -> E {
    E::custom(format!("`{text}` is not an address; write an IP address and a port: \"127.0.0.1:{port}\" or \"[::1]:{port}\""))
}

/// Origins as browsers send them: scheme, host, port when it isn't the scheme's own.
fn origins<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let origins = Vec::<String>::deserialize(deserializer)?;
    let plain = |host: &str| !host.is_empty() && !host.chars().any(|c| c.is_uppercase() || c.is_whitespace() || "/?#@*".contains(c));
    let host = |origin: &str| origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://")).map(str::to_owned);
    match origins.iter().find(|origin| !host(origin).is_some_and(|host| plain(&host))) {
        None => Ok(origins),
        Some(origin) => Err(D::Error::custom(format!(
            "`{origin}` is not an origin; write scheme, host and port in lower case and nothing after: \"https://chat.example.com\""
        ))),
    }
}

fn above_zero<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default + PartialEq>(deserializer: D) -> Result<T, D::Error> {
    let number = T::deserialize(deserializer)?;
    if number == T::default() { Err(D::Error::custom("0 would let nothing through; write a number above 0")) } else { Ok(number) }
}

/// The library reads no longer head than that.
const HEADER_BYTES_LIBRARY: usize = 128 << 10;

fn header_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    within(deserializer, 1024, HEADER_BYTES_LIBRARY)
}

/// Lists show titles: a long one is a mistake.
fn title_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    within(deserializer, 1, crate::protocol::native::TITLE_BYTES_MAX)
}

/// What is longer can't be waited for.
fn up_to_a_day<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    within(deserializer, 1, 86_400)
}

fn within<'de, D: Deserializer<'de>, T: Deserialize<'de> + PartialOrd + Copy + fmt::Display>(
    deserializer: D,
    least: T,
    most: T,
) -> Result<T, D::Error> {
    match T::deserialize(deserializer)? {
        number if (least..=most).contains(&number) => Ok(number),
        number => Err(D::Error::custom(format!("{number} is not between {least} and {most}"))),
    }
}

fn some_above_zero<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    above_zero(deserializer).map(Some)
}
