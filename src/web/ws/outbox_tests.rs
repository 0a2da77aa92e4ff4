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
    /// What it was last told, whether it took it or not.
    last_words: Rc<RefCell<Option<String>>>,
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

    #[cfg(feature = "echo")]
    async fn binary(&mut self, content: Bytes) -> Result<(), Closed> {
        self.take(format!("{} bytes", content.len())).await
    }

    async fn ping(&mut self) -> Result<(), Closed> {
        self.take("ping".to_owned()).await
    }

    async fn pong(&mut self, _: &[u8]) -> Result<(), Closed> {
        self.take("pong".to_owned()).await
    }

    async fn close(mut self, reason: Option<CloseReason>) -> Result<(), Closed> {
        *self.last_words.borrow_mut() = reason.as_ref().and_then(|reason| reason.description.clone());
        let code = reason.map_or(1005, |reason| u16::from(reason.code));
        self.take(format!("close {code}")).await
    }
}

fn played(room: usize, gone: bool) -> (Outbox, impl Future<Output = Written>, Got) {
    let got = Got::default();
    let (outbox, writing) = written_to(Played { got: got.clone(), room, gone, last_words: Rc::default() });
    (outbox, writing, got)
}

fn written_to(played: Played) -> (Outbox, impl Future<Output = Written>) {
    let options = Options { outbox_batches_max: 8, outbox_bytes_max: 100, ..Options::default() };
    let (outbox, receiver) = channel(&options);
    let writer = Writer { receiver, shared: outbox.shared.clone(), patience: Duration::from_secs(5), progress: Box::new(|| 0) };
    (outbox, writer.run(played))
}

fn texts(text: &str) -> Texts {
    Frames::bare(Bytes::from(text.to_owned())).into()
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

/// Events with their cursors.
fn told(cursors: &[Option<&str>]) -> Frames {
    let one = |cursor: Option<&str>| {
        let id = cursor.unwrap_or_default();
        let sse = Bytes::from(format!("{id}{{}}"));
        let cursor = cursor.map(|cursor| 0..cursor.len());
        Frames { events: vec![crate::protocol::Framed { cursor, json: id.len()..sse.len() }], sse }
    };
    Frames::concat(&cursors.iter().copied().map(one).collect::<Vec<_>>())
}

fn slow() -> CloseReason {
    CloseReason { code: CloseCode::Other(4008), description: Some("too_slow: x".to_owned()) }
}

/// What a socket that takes so many texts is told when it is too slow.
async fn last_words(room: usize, texts: Texts) -> Option<String> {
    let last_words = Rc::default();
    let (outbox, writing) = written_to(Played { got: Got::default(), room, gone: false, last_words: Rc::clone(&last_words) });
    outbox.begin().unwrap();
    outbox.texts(texts).unwrap();
    let closing = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        outbox.close_now(Some(slow()));
    };
    tokio::join!(writing, closing);
    last_words.take()
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_is_told_where_to_go_on() {
    let run = || Texts::from(told(&[None, Some("7"), Some("7.1.4"), None]));
    let words = |cursor: &str| Some(format!("too_slow: x; cursor={cursor}"));
    assert_eq!(last_words(0, run()).await, Some("too_slow: x".to_owned()));
    assert_eq!(last_words(1, run()).await, Some("too_slow: x".to_owned()));
    assert_eq!(last_words(2, run()).await, words("7"));
    assert_eq!(last_words(3, run()).await, words("7.1.4"));
    let mut shared = Texts::within(Envelope::of_thread(&"s1".into()));
    shared.add(&told(&[Some("7")]));
    assert_eq!(last_words(1, shared).await, Some("too_slow: x".to_owned()), "several sessions: one cursor says nothing");
}

#[test]
fn only_a_slow_reader_goes_on_somewhere() {
    let stopping = CloseReason { code: CloseCode::Restart, description: Some("shutting_down".to_owned()) };
    assert_eq!(close::after(stopping.clone(), Some(b"7")), stopping);
    assert_eq!(close::after(slow(), None), slow());
    let longest = close::after(
        CloseReason { code: CloseCode::Other(4008), description: Some("too_slow: this reader fell too far behind".to_owned()) },
        Some(format!("{}.{}.{}", u64::MAX, u32::MAX, u64::MAX).as_bytes()),
    );
    assert!(longest.description.unwrap().len() <= 123, "a close frame takes it");
}
