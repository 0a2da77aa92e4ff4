//! WebSocket frames written by hand, also those that no client's library writes.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::app::TestApp;
use crate::http::{Exchange, within};

pub const TEXT: u8 = 0x81;
pub const TEXT_BEGINS: u8 = 0x01;
pub const CONTINUES: u8 = 0x00;
pub const ENDS: u8 = 0x80;
pub const BINARY: u8 = 0x82;
pub const CLOSE: u8 = 0x88;
pub const PING: u8 = 0x89;
pub const PONG: u8 = 0x8a;

/// What a handshake needs.
pub const HANDSHAKE: [(&str, &str); 4] = [
    ("Upgrade", "websocket"),
    ("Connection", "Upgrade"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

/// An upgraded connection, and the head of the answer.
pub async fn upgraded(app: &TestApp, more: &[(&str, &str)]) -> (TcpStream, String) {
    let headers = [&HANDSHAKE, more].concat();
    let mut exchange = Exchange::send(app.address, "GET", "/agents/demo", &headers, None).await;
    exchange.until("\r\n\r\n").await;
    let head = String::from_utf8(exchange.got).unwrap();
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    (exchange.stream, head)
}

/// A client's frame; its mask changes nothing.
pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match payload.len() {
        length @ 0..126 => bytes.push(0x80 | u8::try_from(length).unwrap()),
        length @ 126..65536 => {
            bytes.push(0xfe);
            bytes.extend(u16::try_from(length).unwrap().to_be_bytes());
        }
        length => {
            bytes.push(0xff);
            bytes.extend((length as u64).to_be_bytes());
        }
    }
    bytes.extend([0; 4]);
    bytes.extend(payload);
    bytes
}

/// A server's frame.
#[derive(Debug, PartialEq)]
pub struct Got {
    pub first: u8,
    pub payload: Vec<u8>,
}

/// Reads to the end of the connection, which must come: every frame that is whole.
pub async fn to_end(stream: &mut TcpStream) -> Vec<Got> {
    let mut got = Vec::new();
    within(async {
        // An end by reset is an end too.
        let _ = stream.read_to_end(&mut got).await;
    })
    .await;
    let mut rest = got.as_slice();
    std::iter::from_fn(|| next(&mut rest)).collect()
}

/// The next whole frame.
pub fn next(rest: &mut &[u8]) -> Option<Got> {
    let [first, length, ..] = rest else { return None };
    let (header, length) = match length {
        126 => (4, usize::from(u16::from_be_bytes([*rest.get(2)?, *rest.get(3)?]))),
        127 => (10, usize::try_from(u64::from_be_bytes(rest.get(2..10)?.try_into().unwrap())).unwrap()),
        length => (2, usize::from(*length)),
    };
    let got = Got { first: *first, payload: rest.get(header..header + length)?.to_vec() };
    *rest = &rest[header + length..];
    Some(got)
}

/// The code of the close frame that a connection ends with; nothing when it ends without one.
pub async fn close_code(stream: &mut TcpStream) -> Option<u16> {
    let close = to_end(stream).await.into_iter().find(|got| got.first == CLOSE)?;
    Some(close.payload.first_chunk().map_or(1005, |code| u16::from_be_bytes(*code)))
}

/// The close code after which a socket ends that was sent this.
pub async fn closed_after(app: &TestApp, bytes: &[u8]) -> Option<u16> {
    let (mut stream, _) = upgraded(app, &[]).await;
    // The server may close before it has read everything.
    let _ = within(stream.write_all(bytes)).await;
    close_code(&mut stream).await
}
