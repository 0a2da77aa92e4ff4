//! A real HTTP upstream on loopback that writes exactly the bytes it is told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

/// Everything here takes milliseconds; a test that waits so long has failed.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// What the upstream does when it has read a request.
#[derive(Clone)]
pub enum Step {
    /// Writes these bytes in one go.
    Write(Vec<u8>),
    /// Writes these bytes again and again until the other side closes.
    Repeat(Vec<u8>),
    /// Closes the connection.
    Close,
    /// Does nothing until the other side closes.
    Hang,
}

/// A request as it arrived.
pub struct Sent {
    /// On which connection, from 0.
    pub connection: usize,
    /// Request line and headers.
    pub head: String,
    /// The body.
    pub body: Value,
}

/// A listening upstream; it ends with the test's runtime.
pub struct Upstream {
    /// Its address, with `/v1`.
    pub base_url: String,
    requests: UnboundedReceiver<Sent>,
    closes: UnboundedReceiver<usize>,
}

impl Upstream {
    /// Answers the `n`th request with the `n`th steps, later ones with the last.
    pub async fn start(answers: Vec<Vec<Step>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let (requests_in, requests) = mpsc::unbounded_channel();
        let (closes_in, closes) = mpsc::unbounded_channel();
        let (answers, count) = (Arc::new(answers), Arc::new(AtomicUsize::new(0)));
        tokio::spawn(async move {
            for connection in 0.. {
                let (socket, _) = listener.accept().await.unwrap();
                socket.set_nodelay(true).unwrap();
                let task =
                    Peer { socket, connection, answers: Arc::clone(&answers), count: Arc::clone(&count), requests: requests_in.clone() };
                let closes = closes_in.clone();
                tokio::spawn(async move {
                    task.serve().await;
                    let _ = closes.send(connection);
                });
            }
        });
        Self { base_url, requests, closes }
    }

    /// Answers every request with `head` and then, chunk by chunk, `chunks`.
    pub async fn streaming<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Self {
        Self::start(vec![vec![Step::Write(streamed(chunks))]]).await
    }

    /// The next request.
    pub async fn request(&mut self) -> Sent {
        tokio::time::timeout(PATIENCE, self.requests.recv()).await.expect("a request").unwrap()
    }

    /// The next connection that has ended.
    pub async fn close(&mut self) -> usize {
        tokio::time::timeout(PATIENCE, self.closes.recv()).await.expect("a close").unwrap()
    }

    /// Whether a request has come.
    pub fn has_request(&self) -> bool {
        !self.requests.is_empty()
    }
}

struct Peer {
    socket: TcpStream,
    connection: usize,
    answers: Arc<Vec<Vec<Step>>>,
    count: Arc<AtomicUsize>,
    requests: UnboundedSender<Sent>,
}

impl Peer {
    async fn serve(mut self) {
        while let Some(sent) = self.read().await {
            let _ = self.requests.send(sent);
            let at = self.count.fetch_add(1, Ordering::Relaxed).min(self.answers.len() - 1);
            for step in self.answers[at].clone() {
                match step {
                    Step::Write(bytes) => {
                        if self.socket.write_all(&bytes).await.is_err() {
                            return;
                        }
                        // Whoever reads sees these bytes before more come.
                        tokio::task::yield_now().await;
                    }
                    Step::Repeat(bytes) => return self.repeat(&bytes).await,
                    Step::Close => return,
                    Step::Hang => {
                        let _ = self.socket.read(&mut [0]).await;
                        return;
                    }
                }
            }
        }
    }

    async fn read(&mut self) -> Option<Sent> {
        let mut bytes = Vec::new();
        let (head, length) = loop {
            if self.socket.read_buf(&mut bytes).await.ok()? == 0 {
                return None;
            }
            if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
                bytes.drain(..end + 4);
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse::<usize>().ok()?;
                break (head, length);
            }
        };
        while bytes.len() < length {
            self.socket.read_buf(&mut bytes).await.ok()?;
        }
        Some(Sent { connection: self.connection, head, body: serde_json::from_slice(&bytes).unwrap() })
    }

    async fn repeat(&mut self, bytes: &[u8]) {
        let (mut end, (mut read, mut write)) = ([0], self.socket.split());
        let writes = async {
            while write.write_all(bytes).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            () = writes => {}
            _ = read.read(&mut end) => {}
        }
    }
}

/// The head of an answer that streams.
pub const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";

/// One chunk.
pub fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// A whole answer that streams these chunks.
pub fn streamed<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut answer = HEAD.as_bytes().to_vec();
    answer.extend(chunks.into_iter().flat_map(chunk));
    answer.extend(b"0\r\n\r\n");
    answer
}

/// A whole answer that doesn't.
pub fn plain(status: u16, headers: &str, body: &str) -> Vec<Step> {
    vec![Step::Write(format!("HTTP/1.1 {status} Status\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()).into_bytes())]
}
