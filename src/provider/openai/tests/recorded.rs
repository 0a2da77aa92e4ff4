//! Recorded streams: `tests/fixtures/openai/*.sse`, and beside each the chunks that it gives, one a line.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};

use super::super::stream::Reply;
use crate::protocol::{CallError, CallErrorKind};
use crate::provider::Chunk;

fn fixtures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/openai");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut streams: Vec<_> = files.filter(|file| file.extension().is_some_and(|extension| extension == "sse")).collect();
    streams.sort();
    assert!(streams.len() > 25);
    streams
}

/// What a reply gives whose body comes in these pieces.
async fn replied(pieces: impl IntoIterator<Item = &[u8]>) -> Vec<Result<Chunk, CallError>> {
    let pieces: Vec<_> = pieces.into_iter().map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    Reply::new(stream::iter(pieces).boxed(), Duration::from_mins(1)).collect().await
}

fn lines(items: &[Result<Chunk, CallError>]) -> String {
    items.iter().fold(String::new(), |mut lines, item| {
        match item {
            Ok(chunk) => writeln!(lines, "{chunk:?}"),
            Err(error) => writeln!(lines, "{:?}: {}", error.kind, error.message),
        }
        .unwrap();
        lines
    })
}

#[tokio::test]
async fn each_recording_gives_its_chunks() {
    for file in fixtures() {
        let stream = std::fs::read(&file).unwrap();
        let expected = std::fs::read_to_string(file.with_extension("chunks")).unwrap();
        let actual = lines(&replied([stream.as_slice()]).await);
        assert_eq!(actual, expected, "{}", file.display());
    }
}

#[tokio::test]
async fn splits_change_nothing() {
    for file in fixtures() {
        let stream = std::fs::read(&file).unwrap();
        let whole = replied([stream.as_slice()]).await;
        assert_eq!(replied(stream.chunks(1)).await, whole, "{} in single bytes", file.display());
        for at in 0..=stream.len() {
            let (before, after) = stream.split_at(at);
            assert_eq!(replied([before, after]).await, whole, "{} at byte {at}", file.display());
        }
    }
}

/// A stream cut anywhere gives the beginning of what the whole one gives, then one end; nothing half comes through.
#[tokio::test]
async fn a_cut_anywhere_is_a_cut_or_a_finish() {
    let mut cuts = 0;
    for file in fixtures() {
        let stream = std::fs::read(&file).unwrap();
        let whole = replied([stream.as_slice()]).await;
        for at in 0..stream.len() {
            let items = replied([&stream[..at]]).await;
            let place = format!("{} cut at byte {at}", file.display());
            let (end, before) = items.split_last().unwrap();
            assert!(before.iter().all(|item| matches!(item, Ok(chunk) if !matches!(chunk, Chunk::Finished(_)))), "{place}: {items:?}");
            let said: Vec<_> = before.iter().filter(|item| !matches!(item, Ok(Chunk::Usage(_)))).collect();
            assert!(whole.iter().filter(|item| !matches!(item, Ok(Chunk::Usage(_)))).take(said.len()).eq(said), "{place}: {items:?}");
            match end {
                Ok(Chunk::Finished(_)) => assert!(has_end(&stream[..at]), "{place}"),
                Err(error) if error.kind == CallErrorKind::Cut => cuts += 1,
                end => assert_eq!(Some(end), whole.last(), "{place}"),
            }
        }
    }
    assert!(cuts > 1000);
}

/// Whether the model or the provider says that it is done.
fn has_end(stream: &[u8]) -> bool {
    let text = String::from_utf8_lossy(stream);
    text.contains("\"finish_reason\":\"") || text.contains("[DONE]")
}

#[tokio::test]
async fn a_body_that_breaks_off_is_cut_and_says_why() {
    let pieces = |last: &'static str| {
        let first = Ok(Bytes::from_static(b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"));
        let body = [first, Ok(Bytes::from_static(last.as_bytes())), Err("connection reset".to_owned())];
        Reply::new(stream::iter(body).boxed(), Duration::from_mins(1)).collect::<Vec<_>>()
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
        Reply::new(body.boxed(), Duration::from_mins(1))
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
    let items: Vec<_> = Reply::new(body.boxed(), Duration::from_mins(1)).collect().await;
    assert_eq!(lines(&items), "Cut: the stream ended before the model was done\n");
}

#[tokio::test]
async fn everything_that_is_here_comes_without_waiting() {
    let event = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n".repeat(64);
    let body = stream::iter([Ok(Bytes::from(event))]).chain(stream::pending());
    let mut reply = Reply::new(body.boxed(), Duration::from_mins(1));
    for _ in 0..64 {
        let chunk = futures_util::FutureExt::now_or_never(reply.next()).expect("no wait");
        assert_eq!(chunk, Some(Ok(Chunk::Text("a".to_owned()))));
    }
    assert!(futures_util::FutureExt::now_or_never(reply.next()).is_none());
}
