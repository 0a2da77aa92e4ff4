//! Builds the HTTP server. Every connection leaves a handle of its socket behind, so that one that doesn't read can be cut.

use std::any::Any;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::{Extensions, Server, ServerHandle};
use actix_web::middleware::from_fn;
use actix_web::rt::net::TcpStream;
use actix_web::web::Data;
use actix_web::{App, HttpServer};
use socket2::{SockRef, Socket};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::doors::{Doors, TurnedAway};
use super::{Options, State, configure, doors, flow, log, origins, unread};
use crate::runtime::Runtime;

/// Data that was sent must be acknowledged within so long; a peer that stopped reading counts as gone then.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(20);

/// The kernel keeps about so many bytes for a peer that doesn't read; by itself it would keep megabytes.
const KERNEL_BYTES: usize = 256 << 10;

/// A server that is about to run.
pub struct Serving {
    /// Where it listens.
    pub addresses: Vec<SocketAddr>,
    /// Stops it.
    pub handle: ServerHandle,
    /// Cancel it to make sockets close as their runs end. First drain, then stop.
    pub draining: CancellationToken,
    /// Serves until stopped; must be awaited or spawned.
    pub server: Server,
}

/// Serves `runtime` on `listener`. Signals are the caller's: it drains the runtime before it stops the server.
pub fn serve(runtime: &Runtime, options: Options, listener: TcpListener) -> io::Result<Serving> {
    // Every connection inherits it.
    SockRef::from(&listener).set_send_buffer_size(KERNEL_BYTES)?;
    let draining = CancellationToken::new();
    let (workers, patience) = (options.workers, options.write());
    let (head_within, idle) = (Duration::from_secs(options.header_secs), Duration::from_secs(options.connection_idle_secs));
    let state = Data::new(State::new(runtime.clone(), options, draining.clone()));
    if let Some(readout) = state.readout.clone() {
        actix_web::rt::spawn(readout.keep_up());
    }
    let (runtime, doors) = (runtime.clone(), state.doors.clone());
    let factory = move || {
        // Called on each worker's thread, more than once.
        runtime.enter();
        App::new()
            .app_data(state.clone())
            .app_data(flow::Watch::new(patience))
            .configure(configure)
            .wrap(origins::cors(state.origins.clone()))
            .wrap(from_fn(origins::guard))
            .wrap(from_fn(doors::guard))
            .wrap(from_fn(log::line))
            .wrap(from_fn(unread::guard))
            .wrap(from_fn(flow::guard))
    };
    let mut server = HttpServer::new(factory)
        // A client that closes its side has gone: its stream must end, not wait for the next write.
        .h1_allow_half_closed(false)
        .h1_write_buffer_size(WAITING_MAX)
        .disable_signals()
        .shutdown_timeout(5)
        .client_request_timeout(head_within)
        .keep_alive(idle)
        .on_connect(move |connection, data| {
            keep_socket(connection, data);
            let_in(&doors, connection, data);
        });
    if let Some(workers) = workers {
        server = server.workers(workers.max(1));
    }
    let server = server.listen(listener)?;
    let addresses = server.addrs();
    let server = server.run();
    Ok(Serving { addresses, handle: server.handle(), draining, server })
}

/// About so many bytes wait in the library, and as many in the kernel, for a connection that takes no more: what is to be said waits where it
/// is shared.
const WAITING_MAX: usize = 16 << 10;

/// A connection's socket, to cut it when it doesn't read: closing it in order would wait for that very reader.
#[derive(Clone)]
pub(super) struct Cutter(Arc<Socket>);

impl Cutter {
    /// Tells the peer that nothing more comes; what was written still arrives.
    pub(super) fn finish(&self) {
        // It may be closed already; then the peer knows.
        let _ = self.0.shutdown(Shutdown::Write);
    }

    /// Ends the connection at once. What waits to be sent is thrown away: the kernel would keep it for a peer that doesn't read.
    pub(super) fn cut(&self) {
        // It may be closed already; then there is nothing to cut.
        let _ = self.0.set_linger(Some(Duration::ZERO)).and_then(|()| self.0.shutdown(Shutdown::Both));
    }
}

fn keep_socket(connection: &dyn Any, data: &mut Extensions) {
    let Some(stream) = connection.downcast_ref::<TcpStream>() else { return };
    let socket = SockRef::from(stream);
    // Small frames must not wait for the peer's acknowledgement of the ones before.
    let prepared = socket.set_tcp_nodelay(true);
    #[cfg(target_os = "linux")]
    let prepared = prepared
        .and_then(|()| socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX)))
        .and_then(|()| socket.set_tcp_notsent_lowat(u32::try_from(WAITING_MAX).unwrap_or(u32::MAX)));
    match prepared.and_then(|()| socket.try_clone()) {
        Ok(socket) => {
            data.insert(Cutter(Arc::new(socket)));
        }
        Err(error) => warn!(%error, "a connection could not be prepared"),
    }
}

/// Counts a connection as long as it lasts. One too many is told so and closed before anything is read of it.
fn let_in(doors: &Arc<Doors>, connection: &dyn Any, data: &mut Extensions) {
    let Some(stream) = connection.downcast_ref::<TcpStream>() else { return };
    match doors.connect(stream.peer_addr().ok().map(|peer| peer.ip())) {
        Ok(counted) => {
            data.insert(Arc::new(counted));
        }
        Err(refusal) => {
            info!(error = %refusal.code, "connection refused");
            super::error::count(refusal.code);
            let away = TurnedAway(refusal);
            let socket = SockRef::from(stream);
            // A fresh socket takes so little at once. Who doesn't read it sees the connection end.
            let _ = socket.send(away.answer().as_bytes()).and_then(|_| socket.shutdown(Shutdown::Both));
            data.insert(away);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[tokio::test]
    async fn a_connection_neither_delays_nor_hangs_and_can_be_cut() {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (connection, _) = listener.accept().await.unwrap();
        let mut data = Extensions::new();
        keep_socket(&connection, &mut data);
        let cutter = data.get::<Cutter>().unwrap();
        assert!(cutter.0.tcp_nodelay().unwrap());
        #[cfg(target_os = "linux")]
        assert_eq!((cutter.0.tcp_user_timeout().unwrap(), cutter.0.tcp_notsent_lowat().unwrap()), (Some(UNACKNOWLEDGED_MAX), 16 << 10));
        cutter.cut();
        let mut buffer = [0; 1];
        assert_eq!(tokio::io::AsyncReadExt::read(&mut client, &mut buffer).await.unwrap(), 0);
    }
}
