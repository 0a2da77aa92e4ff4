//! What goes over the shared sockets, frame by frame, as files have it. Lines of a file: `> ` a client's frame, `< ` the server's, which
//! come of what stands above them, `= ` a session that comes to rest, `- ` one that is erased. Times are written as 0, made ids by the
//! order in which they are seen.

use std::collections::BTreeSet;
use std::path::Path;

use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::app::TestApp;
use crate::http::{Exchange, within};

/// Ids that were made, in the order in which they were seen.
#[derive(Default)]
struct Made(Vec<String>);

impl Made {
    /// A frame's own bytes, but for what differs each time.
    fn masked(&mut self, frame: &str) -> String {
        let (mut out, mut rest) = (String::new(), frame);
        let marks = [r#""timestamp":"#, r#""at":"#, "hw_"];
        while let Some((start, mark)) = marks.iter().filter_map(|mark| Some((rest.find(mark)?, *mark))).min() {
            let (before, after) = rest.split_at(start + mark.len());
            let (value, behind) = after.split_at(after.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(after.len()));
            out.push_str(before);
            match (mark, value.len()) {
                ("hw_", 32) => out.push_str(&self.place(value)),
                ("hw_", _) | (_, 0) => out.push_str(value),
                (_, _) => out.push('0'),
            }
            rest = behind;
        }
        out + rest
    }

    fn place(&mut self, id: &str) -> String {
        let known = self.0.iter().position(|made| made == id);
        let place = known.unwrap_or(self.0.len());
        if known.is_none() {
            self.0.push(id.to_owned());
        }
        (place + 1).to_string()
    }
}

/// An answer: it comes before or after the events of the same step.
fn is_answer(frame: &str) -> bool {
    ["ack", "error", "pong"].iter().any(|kind| frame.starts_with(&format!(r#"{{"type":"{kind}""#)))
}

struct Play {
    app: TestApp,
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    made: Made,
}

impl Play {
    async fn open(path: &str, protocol: Option<&'static str>) -> Self {
        let app = TestApp::start();
        let mut request = format!("ws://{}{path}", app.address).into_client_request().expect("a request");
        if let Some(protocol) = protocol {
            request.headers_mut().insert("Sec-WebSocket-Protocol", HeaderValue::from_static(protocol));
        }
        let (socket, _) = within(connect_async(request)).await.expect("a socket");
        Self { app, socket, made: Made::default() }
    }

    /// Does what a line says.
    async fn step(&mut self, line: &str) {
        match line.split_at(2) {
            ("> ", frame) => within(self.socket.send(Message::text(frame))).await.expect("the socket is open"),
            ("= ", session) => drop(self.app.until(session, |page| page["status"] == "idle").await),
            ("- ", session) => {
                let path = format!("/v1/sessions/{session}");
                let erased = Exchange::send(self.app.address, "DELETE", &path, &[], None).await.whole().await;
                assert_eq!(erased.status, 204, "{}", erased.text());
            }
            _ => panic!("no line of such a file: {line}"),
        }
    }

    /// The next frame, as it is written down.
    async fn frame(&mut self) -> String {
        loop {
            match within(self.socket.next()).await {
                Some(Ok(Message::Text(text))) => return self.made.masked(&text),
                Some(Ok(Message::Ping(_))) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Plays a file: each step brings its frames, and at the end nothing is left.
async fn play(file: &str, path: &str, protocol: Option<&'static str>) {
    let mut play = Play::open(path, protocol).await;
    let mut lines = file.lines().chain([r#"> {"type":"ping","ref":"last"}"#, r#"< {"type":"pong","ref":"last"}"#]).peekable();
    while let Some(line) = lines.next() {
        play.step(line).await;
        let mut expected = Vec::new();
        let mut came = Vec::new();
        while let Some(frame) = lines.peek().and_then(|line| line.strip_prefix("< ")) {
            expected.push(frame.to_owned());
            came.push(play.frame().await);
            lines.next();
        }
        // Both are in order; how they fall between each other is a matter of time.
        expected.sort_by_key(|frame| !is_answer(frame));
        came.sort_by_key(|frame| !is_answer(frame));
        assert_eq!(came, expected, "{line}");
    }
}

fn read(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/wire/sockets");
    std::fs::read_to_string(folder.join(name)).expect("a file")
}

/// The types of frames that stand in a file under that mark; what has none is named.
fn types(file: &str, mark: &str, untyped: &str) -> BTreeSet<String> {
    let frames = file.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix(mark)?).ok());
    frames.map(|frame| frame["type"].as_str().unwrap_or(untyped).to_owned()).collect()
}

const ASKS: [&str; 8] = ["cancel", "fork", "head", "input", "ping", "subscribe", "unsubscribe", "update"];

fn set<'a>(all: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    all.into_iter().map(ToOwned::to_owned).collect()
}

#[tokio::test]
async fn native_frames_are_as_their_file_says() {
    let file = read("native.frames");
    play(&file, "/v1/ws", None).await;
    assert_eq!(types(&file, "> ", "none"), set(ASKS.into_iter().chain(["dance"])), "one of each");
    assert_eq!(types(&file, "< ", "none"), set(["ack", "error", "event", "pong", "unsubscribed"]), "one of each");
}

#[tokio::test]
async fn frames_of_shared_threads_are_as_their_file_says() {
    let file = read("shared.frames");
    play(&file, "/agents/demo", Some("ag-ui.ws.v1")).await;
    assert_eq!(types(&file, "> ", "a run"), set(ASKS.into_iter().chain(["dance", "INIT", "a run", "abort"])), "one of each");
    assert_eq!(types(&file, "< ", "a chunk"), set(["ack", "error", "a chunk", "pong", "unsubscribed"]), "one of each");
}
