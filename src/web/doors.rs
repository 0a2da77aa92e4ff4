//! Who is let in: connections and sockets of the process and of a peer, requests a second, the size of a request's head. Looked at
//! before any work is done. Peers on this machine aren't held to a peer's limits unless that is said: a proxy in front is one, and all
//! clients come from it.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use actix_web::HttpMessage;
use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::ConnectionType;
use actix_web::middleware::Next;
use actix_web::web::Data;
use governor::{DefaultKeyedRateLimiter, Quota};

use super::{Options, State, error};
use crate::meters::names;
use crate::protocol::{Code, Refusal};

/// So many checks, those who didn't come lately are forgotten.
const FORGET_AFTER: u64 = 4096;

/// Counts those who are in, and says who may come in.
pub(super) struct Doors {
    connections_max: usize,
    sockets_max: usize,
    peer_connections_max: usize,
    header_bytes_max: usize,
    limits_loopback: bool,
    connections: AtomicUsize,
    sockets: AtomicUsize,
    peers: Mutex<HashMap<IpAddr, usize>>,
    requests: DefaultKeyedRateLimiter<IpAddr>,
    checks: AtomicU64,
}

impl Doors {
    /// Nobody is in.
    pub(super) fn new(options: &Options) -> Self {
        let quota = Quota::per_second(options.peer_requests_per_sec).allow_burst(options.peer_requests_burst);
        Self {
            connections_max: options.connections_max,
            sockets_max: options.sockets_max,
            peer_connections_max: options.peer_connections_max,
            header_bytes_max: options.header_bytes_max,
            limits_loopback: options.limit_loopback,
            connections: AtomicUsize::new(0),
            sockets: AtomicUsize::new(0),
            peers: Mutex::default(),
            requests: DefaultKeyedRateLimiter::keyed(quota),
            checks: AtomicU64::new(0),
        }
    }

    /// A connection came. It counts until what is given is dropped; refused, it is to be closed.
    pub(super) fn connect(self: &Arc<Self>, peer: Option<IpAddr>) -> Result<Connection, Refusal> {
        let peer = peer.and_then(|peer| self.limited(peer));
        let connection = Connection { doors: self.clone(), peer };
        metrics::gauge!(names::CONNECTIONS).increment(1.0);
        let all = self.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let of_peer = peer.map_or(0, |peer| {
            let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
            let count = peers.entry(peer).or_default();
            *count += 1;
            *count
        });
        if all > self.connections_max {
            let text = format!("{} connections are open, the most that are allowed", self.connections_max);
            return Err(Refusal::new(Code::TooManyConnections, text));
        }
        if of_peer > self.peer_connections_max {
            let text = format!("{} connections of this address are open, the most that are allowed", self.peer_connections_max);
            return Err(Refusal::new(Code::TooManyConnections, text));
        }
        Ok(connection)
    }

    /// A WebSocket is to be opened. It counts until what is given is dropped.
    pub(super) fn open_socket(self: &Arc<Self>) -> Result<Socket, Refusal> {
        metrics::gauge!(names::SOCKETS).increment(1.0);
        let socket = Socket(self.clone());
        if self.sockets.fetch_add(1, Ordering::Relaxed) >= self.sockets_max {
            let text = format!("{} WebSockets are open, the most that are allowed", self.sockets_max);
            return Err(Refusal::new(Code::TooManyConnections, text));
        }
        Ok(socket)
    }

    /// A request came.
    fn request(&self, peer: Option<IpAddr>) -> Result<(), Refusal> {
        if self.checks.fetch_add(1, Ordering::Relaxed) % FORGET_AFTER == FORGET_AFTER - 1 {
            self.requests.retain_recent();
        }
        let Some(peer) = peer.and_then(|peer| self.limited(peer)) else { return Ok(()) };
        self.requests.check_key(&peer).map_err(|_| {
            Refusal::new(Code::RateLimited, "this address sends more requests a second than are allowed; send fewer, or later")
        })
    }

    /// As what a peer is counted, if it is.
    fn limited(&self, peer: IpAddr) -> Option<IpAddr> {
        (self.limits_loopback || !peer.to_canonical().is_loopback()).then(|| counted_as(peer))
    }
}

/// Whoever has one IPv6 address has a whole network of them.
fn counted_as(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(peer) => {
            let [a, b, c, d, ..] = peer.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        IpAddr::V4(peer) => peer.into(),
    }
}

/// A connection that is counted.
pub(super) struct Connection {
    doors: Arc<Doors>,
    peer: Option<IpAddr>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        metrics::gauge!(names::CONNECTIONS).decrement(1.0);
        self.doors.connections.fetch_sub(1, Ordering::Relaxed);
        let Some(peer) = self.peer else { return };
        let mut peers = self.doors.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = peers.get_mut(&peer) {
            *count -= 1;
            if *count == 0 {
                peers.remove(&peer);
            }
        }
    }
}

/// A WebSocket that is counted.
pub(super) struct Socket(Arc<Doors>);

impl Drop for Socket {
    fn drop(&mut self) {
        metrics::gauge!(names::SOCKETS).decrement(1.0);
        self.0.sockets.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Among a connection's data when it was refused: what had been sent by then isn't to be carried out.
#[derive(Clone)]
pub(super) struct TurnedAway(pub(super) Refusal);

impl TurnedAway {
    /// A whole answer, for a client that reads one.
    pub(super) fn answer(&self) -> String {
        let body = serde_json::to_string(&self.0).unwrap_or_default();
        let length = body.len();
        format!(
            "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    }
}

/// Refuses requests before anything is done for them.
pub(super) async fn guard(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    match refusal(&request) {
        None => next.call(request).await.map(ServiceResponse::map_into_boxed_body),
        Some(refusal) => {
            request.extensions_mut().insert(refusal.code);
            let mut answer = error::answer(&refusal);
            // The next one would be looked at again; who is refused opens another connection, or waits.
            answer.head_mut().set_connection_type(ConnectionType::Close);
            Ok(request.into_response(answer))
        }
    }
}

fn refusal(request: &ServiceRequest) -> Option<Refusal> {
    if let Some(TurnedAway(refusal)) = request.conn_data::<TurnedAway>() {
        return Some(refusal.clone());
    }
    let doors = &request.app_data::<Data<State>>()?.doors;
    let headers = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    let bytes = headers.sum::<usize>() + request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    if bytes > doors.header_bytes_max {
        let text = format!("the request's head has more than {} bytes", doors.header_bytes_max);
        return Some(Refusal::new(Code::HeadTooLarge, text).with("limit", doors.header_bytes_max));
    }
    doors.request(request.peer_addr().map(|peer| peer.ip())).err()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn doors(adjust: impl FnOnce(&mut Options)) -> Arc<Doors> {
        let mut options = Options::default();
        adjust(&mut options);
        Arc::new(Doors::new(&options))
    }

    fn peer(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn one_connection_more_than_allowed_is_refused_and_room_comes_back() {
        let doors = doors(|options| options.connections_max = 2);
        let [one, _two] = [doors.connect(None).ok().unwrap(), doors.connect(Some(peer("127.0.0.1"))).ok().unwrap()];
        assert_eq!(doors.connect(None).err().unwrap().code, Code::TooManyConnections);
        drop(one);
        assert!(doors.connect(None).is_ok());
    }

    #[test]
    fn one_connection_of_a_peer_more_than_allowed_is_refused() {
        let doors = doors(|options| options.peer_connections_max = 2);
        let open: Vec<_> = ["2001:db8::1", "2001:db8::2"].map(|one| doors.connect(Some(peer(one))).ok().unwrap()).into();
        assert_eq!(doors.connect(Some(peer("2001:db8::3"))).err().unwrap().code, Code::TooManyConnections, "one network, one peer");
        assert!(doors.connect(Some(peer("2001:db8:0:1::3"))).is_ok());
        let local: Vec<_> = (0..9).map(|_| doors.connect(Some(peer("::ffff:127.0.0.1"))).ok().unwrap()).collect();
        assert_eq!(doors.peers.lock().unwrap().len(), 1, "peers on this machine aren't counted");
        drop((open, local));
        assert!(doors.peers.lock().unwrap().is_empty());
        assert_eq!(doors.connections.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn one_socket_more_than_allowed_is_refused() {
        let doors = doors(|options| options.sockets_max = 1);
        let one = doors.open_socket().ok().unwrap();
        assert_eq!(doors.open_socket().err().unwrap().code, Code::TooManyConnections);
        drop(one);
        assert!(doors.open_socket().is_ok());
    }

    #[test]
    fn a_burst_passes_and_what_comes_after_it_waits() {
        let doors = doors(|options| {
            options.peer_requests_per_sec = NonZeroU32::MIN;
            options.peer_requests_burst = NonZeroU32::new(3).unwrap();
        });
        assert_eq!((0..3).filter(|_| doors.request(Some(peer("192.0.2.1"))).is_ok()).count(), 3);
        let refused = (0..100).find_map(|_| doors.request(Some(peer("192.0.2.1"))).err()).unwrap();
        assert_eq!(refused.code, Code::RateLimited);
        assert!(doors.request(Some(peer("192.0.2.2"))).is_ok(), "others don't wait");
        assert!((0..100).all(|_| doors.request(Some(peer("127.0.0.1"))).is_ok()));
    }
}
