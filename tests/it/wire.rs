//! What goes over the wire, byte by byte.

use crate::app::{TestApp, said};
use crate::http::Exchange;

#[tokio::test]
async fn the_head_travels_with_the_first_words() {
    let app = TestApp::with(|options| options.first_words_ms = 2000);
    let mut run = Exchange::post(app.address, "/agents/demo", &said("s1", "r1", "burst").to_string()).await;
    assert!(run.read().await);
    let first = String::from_utf8_lossy(&run.got).into_owned();
    assert!(first.starts_with("HTTP/1.1 200 OK\r\n"), "{first}");
    assert!(first.contains("RUN_STARTED") && first.contains("TEXT_MESSAGE_CONTENT"), "{first}");
}

#[tokio::test]
async fn a_burst_is_few_writes() {
    let app = TestApp::start();
    let mut run = Exchange::post(app.address, "/agents/demo", &said("s1", "r1", "burst").to_string()).await;
    run.until("0\r\n\r\n").await;
    assert!(run.reads <= 4, "{} reads", run.reads);
}

#[tokio::test]
async fn a_head_does_not_wait_for_a_silent_model() {
    let app = TestApp::start();
    let mut run = Exchange::post(app.address, "/agents/demo", &said("s1", "r1", "silent").to_string()).await;
    run.until("RUN_STARTED").await;
    assert!(!String::from_utf8_lossy(&run.got).contains("TEXT_MESSAGE"));
}

#[tokio::test]
async fn an_idle_stream_gets_comments() {
    let app = TestApp::with(|options| options.keep_alive_secs = 1);
    let run = Exchange::post(app.address, "/agents/demo", &said("s1", "r1", "silent").to_string()).await;
    let body = run.whole().await.text();
    assert!(body.contains("\n\n: keep-alive\n\n"), "{body}");
    assert!(body.contains("At last."), "{body}");
}

#[tokio::test]
async fn a_connection_serves_one_run_after_another() {
    let app = TestApp::start();
    let mut connection = Exchange::post(app.address, "/agents/demo", &said("s1", "r1", "one").to_string()).await;
    connection.until("0\r\n\r\n").await;
    let body = said("s2", "r1", "two").to_string();
    let request = format!("POST /agents/demo HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n{body}", app.address, body.len());
    tokio::io::AsyncWriteExt::write_all(&mut connection.stream, request.as_bytes()).await.unwrap();
    connection.got.clear();
    connection.until("0\r\n\r\n").await;
    assert!(String::from_utf8_lossy(&connection.got).contains("RUN_FINISHED"));
}
