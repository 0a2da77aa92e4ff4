//! Connections on which nothing comes, or too little: each ends in its time, and only then.

use std::time::Duration;

use headwater::clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::app::TestApp;
use crate::http::within;

/// A second is what is configured; a busy machine takes longer.
const SOON: Duration = Duration::from_secs(10);

async fn to_end(stream: &mut TcpStream) -> String {
    let mut got = Vec::new();
    within(async {
        // An end by reset is an end too.
        let _ = stream.read_to_end(&mut got).await;
    })
    .await;
    String::from_utf8_lossy(&got).into_owned()
}

#[tokio::test]
async fn a_head_that_does_not_come_to_its_end_is_waited_for_no_longer_than_header_secs() {
    let app = TestApp::with(|options| (options.header_secs, options.connection_idle_secs) = (1, 3600));
    let began = clock::instant();
    let mut silent = TcpStream::connect(app.address).await.unwrap();
    let mut half = TcpStream::connect(app.address).await.unwrap();
    half.write_all(b"GET /healthz HTTP/1.1\r\nHost: local").await.unwrap();
    let told = to_end(&mut half).await;
    assert!(told.is_empty() || told.starts_with("HTTP/1.1 408 "), "{told}");
    assert_eq!(to_end(&mut silent).await.lines().next().unwrap_or("HTTP/1.1 408 Request Timeout"), "HTTP/1.1 408 Request Timeout");
    assert!((Duration::from_millis(900)..SOON).contains(&began.elapsed()), "{:?}", began.elapsed());
    // One that comes byte by byte gets no more time.
    let began = clock::instant();
    let mut drop_by_drop = TcpStream::connect(app.address).await.unwrap();
    let (mut reads, mut writes) = drop_by_drop.split();
    let mut got = [0; 64];
    let drips = async {
        for byte in b"GET /healthz HTTP/1.1\r\nX: ".iter().chain(std::iter::repeat(&b'x')) {
            if writes.write_all(&[*byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        () = drips => {}
        // Answered or closed.
        _ = reads.read(&mut got) => {}
    }
    assert!((Duration::from_millis(900)..SOON).contains(&began.elapsed()), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_connection_without_a_request_ends_after_connection_idle_secs() {
    let app = TestApp::with(|options| (options.header_secs, options.connection_idle_secs) = (3600, 1));
    let mut stream = TcpStream::connect(app.address).await.unwrap();
    let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for _ in 0..2 {
        stream.write_all(request).await.unwrap();
        let mut got = Vec::new();
        within(async {
            while !got.ends_with(b"}") {
                assert_ne!(stream.read_buf(&mut got).await.unwrap(), 0, "it is kept for the next request");
            }
        })
        .await;
        assert!(got.starts_with(b"HTTP/1.1 200 "));
    }
    let began = clock::instant();
    assert_eq!(to_end(&mut stream).await, "", "nothing is said");
    assert!((Duration::from_millis(900)..SOON).contains(&began.elapsed()), "{:?}", began.elapsed());
}
