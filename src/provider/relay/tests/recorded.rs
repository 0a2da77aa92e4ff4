//! Runs as agents send them, whole, split and cut at every byte.

use std::collections::HashSet;

use bytes::Bytes;
use futures_util::{StreamExt, stream};

use crate::protocol::CallErrorKind;
use crate::provider::http::recorded::{self, Items, assert_beginning, fixtures, replied, reply};
use crate::provider::relay::translate::Translator;
use crate::provider::{CallOf, Chunk, relay::tests::provider};

#[tokio::test]
async fn each_gives_its_chunks() {
    recorded::each_gives_its_chunks::<Translator>().await;
}

#[tokio::test]
async fn splits_change_nothing() {
    recorded::splits_change_nothing::<Translator>().await;
}

/// What a run that was cut gives, without what is made up of calls whose agent was lost.
fn heard(items: &Items) -> Items {
    let made_up = items.iter().position(|item| matches!(item, Ok(Chunk::ToolResult { error: Some(_), .. })));
    items[..made_up.unwrap_or(items.len() - 1)].iter().chain(items.last()).cloned().collect()
}

#[tokio::test]
async fn a_cut_anywhere_is_a_cut() {
    let (mut cuts, mut made_up) = (0, 0);
    for file in fixtures::<Translator>() {
        let stream = std::fs::read(&file).unwrap();
        let whole = replied::<Translator>([stream.as_slice()]).await;
        for at in 0..stream.len() {
            let items = replied::<Translator>([&stream[..at]]).await;
            let place = format!("{} cut at byte {at}", file.display());
            let has_end = String::from_utf8_lossy(&stream[..at]).contains("RUN_FINISHED");
            assert_beginning(&whole, &heard(&items), has_end, &place);
            // A call without a result is told as one, and the reply that made it is kept.
            let unknown: HashSet<u32> = items
                .iter()
                .filter_map(|item| {
                    if let Ok(Chunk::ToolResult { of: CallOf::Reply(index), error: Some(_), .. }) = item { Some(*index) } else { None }
                })
                .collect();
            if !unknown.is_empty() {
                assert!(matches!(items[items.len() - 2..], [Ok(Chunk::Next), Err(_)]), "{place}: {items:?}");
                made_up += 1;
            }
            cuts += usize::from(matches!(items.last(), Some(Err(error)) if error.kind == CallErrorKind::Cut));
        }
    }
    assert!(cuts > 1000 && made_up > 100, "{cuts} {made_up}");
}

/// A tool that the client offers is the client's, also when it comes with the agent's own.
#[tokio::test]
async fn the_clients_calls_stay_open() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/agui/");
    let bytes = Bytes::from(std::fs::read(format!("{folder}pydantic_client_tool.sse")).unwrap());
    let translator = Translator::new(HashSet::new(), HashSet::from(["confirm".to_owned()]), None);
    let body = stream::iter([Ok(bytes)]).boxed();
    let reply = crate::provider::http::Reply::new(body, std::time::Duration::from_mins(1), translator);
    let items: Items = reply.collect().await;
    let results: Vec<u32> = items
        .iter()
        .filter_map(|item| if let Ok(Chunk::ToolResult { of: CallOf::Reply(index), .. }) = item { Some(*index) } else { None })
        .collect();
    assert_eq!(results, [0]);
    assert!(matches!(items.last(), Some(Ok(Chunk::Finished(crate::protocol::Finish::ToolCalls)))));
    assert!(!items.contains(&Ok(Chunk::Next)));
}

/// A snapshot adds what comes after the last message that the agent was sent.
#[tokio::test]
async fn a_snapshot_fills_in_what_is_new() {
    let said = |sent: &[&str]| {
        let sent: HashSet<String> = sent.iter().map(|&id| id.to_owned()).collect();
        async move {
            let snapshot = r#"[{"id":"u1","role":"user","content":"q"},{"id":"x1","role":"assistant","content":"old"},{"id":"u2","role":"user","content":"q"},{"id":"x2","role":"assistant","content":"new"}]"#;
            let run = format!(
                "data: {{\"type\":\"RUN_STARTED\"}}\n\ndata: {{\"type\":\"MESSAGES_SNAPSHOT\",\"messages\":{snapshot}}}\n\ndata: {{\"type\":\"RUN_FINISHED\"}}\n\n"
            );
            let body = stream::iter([Ok(Bytes::from(run))]).boxed();
            let translator = Translator::new(sent, HashSet::new(), None);
            let reply = crate::provider::http::Reply::new(body, std::time::Duration::from_mins(1), translator);
            let items: Items = reply.collect().await;
            items.into_iter().filter_map(|item| if let Ok(Chunk::Text(text)) = item { Some(text) } else { None }).collect::<Vec<_>>()
        }
    };
    assert_eq!(said(&["u1", "u2"]).await, ["new"]);
    assert_eq!(said(&["u1", "x1", "u2", "x2"]).await, [""; 0]);
    assert_eq!(said(&["u1"]).await, ["old", "new"]);
}

#[test]
fn it_is_an_agent() {
    assert!(crate::provider::Provider::is_agent(&provider("http://127.0.0.1:1/agent")));
    drop(reply::<Translator>(stream::iter([]).boxed()));
}
