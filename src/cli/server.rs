//! Which server a command talks to: the one that is named, the one that runs on this machine, or none, so that the command brings its
//! own. May not start one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use super::arguments::Place;
use super::client::Client;
use super::error::Error;
use crate::config::{self, Config, Flags};
use crate::store;

/// A server on this machine answers within so long.
const NEAR_WITHIN: Duration = Duration::from_secs(2);
/// A server that was named answers within so long.
const NAMED_WITHIN: Duration = Duration::from_secs(10);

/// The server of a command.
pub enum Found {
    /// It runs, there.
    Running(String),
    /// None runs: the command brings its own, made of this.
    Own(Box<Config>),
}

/// Looks for the server. `reads`: the command only reads, so a store must be there.
pub(super) async fn find(place: &Place, reads: bool) -> Result<Found, Error> {
    if let Some(address) = &place.server {
        let client = Client::new(address)?;
        client.look(NAMED_WITHIN).await?;
        return Ok(Found::Running(client.address()));
    }
    let config = Config::load(place.config.as_deref(), config::environment(), &Flags::default())?;
    let asked = near(config.server.listen);
    if asked.port() != 0 {
        let client = Client::new(&format!("http://{asked}"))?;
        // Whatever else answers there, or doesn't: it isn't ours.
        if client.look(NEAR_WITHIN).await.is_ok() {
            return Ok(Found::Running(client.address()));
        }
    }
    match &config.store {
        store::Options::Sqlite(sqlite) if reads && !sqlite.path.is_dir() => {
            Err(Error::NothingHere { asked: format!("http://{asked}"), store: sqlite.path.clone() })
        }
        store::Options::Sqlite(_) | store::Options::Memory {} => Ok(Found::Own(Box::new(config))),
    }
}

/// Where a server that listens on `listen` is found from this machine.
fn near(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}
