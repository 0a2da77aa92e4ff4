//! Pieces as they go out.

use std::sync::Arc;

use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::agui::Dialect;
use crate::protocol::{Accepted, Cursor, Event, EventBody, Framed, Frames, Live};
use crate::runtime::{Batch, Following, Sink, Submitted, channel};
use crate::web::run::Names;

fn running() -> (Sink, RunStream) {
    let (sink, reader) = channel(8, 1 << 20);
    let accepted = Accepted::plain("s1".into(), "r1".into());
    let submitted = Submitted {
        accepted,
        snapshot: None,
        state: None,
        room: Vec::new(),
        cursor: Cursor::after(1),
        following: Following::Running(reader),
    };
    let names = Names { dialect: Dialect::Legacy, thread: "s1".into(), run: "r1".into() };
    (sink, RunStream::submitted(names, submitted, CancellationToken::new()))
}

fn batch(bodies: Vec<EventBody>) -> Arc<Batch> {
    Arc::new(Batch::new(bodies.into_iter().map(|body| Event { cursor: None, at: 0, body }).collect()))
}

fn ending() -> Ending {
    Ending { presence: Presence::onlooker(), end: None, started: crate::clock::instant(), session: "s1".into(), turn: "r1".into() }
}

#[tokio::test]
async fn one_piece_carries_everything_that_is_ready() {
    let (sink, mut run) = running();
    let first: Bundle = run.first(Duration::ZERO).await;
    let mut body = std::pin::pin!(body(first.into_bytes(), run, ending(), Duration::from_secs(15)));
    let opening = body.next().await.unwrap().unwrap();
    assert!(opening.starts_with(b"id: 1\ndata: {\"type\":\"RUN_STARTED\""), "{opening:?}");
    for word in ["Hel", "lo"] {
        let live = Live::Text { reply_id: "a1".into(), delta: word.to_owned() };
        assert!(sink.send(&batch(vec![EventBody::Live(live)])));
    }
    assert!(sink.send(&batch(vec![EventBody::TurnCompleted { turn_id: "r1".into() }])));
    let piece = body.next().await.unwrap().unwrap();
    let text = std::str::from_utf8(&piece).unwrap();
    assert_eq!(text.matches("\n\n").count(), 3, "{text}");
    assert!(text.contains("Hel") && text.contains("RUN_FINISHED") && !text.contains('\r'), "{text}");
    assert!(body.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_idle_stream_gets_comments() {
    let (sink, mut run) = running();
    let first: Bundle = run.first(Duration::ZERO).await;
    let mut body = std::pin::pin!(body(first.into_bytes(), run, ending(), Duration::from_secs(15)));
    assert!(body.next().await.is_some());
    for _ in 0..2 {
        assert_eq!(body.next().await.unwrap().unwrap(), streaming::KEEP_ALIVE);
    }
    assert!(sink.send(&batch(vec![EventBody::TurnCompleted { turn_id: "r1".into() }])));
    assert!(body.next().await.unwrap().unwrap().starts_with(b"data: {\"type\":\"RUN_FINISHED\""));
}

#[test]
fn one_frame_is_not_copied() {
    let place = Framed { cursor: None, json: 6..8 };
    let frames = Frames { sse: Bytes::from(b"data: {}\n\n".to_vec()), events: vec![place] };
    let mut bundle = Bundle::default();
    bundle.add(&frames);
    assert_eq!(bundle.into_bytes().as_ptr(), frames.sse.as_ptr());
}

#[actix_web::test]
async fn a_queued_run_is_answered_at_once_with_a_comment() {
    let (sink, reader) = channel(8, 1 << 20);
    let accepted = Accepted { queued: true, ..Accepted::plain("s1".into(), "r1".into()) };
    let submitted = Submitted {
        accepted,
        snapshot: None,
        state: None,
        room: Vec::new(),
        cursor: Cursor::after(1),
        following: Following::Running(reader),
    };
    let names = Names { dialect: Dialect::V1, thread: "s1".into(), run: "r1".into() };
    let run = RunStream::submitted(names, submitted, CancellationToken::new());
    let request = actix_web::test::TestRequest::default().to_http_request();
    let (patience, keep_alive) = (Duration::from_hours(1), Duration::from_hours(1));
    let response = respond(&request, run, Presence::onlooker(), crate::clock::instant(), patience, keep_alive).await;
    assert_eq!(response.status(), 200);
    let mut body = std::pin::pin!(response.into_body());
    assert_eq!(piece(&mut body).await.unwrap(), QUEUED);
    let began = EventBody::TurnStarted { turn_id: "r1".into(), agent_id: "demo".into() };
    assert!(sink.send(&batch(vec![began, EventBody::TurnCompleted { turn_id: "r1".into() }])));
    let told = piece(&mut body).await.unwrap();
    assert!(told.starts_with(b"data: {\"type\":\"RUN_STARTED\""), "{told:?}");
    assert!(piece(&mut body).await.is_none());
}

/// The next piece of a body; none at its end.
async fn piece(body: &mut std::pin::Pin<&mut actix_web::body::BoxBody>) -> Option<Bytes> {
    use actix_web::body::MessageBody;
    std::future::poll_fn(|context| body.as_mut().poll_next(context)).await.map(Result::unwrap)
}
