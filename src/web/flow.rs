//! What goes out over a connection: in small pieces, so that little is held for a peer that reads slowly, and watched, so that one that
//! takes nothing at all is cut. The library itself waits for such a peer for ever. May not know what is sent.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::Next;
use actix_web::web::Bytes;
use actix_web::{HttpMessage, HttpRequest, rt};
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval};
use tracing::info;

use super::server::Cutter;

/// The connection gets a body in pieces of at most so many bytes.
const PIECE_MAX: usize = 16 << 10;
/// So many bytes may be given to the library before the connection asked for them.
const AHEAD_MAX: usize = 16 << 10;
/// An answer of more bytes than this may take long to send.
const LONG: u64 = 64 << 10;
/// Looks at each stream until one that takes nothing is cut.
const LOOKS: u32 = 4;

/// Whether a peer takes what it is sent.
pub(super) struct Flow {
    cutter: Option<Cutter>,
    /// A piece was given, and no more has been asked for since.
    is_waiting: Cell<bool>,
    /// How often in a row it was found waiting.
    found_waiting: Cell<u32>,
    pieces: Cell<u64>,
    ahead: Cell<usize>,
    asked: Notify,
}

impl Flow {
    /// The flow of a connection that `cutter` cuts.
    pub(super) fn new(cutter: Option<Cutter>) -> Rc<Self> {
        let (is_waiting, found_waiting) = (Cell::new(false), Cell::new(0));
        Rc::new(Self { cutter, is_waiting, found_waiting, pieces: Cell::new(0), ahead: Cell::new(0), asked: Notify::new() })
    }

    /// How many pieces the connection took: it grows as long as the peer reads.
    pub(super) fn pieces(&self) -> u64 {
        self.pieces.get()
    }

    /// Waits until little of what was [put in](Self::put) waits for the connection.
    pub(super) async fn room(&self) {
        while self.ahead.get() >= AHEAD_MAX {
            self.asked.notified().await;
        }
    }

    /// So many bytes were given to the library.
    pub(super) fn put(&self, bytes: usize) {
        self.ahead.set(self.ahead.get().saturating_add(bytes));
    }

    fn ask(&self) {
        self.is_waiting.set(false);
        self.found_waiting.set(0);
    }

    fn give(&self) {
        self.is_waiting.set(true);
        self.pieces.set(self.pieces.get() + 1);
    }

    /// The connection has everything.
    fn is_empty(&self) {
        self.ahead.set(0);
        self.asked.notify_waiters();
    }

    /// Whether it was found waiting so often that its peer counts as gone.
    fn look(&self) -> bool {
        if self.is_waiting.get() {
            self.found_waiting.set(self.found_waiting.get() + 1);
        }
        self.found_waiting.get() > LOOKS
    }
}

/// The streams of a worker.
pub(super) struct Watch(RefCell<Vec<Weak<Flow>>>);

impl Watch {
    /// Cuts, as long as it is held, those that take nothing for `patience`.
    pub(super) fn new(patience: Duration) -> Rc<Self> {
        let watch = Rc::new(Self(RefCell::default()));
        let watched = Rc::downgrade(&watch);
        rt::spawn(async move {
            let mut ticks = interval((patience / LOOKS).max(Duration::from_millis(10)));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                match watched.upgrade() {
                    Some(watch) => watch.look(),
                    None => break,
                }
            }
        });
        watch
    }

    fn add(&self, flow: &Rc<Flow>) {
        self.0.borrow_mut().push(Rc::downgrade(flow));
    }

    fn look(&self) {
        self.0.borrow_mut().retain(|flow| {
            let Some(flow) = flow.upgrade() else { return false };
            let is_gone = flow.look();
            if is_gone && let Some(cutter) = &flow.cutter {
                info!("a connection was cut: its peer takes nothing");
                super::error::slow("connection");
                cutter.cut();
            }
            !is_gone
        });
    }
}

/// Watches over answers that may take long to send.
pub(super) async fn guard(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let response = next.call(request).await?;
    let is_long = match response.response().body().size() {
        BodySize::None => false,
        BodySize::Sized(bytes) => bytes > LONG,
        BodySize::Stream => true,
    };
    if !is_long {
        return Ok(response.map_into_boxed_body());
    }
    let flow = of(response.request());
    if let Some(watch) = response.request().app_data::<Rc<Watch>>() {
        watch.add(&flow);
    }
    Ok(response.map_body(|_, body| BoxBody::new(Flowing { inner: body.boxed(), rest: Bytes::new(), flow })))
}

/// The flow of a request's answer.
pub(super) fn of(request: &HttpRequest) -> Rc<Flow> {
    if let Some(flow) = request.extensions().get::<Rc<Flow>>() {
        return flow.clone();
    }
    let flow = Flow::new(request.conn_data::<Cutter>().cloned());
    request.extensions_mut().insert(flow.clone());
    flow
}

/// A body on its way.
struct Flowing {
    inner: BoxBody,
    rest: Bytes,
    flow: Rc<Flow>,
}

impl MessageBody for Flowing {
    type Error = Box<dyn std::error::Error>;

    fn size(&self) -> BodySize {
        self.inner.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        self.flow.ask();
        while self.rest.is_empty() {
            let next = Pin::new(&mut self.inner).poll_next(context);
            if !matches!(next, Poll::Ready(Some(Ok(_)))) {
                self.flow.is_empty();
            }
            match ready!(next) {
                Some(Ok(bytes)) => self.rest = bytes,
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let bytes = self.rest.len().min(PIECE_MAX);
        self.flow.give();
        Poll::Ready(Some(Ok(self.rest.split_to(bytes))))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use actix_web::body::BodyStream;
    use futures_util::stream;

    use super::*;

    fn flowing(pieces: Vec<Bytes>) -> (Flowing, Rc<Flow>) {
        let flow = Flow::new(None);
        let pieces = stream::iter(pieces.into_iter().map(Ok::<_, std::convert::Infallible>));
        (Flowing { inner: BoxBody::new(BodyStream::new(pieces)), rest: Bytes::new(), flow: flow.clone() }, flow)
    }

    async fn next(body: &mut Flowing) -> Option<Bytes> {
        poll_fn(|context| Pin::new(&mut *body).poll_next(context)).await.map(Result::unwrap)
    }

    #[actix_web::test]
    async fn large_bodies_go_out_in_pieces_and_small_ones_as_they_are() {
        let large = Bytes::from((0..100_000u32).flat_map(u32::to_be_bytes).collect::<Vec<u8>>());
        let (mut body, flow) = flowing(vec![Bytes::from_static(b"small"), large.clone()]);
        assert_eq!(next(&mut body).await.unwrap(), "small");
        let mut got = Vec::new();
        while let Some(piece) = next(&mut body).await {
            assert!(piece.len() <= PIECE_MAX);
            got.extend_from_slice(&piece);
        }
        assert!(got == large);
        assert_eq!(flow.pieces(), 1 + 400_000u64.div_ceil(PIECE_MAX as u64));
    }

    #[actix_web::test]
    async fn a_writer_waits_for_the_connection() {
        let (mut body, flow) = flowing(vec![Bytes::from_static(b"x")]);
        flow.put(AHEAD_MAX);
        let reading = async {
            tokio::task::yield_now().await;
            while next(&mut body).await.is_some() {}
        };
        tokio::join!(flow.room(), reading);
        assert_eq!(flow.ahead.get(), 0);
    }

    #[actix_web::test]
    async fn a_peer_that_takes_nothing_is_found() {
        let (mut body, flow) = flowing(vec![Bytes::from_static(b"x"), Bytes::from_static(b"y")]);
        assert!((0..20).all(|_| !flow.look()), "nothing is to be sent");
        next(&mut body).await;
        assert!((0..LOOKS).all(|_| !flow.look()));
        next(&mut body).await;
        assert!((0..LOOKS).all(|_| !flow.look()), "it went on");
        assert!(flow.look());
    }
}
