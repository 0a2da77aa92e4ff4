//! A bare HTTP/1.1 client that shows what came, byte for byte.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::described::{self, Asked};

/// Nothing in these tests takes longer.
pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("it takes too long")
}

/// A request that was sent, and what has come back so far.
pub struct Exchange {
    pub stream: TcpStream,
    pub got: Vec<u8>,
    pub reads: usize,
    /// Held against the description of the routes, with what came back.
    asked: Option<Asked>,
}

/// A whole answer.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Exchange {
    /// Sends a request; with a body, its length is added.
    pub async fn send(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&str>) -> Self {
        let mut head = vec![format!("{method} {path} HTTP/1.1")];
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head.push(format!("Host: {address}"));
        }
        head.extend(headers.iter().map(|(name, value)| format!("{name}: {value}")));
        head.extend(body.map(|body| format!("Content-Length: {}", body.len())));
        let request = format!("{}\r\n\r\n{}", head.join("\r\n"), body.unwrap_or_default());
        Self::raw(address, request.as_bytes()).await
    }

    /// Sends bytes as they are.
    pub async fn raw(address: SocketAddr, bytes: &[u8]) -> Self {
        let mut stream = within(TcpStream::connect(address)).await.expect("the server listens");
        within(stream.write_all(bytes)).await.expect("the server reads");
        Self { stream, got: Vec::new(), reads: 0, asked: asked(bytes) }
    }

    /// Posts JSON as AG-UI's clients do.
    pub async fn post(address: SocketAddr, path: &str, body: &str) -> Self {
        let headers = [("Content-Type", "application/json"), ("Accept", "text/event-stream")];
        Self::send(address, "POST", path, &headers, Some(body)).await
    }

    /// Reads once; `false` at the end.
    pub async fn read(&mut self) -> bool {
        let mut buffer = vec![0; 1 << 16];
        let count = within(self.stream.read(&mut buffer)).await.unwrap_or(0);
        self.got.extend_from_slice(&buffer[..count]);
        self.reads += 1;
        if count == 0 {
            self.check();
        }
        count > 0
    }

    /// Holds what has come against the description.
    fn check(&self) {
        if let Some(asked) = &self.asked {
            let whole = asked.method != "HEAD" && parse(&self.got).is_some();
            described::check_bytes(asked, &self.got, whole);
        }
    }

    /// Reads until what has come contains `text`.
    pub async fn until(&mut self, text: &str) {
        within(async {
            while !self.got.windows(text.len()).any(|window| window == text.as_bytes()) {
                assert!(self.read().await, "ended without {text:?}: {}", String::from_utf8_lossy(&self.got));
            }
        })
        .await;
        self.check();
    }

    /// Reads the whole answer.
    pub async fn whole(mut self) -> Answer {
        loop {
            if let Some(answer) = parse(&self.got) {
                self.check();
                return answer;
            }
            assert!(self.read().await, "ended early: {}", String::from_utf8_lossy(&self.got));
        }
    }
}

/// The request that bytes make, when they make one.
fn asked(bytes: &[u8]) -> Option<Asked> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let mut words = head.lines().next()?.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let rest = &bytes[end + 4..];
    let body = if header(head, "transfer-encoding").is_some() { dechunk(rest).0 } else { rest.to_vec() };
    Some(Asked { method, path, body })
}

impl Answer {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("UTF-8")
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The status and the error's code.
    pub fn refusal(&self) -> (u16, String) {
        let body = self.json();
        assert!(body["message"].as_str().is_some_and(|message| !message.is_empty()), "{body}");
        assert_eq!(self.header("content-type"), Some("application/json"));
        (self.status, body["error"].as_str().unwrap_or_default().to_owned())
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).filter_map(|line| line.split_once(": ")).find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// The answer, once all of it is there.
fn parse(got: &[u8]) -> Option<Answer> {
    let end = got.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&got[..end]).into_owned();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let rest = &got[end + 4..];
    let body = if header(&head, "transfer-encoding").is_some() {
        let (body, whole) = dechunk(rest);
        whole.then_some(body)?
    } else {
        let length: usize = header(&head, "content-length").map_or(Some(0), |length| length.parse().ok())?;
        rest.get(..length)?.to_vec()
    };
    Some(Answer { status, head, body })
}

/// What chunks carry, and whether the last one is there.
pub fn dechunk(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(line) = rest.windows(2).position(|window| window == b"\r\n") else { return (body, false) };
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).expect("a size"), 16).expect("a size");
        if size == 0 {
            return (body, true);
        }
        let Some(chunk) = rest.get(line + 2..line + 2 + size) else { return (body, false) };
        body.extend_from_slice(chunk);
        let Some(next) = rest.get(line + 4 + size..) else { return (body, false) };
        rest = next;
    }
}

/// The events of a whole stream, read as AG-UI's clients do: frames end with two line feeds, comments are passed over.
pub fn events(body: &str) -> Vec<Value> {
    assert!(!body.contains('\r'), "frames end with line feeds alone");
    assert!(body.ends_with("\n\n"), "the last frame is whole: {body:?}");
    body.split_terminator("\n\n")
        .filter_map(|frame| frame.lines().find_map(|line| line.strip_prefix("data: ")))
        .map(|data| serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}")))
        .collect()
}

/// The body of an answer, as far as it has come.
pub fn body(got: &[u8]) -> String {
    let start = got.windows(4).position(|window| window == b"\r\n\r\n").map_or(got.len(), |end| end + 4);
    String::from_utf8_lossy(&dechunk(&got[start..]).0).into_owned()
}
