//! The stock clients' rules about the order of events, and what a client then holds. Stricter than either client: what one of
//! them lets pass and the other doesn't is a fault.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// A client.
#[derive(Default)]
pub struct Client {
    phase: Phase,
    open: BTreeSet<(&'static str, String)>,
    /// What it shows, in its order.
    pub messages: Vec<Value>,
    /// The state it was given.
    pub state: Option<Value>,
}

#[derive(Default, PartialEq, Debug)]
enum Phase {
    #[default]
    New,
    Running,
    Finished,
    Failed,
}

impl Client {
    /// What a client holds after `events`, all of which must be legal.
    pub fn read(events: &[Value]) -> Result<Self, String> {
        let mut client = Self::default();
        for event in events {
            client.event(event).map_err(|fault| format!("{fault}: {event}"))?;
        }
        Ok(client)
    }

    /// Whether the stream has had its terminal.
    pub fn ended(&self) -> bool {
        matches!(self.phase, Phase::Finished | Phase::Failed)
    }

    fn event(&mut self, event: &Value) -> Result<(), String> {
        let text = |field: &str| event[field].as_str().map(str::to_owned).ok_or_else(|| format!("no {field}"));
        let kind = text("type")?;
        match (&self.phase, kind.as_str()) {
            (Phase::New | Phase::Finished, "RUN_STARTED" | "RUN_ERROR") | (Phase::Failed, "RUN_STARTED") | (Phase::Running, _) => {}
            (phase, _) => return Err(format!("not when {phase:?}")),
        }
        match kind.as_str() {
            "RUN_STARTED" if self.phase == Phase::Running => return Err("a run is active".to_owned()),
            "RUN_STARTED" => self.phase = Phase::Running,
            "RUN_FINISHED" if !self.open.is_empty() => return Err(format!("still open: {:?}", self.open)),
            "RUN_FINISHED" => self.phase = Phase::Finished,
            "RUN_ERROR" => self.phase = Phase::Failed,
            "TEXT_MESSAGE_START" => {
                self.start("text", &text("messageId")?)?;
                self.show(&text("messageId")?, &text("role")?);
            }
            "TEXT_MESSAGE_CONTENT" => self.add("text", &text("messageId")?, &text("delta")?)?,
            "TEXT_MESSAGE_END" => self.end("text", &text("messageId")?)?,
            "REASONING_START" => self.start("span", &text("messageId")?)?,
            "REASONING_END" => self.end("span", &text("messageId")?)?,
            "REASONING_MESSAGE_START" => {
                self.start("reasoning", &text("messageId")?)?;
                self.show(&text("messageId")?, &text("role")?);
            }
            "REASONING_MESSAGE_CONTENT" => self.add("reasoning", &text("messageId")?, &text("delta")?)?,
            "REASONING_MESSAGE_END" => self.end("reasoning", &text("messageId")?)?,
            "TOOL_CALL_START" => self.call(&text("toolCallId")?, &text("toolCallName")?, &text("parentMessageId")?)?,
            "TOOL_CALL_ARGS" => self.arguments(&text("toolCallId")?, &text("delta")?)?,
            "TOOL_CALL_END" => self.end("call", &text("toolCallId")?)?,
            "TOOL_CALL_RESULT" => self.result(event, &text("messageId")?, &text("toolCallId")?)?,
            "STATE_SNAPSHOT" => self.state = Some(event["snapshot"].clone()),
            "MESSAGES_SNAPSHOT" => self.messages.clone_from(event["messages"].as_array().ok_or("no messages")?),
            "ACTIVITY_SNAPSHOT" | "CUSTOM" => {}
            other => return Err(format!("unexpected {other}")),
        }
        Ok(())
    }

    fn start(&mut self, kind: &'static str, id: &str) -> Result<(), String> {
        if self.open.insert((kind, id.to_owned())) { Ok(()) } else { Err(format!("{kind} {id} is already open")) }
    }

    fn end(&mut self, kind: &'static str, id: &str) -> Result<(), String> {
        if self.open.remove(&(kind, id.to_owned())) { Ok(()) } else { Err(format!("{kind} {id} is not open")) }
    }

    fn show(&mut self, id: &str, role: &str) {
        if self.message(id).is_none() {
            self.messages.push(json!({"id": id, "role": role, "content": ""}));
        }
    }

    fn message(&mut self, id: &str) -> Option<&mut Value> {
        self.messages.iter_mut().find(|message| message["id"] == id)
    }

    fn add(&mut self, kind: &'static str, id: &str, delta: &str) -> Result<(), String> {
        if !self.open.contains(&(kind, id.to_owned())) {
            return Err(format!("{kind} {id} is not open"));
        }
        if delta.is_empty() {
            return Err("an empty delta".to_owned());
        }
        let message = self.message(id).ok_or("no such message")?;
        let text = message["content"].as_str().unwrap_or_default().to_owned() + delta;
        message["content"] = text.into();
        Ok(())
    }

    fn call(&mut self, id: &str, name: &str, parent: &str) -> Result<(), String> {
        self.start("call", id)?;
        if self.message(parent).is_none() {
            self.messages.push(json!({"id": parent, "role": "assistant"}));
        }
        if self.find_call(id).is_none() {
            let call = json!({"id": id, "type": "function", "function": {"name": name, "arguments": ""}});
            let parent = self.message(parent).ok_or("no parent")?;
            match parent["toolCalls"].as_array_mut() {
                Some(calls) => calls.push(call),
                None => parent["toolCalls"] = json!([call]),
            }
        }
        Ok(())
    }

    fn find_call(&mut self, id: &str) -> Option<&mut Value> {
        self.messages.iter_mut().filter_map(|message| message["toolCalls"].as_array_mut()).flatten().find(|call| call["id"] == id)
    }

    fn arguments(&mut self, id: &str, delta: &str) -> Result<(), String> {
        if !self.open.contains(&("call", id.to_owned())) {
            return Err(format!("call {id} is not open"));
        }
        let call = self.find_call(id).ok_or("no such call")?;
        let arguments = call["function"]["arguments"].as_str().unwrap_or_default().to_owned() + delta;
        call["function"]["arguments"] = arguments.into();
        Ok(())
    }

    fn result(&mut self, event: &Value, id: &str, call: &str) -> Result<(), String> {
        if self.message(id).is_some() {
            return Err(format!("{id} is already there"));
        }
        self.messages.push(json!({"id": id, "role": "tool", "toolCallId": call, "content": event["content"]}));
        Ok(())
    }
}

#[test]
fn the_checker_sees_each_kind_of_fault() {
    let started = json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"});
    let finished = json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"});
    let open = json!({"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"});
    let add = |delta: &str| json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": delta});
    let close = json!({"type": "TEXT_MESSAGE_END", "messageId": "m"});
    let thinks = json!({"type": "REASONING_MESSAGE_START", "messageId": "m", "role": "reasoning"});
    let calls = json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f", "parentMessageId": "m"});
    let orphan = json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f"});
    let result = json!({"type": "TOOL_CALL_RESULT", "messageId": "x", "toolCallId": "c", "content": "y"});
    let good = [&started, &open, &add("a"), &calls, &close, &json!({"type": "TOOL_CALL_END", "toolCallId": "c"}), &result, &finished];
    assert!(Client::read(&good.map(Clone::clone)).unwrap().ended());
    for wrong in [
        vec![&open],
        vec![&started, &started],
        vec![&started, &add("a")],
        vec![&started, &open, &open],
        vec![&started, &open, &add("")],
        vec![&started, &close],
        vec![&started, &open, &finished],
        vec![&started, &thinks, &finished],
        vec![&started, &calls, &finished],
        vec![&started, &orphan],
        vec![&started, &calls, &calls],
        vec![&started, &result, &result],
        vec![&started, &finished, &open],
        vec![&started, &finished, &finished],
    ] {
        let events: Vec<Value> = wrong.into_iter().cloned().collect();
        assert!(Client::read(&events).is_err(), "{events:?}");
    }
}
