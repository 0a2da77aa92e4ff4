//! Runs that nobody would send: whatever comes, what leaves is in order.

use std::collections::{HashSet, VecDeque};

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::protocol::CallErrorKind;
use crate::provider::http::{Progress, Translate};
use crate::provider::relay::translate::Translator;
use crate::provider::{CallOf, Chunk};

/// An event over few names, so that they meet.
fn event() -> impl Strategy<Value = Value> {
    let name = || prop::sample::select(vec!["a", "b", "c"]);
    let text = || prop::sample::select(vec!["", "x", "yz"]);
    prop_oneof![
        4 => name().prop_map(|id| json!({"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"})),
        6 => (name(), text()).prop_map(|(id, delta)| json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": delta})),
        4 => name().prop_map(|id| json!({"type": "TEXT_MESSAGE_END", "messageId": id})),
        4 => (name(), text()).prop_map(|(id, delta)| json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": id, "delta": delta})),
        2 => text().prop_map(|delta| json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": "r", "delta": delta})),
        4 => (name(), name()).prop_map(|(id, tool)| json!({"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": tool})),
        4 => (name(), text()).prop_map(|(id, delta)| json!({"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": delta})),
        4 => name().prop_map(|id| json!({"type": "TOOL_CALL_END", "toolCallId": id})),
        3 => (name(), name()).prop_map(|(id, tool)| json!({"type": "TOOL_CALL_CHUNK", "toolCallId": id, "toolCallName": tool, "delta": "{}"})),
        6 => (name(), text()).prop_map(|(id, said)| json!({"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": id, "content": said})),
        1 => text().prop_map(|said| json!({"type": "STATE_SNAPSHOT", "snapshot": {"said": said}})),
        1 => text().prop_map(|said| json!({"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/said", "value": said}]})),
        1 => Just(json!({"type": "STEP_STARTED", "stepName": "s"})),
        1 => Just(json!({"type": "RUN_ERROR", "message": "no"})),
        2 => Just(json!({"type": "RUN_FINISHED"})),
    ]
}

/// What a run gives: chunks, and whether it ended well.
fn run(events: &[Value]) -> (Vec<Chunk>, bool) {
    let mut translator = Translator::new(HashSet::new(), HashSet::from(["c".to_owned()]), None);
    let mut chunks = VecDeque::new();
    let started = json!({"type": "RUN_STARTED"});
    for event in std::iter::once(&started).chain(events) {
        match translator.read("", &event.to_string(), &mut chunks) {
            Ok(Progress::More) => {}
            Ok(Progress::Done) => {
                let well = translator.end(true, &mut chunks).is_ok();
                return (chunks.into(), well);
            }
            Err(_) => {
                translator.give_up(&mut chunks);
                return (chunks.into(), false);
            }
        }
    }
    assert_eq!(translator.end(false, &mut chunks).unwrap_err().kind, CallErrorKind::Cut);
    translator.give_up(&mut chunks);
    (chunks.into(), false)
}

proptest! {
    #[test]
    fn what_leaves_is_in_order(events in prop::collection::vec(event(), 0..40)) {
        let (chunks, well) = run(&events);
        // Of the reply that is being made: whether each of its calls has a result.
        let mut answered: Vec<bool> = Vec::new();
        let mut says = false;
        for chunk in &chunks {
            match chunk {
                Chunk::Text(text) | Chunk::Reasoning(text) => {
                    prop_assert!(!text.is_empty());
                    says = true;
                }
                Chunk::ToolCall { index, .. } => {
                    prop_assert_eq!(*index as usize, answered.len());
                    answered.push(false);
                }
                Chunk::ToolArguments { index, .. } => prop_assert!(answered.get(*index as usize) == Some(&false)),
                Chunk::ToolResult { of: CallOf::Reply(index), .. } => {
                    prop_assert!(!std::mem::replace(&mut answered[*index as usize], true), "one result each");
                }
                Chunk::Next => {
                    prop_assert!(says || !answered.is_empty(), "a reply that is whole says something");
                    prop_assert!(answered.iter().all(|has| *has), "it is whole with the results of its calls");
                    answered.clear();
                    says = false;
                }
                Chunk::State(_) => {}
                other @ (Chunk::ToolResult { .. } | Chunk::Encrypted { .. } | Chunk::Usage(_) | Chunk::Interrupt { .. } | Chunk::Finished(_)) => {
                    prop_assert!(false, "{:?}", other);
                }
            }
        }
        // Nothing that an agent carried out is lost with it.
        prop_assert!(well || answered.iter().all(|has| !has), "{:?}", chunks);
    }
}
