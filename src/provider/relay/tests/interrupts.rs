//! Agents that wait for an answer: what they ask, and how they are told.

use std::collections::HashSet;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use super::{occasion, request};
use crate::protocol::{CallRequest, Finish, Interrupt, Message, Occasion, Resume, ResumeStatus, Role};
use crate::provider::http::Reply;
use crate::provider::http::recorded::Items;
use crate::provider::relay::request::body;
use crate::provider::relay::translate::Translator;
use crate::provider::{CallOf, Chunk, UpstreamThread};

async fn heard(translator: Translator, events: &[Value]) -> Items {
    let run: String = events.iter().fold(String::new(), |run, event| run + "data: " + &event.to_string() + "\n\n");
    let body = stream::iter([Ok(Bytes::from(run))]).boxed();
    Reply::new(body, std::time::Duration::from_mins(1), translator).collect().await
}

fn asked(items: &Items) -> Vec<(Option<u32>, Interrupt)> {
    let asked = |item: &Result<Chunk, _>| match item {
        Ok(Chunk::Interrupt { of, interrupt }) => Some((*of, Interrupt::clone(interrupt))),
        _ => None,
    };
    items.iter().filter_map(asked).collect()
}

fn metadata(interrupt: &Interrupt) -> Value {
    serde_json::from_str(interrupt.metadata.as_ref().unwrap().get()).unwrap()
}

#[tokio::test]
async fn what_an_agent_asks_is_kept_with_its_own_names() {
    let translator = || Translator::default().on("thread-1".to_owned(), HashSet::new());
    let started = json!({"type": "RUN_STARTED"});
    let call = [
        json!({"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "book"}),
        json!({"type": "TOOL_CALL_END", "toolCallId": "c1"}),
    ];
    let outcome =
        json!({"type": "interrupt", "interrupts": [{"id": "i1", "reason": "approval", "toolCallId": "c1", "metadata": {"risk": "low"}}]});
    let finished = json!({"type": "RUN_FINISHED", "outcome": outcome});
    let items = heard(translator(), &[std::slice::from_ref(&started), &call[..], std::slice::from_ref(&finished)].concat()).await;
    let [(of, interrupt)] = &asked(&items)[..] else { panic!("{items:?}") };
    assert_eq!((*of, interrupt.id.as_str(), interrupt.reason.as_str()), (Some(0), "i1", "approval"));
    assert_eq!(metadata(interrupt), json!({"risk": "low", "headwater": {"thread": "thread-1", "interrupt": "i1"}}));
    assert_eq!(items.last().unwrap().as_ref().unwrap(), &Chunk::Finished(Finish::ToolCalls));

    // As older agents of LangGraph's say it; the outcome says it better.
    let custom = |value: Value| json!({"type": "CUSTOM", "name": "on_interrupt", "value": value, "rawEvent": {"id": "raw-1"}});
    let plain = json!({"type": "RUN_FINISHED"});
    for (value, message, payload) in [
        (json!("Book it?"), Some("Book it?"), None),
        (json!({"seat": 1}), None, Some(r#"{"seat":1}"#)),
        (json!("{\"seat\":1}"), None, Some(r#"{"seat":1}"#)),
    ] {
        let items = heard(translator(), &[started.clone(), custom(value), plain.clone()]).await;
        let [(None, interrupt)] = &asked(&items)[..] else { panic!("{items:?}") };
        assert_eq!((interrupt.id.as_str(), interrupt.message.as_deref()), ("raw-1", message));
        assert_eq!(interrupt.payload.as_ref().map(|payload| payload.get().to_owned()).as_deref(), payload);
        assert_eq!(metadata(interrupt)["headwater"]["thread"], "thread-1");
    }
    let both = heard(translator(), &[started, custom(json!("Book it?")), finished]).await;
    assert_eq!(asked(&both).len(), 1);
    assert_eq!(asked(&both)[0].1.id.as_str(), "i1");
}

fn resumed(names: &Value, call: &str) -> (Resume, Interrupt) {
    let payload = serde_json::from_str(r#"{"approved":true}"#).ok();
    let resume = Resume { interrupt_id: "ours".into(), status: ResumeStatus::Resolved, payload };
    let interrupt = json!({"id": "ours", "reason": "approval", "tool_call_id": call, "metadata": names});
    (resume, serde_json::from_value(interrupt).unwrap())
}

#[test]
fn the_answer_goes_to_the_thread_that_waits() {
    let names = json!({"headwater": {"thread": "thread-1", "interrupt": "i1"}});
    let paired =
        |id: Option<&str>| Message { id: id.map(Into::into), tool_call_id: Some("c1".into()), ..Message::text(Role::Tool, "none") };
    let sent = |resumed, result: Message| {
        let occasion = Occasion { resumed: vec![resumed], ..occasion() };
        let messages = request("q").messages.into_iter().chain([result.into()]).collect();
        let request = CallRequest { occasion: Some(Box::new(occasion)), messages, ..CallRequest::default() };
        serde_json::from_slice::<Value>(&body(UpstreamThread::Run, &request).unwrap()).unwrap()
    };
    let told = sent(resumed(&names, "c1"), paired(None));
    assert_eq!(told["threadId"], "thread-1");
    assert_eq!(told["resume"], json!([{"interruptId": "i1", "status": "resolved", "payload": {"approved": true}}]));
    assert_eq!(told["messages"].as_array().unwrap().len(), 1, "no result is made up for the call that waits");
    // One of somebody else's keeps its name, and a result that is there stays.
    let told = sent(resumed(&json!({}), "c1"), paired(Some("t1")));
    assert_eq!((told["resume"][0]["interruptId"].as_str(), told["messages"].as_array().unwrap().len()), (Some("ours"), 2));
}

#[tokio::test]
async fn a_call_that_waited_gets_its_result_in_the_next_run() {
    let translator = Translator::default().on("thread-1".to_owned(), HashSet::from(["c1".to_owned()]));
    let result = |id: &str| json!({"type": "TOOL_CALL_RESULT", "toolCallId": id, "content": "booked"});
    let text = json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "Done."});
    let events = [json!({"type": "RUN_STARTED"}), result("c9"), result("c1"), result("c1"), text, json!({"type": "RUN_FINISHED"})];
    let of = CallOf::Before("c1".into());
    let expected = [
        Chunk::ToolResult { of, content: "booked".to_owned(), error: None },
        Chunk::Next,
        Chunk::Text("Done.".to_owned()),
        Chunk::Finished(Finish::Stop),
    ];
    assert_eq!(heard(translator, &events).await, expected.map(Ok));
}
