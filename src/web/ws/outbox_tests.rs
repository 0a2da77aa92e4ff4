//! Sockets that read, don't read, or are gone.

use actix_ws::CloseCode;

use super::*;

/// What a socket got.
type Got = Rc<RefCell<Vec<String>>>;

/// A socket that takes `room` writes, then none.
struct Played {
    got: Got,
    room: usize,
    gone: bool,
}

impl Played {
    async fn take(&mut self, what: String) -> Result<(), Closed> {
        if self.gone {
            return Err(Closed);
        }
        if self.room == 0 {
            std::future::pending::<()>().await;
        }
        self.room -= 1;
        self.got.borrow_mut().push(what);
        Ok(())
    }
}

impl Sink for Played {
    async fn text(&mut self, text: ByteString) -> Result<(), Closed> {
        self.take(text.to_string()).await
    }

    async fn ping(&mut self) -> Result<(), Closed> {
        self.take("ping".to_owned()).await
    }

    async fn pong(&mut self, _: &[u8]) -> Result<(), Closed> {
        self.take("pong".to_owned()).await
    }

    async fn close(mut self, reason: Option<CloseReason>) -> Result<(), Closed> {
        let code = reason.map_or(1005, |reason| u16::from(reason.code));
        self.take(format!("close {code}")).await
    }
}

fn played(room: usize, gone: bool) -> (Outbox, impl Future<Output = Written>, Got) {
    let options = Options { outbox_batches_max: 8, outbox_bytes_max: 100, ..Options::default() };
    let (outbox, receiver) = channel(&options);
    let got = Got::default();
    let writer = Writer { receiver, shared: outbox.shared.clone(), patience: Duration::from_secs(5) };
    (outbox, writer.run(Played { got: got.clone(), room, gone }), got)
}

fn texts(text: &str) -> Texts {
    let whole = 0..text.len();
    Frames { sse: Bytes::from(text.to_owned()), json: vec![whole] }.into()
}

fn normal() -> CloseReason {
    CloseReason { code: CloseCode::Normal, description: None }
}

#[tokio::test]
async fn everything_is_written_in_order_then_the_close() {
    let (outbox, writing, got) = played(10, false);
    outbox.texts(texts("a")).unwrap();
    outbox.ping().unwrap();
    outbox.pong(Bytes::new()).unwrap();
    outbox.texts(texts("b")).unwrap();
    outbox.close(Some(normal()));
    assert_eq!(writing.await, Written::Closed);
    assert_eq!(*got.borrow(), ["a", "ping", "pong", "b", "close 1000"]);
    assert_eq!(outbox.shared.bytes.get(), 0);
}

#[tokio::test]
async fn the_bound_is_in_bytes_and_in_pieces() {
    let (outbox, _writing, _) = played(0, false);
    outbox.texts(texts(&"x".repeat(500))).expect("a large one passes when nothing waits");
    assert_eq!(outbox.texts(texts("y")), Err(Full));

    let (outbox, _writing, _) = played(0, false);
    for _ in 0..8 {
        outbox.texts(texts("x")).unwrap();
    }
    assert_eq!(outbox.texts(texts("x")), Err(Full));
    assert_eq!(outbox.shared.bytes.get(), 8, "what was refused isn't counted");
}

#[tokio::test]
async fn a_slow_socket_is_closed_without_what_waits() {
    let (outbox, writing, got) = played(1, false);
    for _ in 0..8 {
        outbox.texts(texts("x")).unwrap();
    }
    outbox.close_now(Some(CloseReason { code: CloseCode::Other(4008), description: None }));
    assert_eq!(writing.await, Written::Closed);
    assert_eq!(*got.borrow(), ["close 4008"]);
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_takes_nothing_is_cut_in_time() {
    let in_time = Duration::from_millis(5001);
    let (outbox, writing, _) = played(0, false);
    outbox.texts(texts("x")).unwrap();
    assert_eq!(tokio::time::timeout(in_time, writing).await, Ok(Written::Cut));

    let (outbox, writing, _) = played(0, false);
    outbox.close_now(Some(normal()));
    assert_eq!(tokio::time::timeout(in_time, writing).await, Ok(Written::Cut));
}

#[tokio::test]
async fn a_socket_that_is_gone_ends_the_writing() {
    let (outbox, writing, _) = played(0, true);
    outbox.texts(texts("x")).unwrap();
    assert_eq!(writing.await, Written::Gone);
}

#[tokio::test]
async fn without_senders_the_socket_is_closed() {
    let (outbox, writing, got) = played(10, false);
    outbox.texts(texts("x")).unwrap();
    drop(outbox);
    assert_eq!(writing.await, Written::Closed);
    assert_eq!(*got.borrow(), ["x", "close 1005"]);
}
