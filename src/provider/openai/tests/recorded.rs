//! Recorded streams: `tests/fixtures/openai/*.sse`, and beside each the chunks that it gives, one a line.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};

use super::super::translate::Translator;
use crate::provider::Chunk;
use crate::provider::http::recorded::{self, Items, lines};

/// What a reply gives whose body comes in these pieces.
async fn replied(pieces: impl IntoIterator<Item = &[u8]>) -> Items {
    recorded::replied::<Translator>(pieces).await
}

#[tokio::test]
async fn each_recording_gives_its_chunks() {
    recorded::each_gives_its_chunks::<Translator>().await;
}

#[tokio::test]
async fn splits_change_nothing() {
    recorded::splits_change_nothing::<Translator>().await;
}

#[tokio::test]
async fn a_cut_anywhere_is_a_cut_or_a_finish() {
    let has_end = |text: &str| text.contains("\"finish_reason\":\"") || text.contains("[DONE]");
    recorded::a_cut_anywhere_is_a_cut_or_a_finish::<Translator>(has_end).await;
}

#[tokio::test]
async fn a_body_that_breaks_off_is_cut_and_says_why() {
    let pieces = |last: &'static str| {
        let first = Ok(Bytes::from_static(b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"));
        let body = [first, Ok(Bytes::from_static(last.as_bytes())), Err("connection reset".to_owned())];
        recorded::reply::<Translator>(stream::iter(body).boxed()).collect::<Vec<_>>()
    };
    assert_eq!(
        lines(&pieces("data: {\"choi").await),
        "Text(\"a\")\nCut: the stream broke off before the model was done: connection reset\n"
    );
    let finished = pieces("data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n").await;
    assert_eq!(lines(&finished), "Text(\"a\")\nFinished(Stop)\n");
}

#[tokio::test]
async fn what_is_too_large_is_nonsense() {
    let event = format!("data: {{\"padding\":\"{}\"}}\n\n", "x".repeat(4 << 20));
    let items = replied(event.as_bytes().chunks(10_000)).await;
    assert_eq!(lines(&items), "Nonsense: an event is larger than 4194304 bytes\n");

    let event = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n", "x".repeat(1 << 20));
    let items = replied(std::iter::repeat_n(event.as_bytes(), 17)).await;
    assert_eq!(items.len(), 17);
    assert_eq!(lines(&items[16..]), "Nonsense: the reply is longer than 16777216 bytes\n");

    let call = |index| {
        format!("data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":{index},\"function\":{{\"name\":\"f\"}}}}]}}}}]}}\n\n")
    };
    let calls: String = (0..257).map(call).collect();
    let items = replied([calls.as_bytes()]).await;
    assert_eq!((items.len(), lines(&items[256..])), (257, "Nonsense: the reply has more than 256 tool calls\n".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn silence_has_a_limit() {
    let silent_after = |text: &'static str| {
        let body = stream::iter([Ok(Bytes::from_static(text.as_bytes()))]).chain(stream::pending());
        recorded::reply::<Translator>(body.boxed())
    };
    let deadline = || tokio::time::sleep(Duration::ZERO).deadline();
    let (start, items) = (deadline(), silent_after(": here\n").collect::<Vec<_>>().await);
    assert_eq!(lines(&items), "TimedOut: the provider was silent for 60 s\n");
    assert_eq!(deadline() - start, Duration::from_mins(1));

    // Once the model is done, only its usage is waited for.
    let finished = silent_after("data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n");
    let (start, items) = (deadline(), finished.collect::<Vec<_>>().await);
    assert_eq!(lines(&items), "Text(\"a\")\nFinished(Stop)\n");
    assert_eq!(deadline() - start, Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn each_sign_of_life_starts_the_limit_again() {
    let body = stream::iter(0..5).then(async |_| {
        tokio::time::sleep(Duration::from_secs(59)).await;
        Ok(Bytes::from_static(b": here\n"))
    });
    let items: Vec<_> = recorded::reply::<Translator>(body.boxed()).collect().await;
    assert_eq!(lines(&items), "Cut: the stream ended before the model was done\n");
}

#[tokio::test]
async fn everything_that_is_here_comes_without_waiting() {
    let event = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n".repeat(64);
    let body = stream::iter([Ok(Bytes::from(event))]).chain(stream::pending());
    let mut reply = recorded::reply::<Translator>(body.boxed());
    for _ in 0..64 {
        let chunk = futures_util::FutureExt::now_or_never(reply.next()).expect("no wait");
        assert_eq!(chunk, Some(Ok(Chunk::Text("a".to_owned()))));
    }
    assert!(futures_util::FutureExt::now_or_never(reply.next()).is_none());
}
