//! Agents that send nonsense: each fault has a kind and says what is wrong.

use futures_util::{StreamExt, stream};

use crate::protocol::{CallError, CallErrorKind};
use crate::provider::http::recorded::{replied, reply};
use crate::provider::relay::translate::Translator;

async fn failure(events: &[&str]) -> CallError {
    let run = format!("data: {}\n\n", events.join("\n\ndata: "));
    let items = replied::<Translator>([run.as_bytes()]).await;
    items.last().unwrap().clone().unwrap_err()
}

const STARTED: &str = r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#;

#[tokio::test]
async fn each_fault_is_named() {
    let text = r#"{"type":"TEXT_MESSAGE_START","messageId":"m"}"#;
    let end = r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#;
    let call = r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}"#;
    let called = r#"{"type":"TOOL_CALL_END","toolCallId":"c"}"#;
    for (events, message) in [
        (&[text][..], "the agent's first event is TEXT_MESSAGE_START, not RUN_STARTED"),
        (&[STARTED, STARTED], "RUN_STARTED comes twice in a run of the agent's"),
        (&[STARTED, text, text], "TEXT_MESSAGE_START of the message m, which is open"),
        (&[STARTED, text, end, end], "TEXT_MESSAGE_END of the message m, which isn't open"),
        (
            &[STARTED, r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x"}"#],
            "TEXT_MESSAGE_CONTENT of the message m, which isn't open",
        ),
        (&[STARTED, call, call], "TOOL_CALL_START of the call c, which is open"),
        (&[STARTED, r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{}"}"#], "TOOL_CALL_ARGS of the call c, which isn't open"),
        (&[STARTED, called], "TOOL_CALL_END of the call c, which isn't open"),
        (&[STARTED, r#"{"type":"TEXT_MESSAGE_CHUNK","delta":"x"}"#], "the first TEXT_MESSAGE_CHUNK of a message has no messageId"),
        (
            &[STARTED, r#"{"type":"TOOL_CALL_CHUNK","toolCallId":"c","delta":"x"}"#],
            "the first TOOL_CALL_CHUNK of a call needs toolCallId and toolCallName",
        ),
        (&["[DONE]"], "an event of the agent's can't be understood: expected value"),
        (&["[1]"], "an event of the agent's can't be understood: invalid type: integer `1`, expected a string"),
        (&[r#"{"threadId":"t"}"#], "an event of the agent's can't be understood: missing field `type`"),
        (
            &[STARTED, r#"{"type":"TEXT_MESSAGE_START"}"#],
            "TEXT_MESSAGE_START of the agent's can't be understood: missing field `messageId`",
        ),
        (
            &[STARTED, r#"{"type":"TOOL_CALL_START","toolCallId":7,"toolCallName":"f"}"#],
            "TOOL_CALL_START of the agent's can't be understood: invalid type: integer `7`, expected a string",
        ),
    ] {
        let error = failure(events).await;
        assert_eq!((error.kind, error.message.as_str()), (CallErrorKind::Nonsense, message), "{events:?}");
    }
    // A call that ended is kept, whatever comes after it.
    let error = failure(&[STARTED, call, called, called]).await;
    assert_eq!(error.message, "TOOL_CALL_END of the call c, which isn't open");
}

#[tokio::test]
async fn failures_of_the_agents_own_keep_their_words() {
    for (event, kind, message) in [
        (
            r#"{"type":"RUN_ERROR","message":"the graph failed","code":"GRAPH"}"#,
            CallErrorKind::Unavailable,
            "the agent reported an error: the graph failed (GRAPH)",
        ),
        (r#"{"type":"RUN_ERROR"}"#, CallErrorKind::Unavailable, "the agent reported an error: without an explanation"),
        (
            r#"{"type":"RUN_ERROR","message":"slow down","code":429}"#,
            CallErrorKind::RateLimited,
            "the agent reported an error: slow down (429)",
        ),
        (
            r#"{"type":"RUN_ERROR","message":"This model's maximum context length is 8192 tokens"}"#,
            CallErrorKind::TooLong,
            "the agent reported an error: This model's maximum context length is 8192 tokens",
        ),
    ] {
        for before in [&[STARTED][..], &[]] {
            let events: Vec<&str> = before.iter().copied().chain([event]).collect();
            let error = failure(&events).await;
            assert_eq!((error.kind, error.message.as_str()), (kind, message));
        }
    }
}

#[tokio::test]
async fn everything_has_a_limit() {
    let mut calls = vec![STARTED.to_owned()];
    calls.extend((0..300).map(|n| format!(r#"{{"type":"TOOL_CALL_START","toolCallId":"c{n}","toolCallName":"f"}}"#)));
    let error = failure(&calls.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!(error.message, "the agent asks for too many tool calls at once");

    let mut open = vec![STARTED.to_owned()];
    open.extend((0..100).map(|n| format!(r#"{{"type":"TEXT_MESSAGE_START","messageId":"m{n}"}}"#)));
    let error = failure(&open.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!(error.message, "the agent has 64 text messages open at once");

    let mut many = vec![STARTED.to_owned()];
    many.extend((0..1100).map(|n| format!(r#"{{"type":"TEXT_MESSAGE_CHUNK","messageId":"m{n}","delta":"x"}}"#)));
    let error = failure(&many.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!(error.message, "the agent says more than 1000 messages in a run");

    let long = "x".repeat(1 << 20);
    let mut large = vec![STARTED.to_owned()];
    large.extend((0..20).map(|_| format!(r#"{{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"{long}"}}"#)));
    let error = failure(&large.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!(error.kind, CallErrorKind::Nonsense);
    assert!(error.message.starts_with("the reply is longer than"), "{}", error.message);

    let endless = (0..64).map(|_| Ok(bytes::Bytes::from(vec![b'x'; 1 << 20])));
    let items: Vec<_> = reply::<Translator>(stream::iter(endless).boxed()).collect().await;
    let error = items.last().unwrap().clone().unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (CallErrorKind::Nonsense, "an event is larger than 16777216 bytes"));
}
