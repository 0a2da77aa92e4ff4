//! What a client makes of one thread's events.

use std::collections::BTreeSet;

use serde_json::Value;

/// A message as a reader has it: its id, its role, what it says.
pub type Said = (String, String, String);

/// What a client makes of one thread's events; it is as strict as the stock ones.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    /// The run that it is in.
    pub run: Option<String>,
    /// What was started and hasn't ended.
    pub open: BTreeSet<String>,
    pub messages: Vec<Said>,
    /// How runs ended.
    pub ends: Vec<String>,
    /// Their names.
    pub starts: Vec<String>,
}

/// A message of AG-UI or of the native API.
pub fn words(message: &Value) -> Said {
    let text = |field: &str| message[field].as_str().unwrap_or_default().to_owned();
    let mut content = text("content");
    for call in message["toolCalls"].as_array().or(message["tool_calls"].as_array()).into_iter().flatten() {
        content.push_str(&[" ", call["id"].as_str().unwrap(), "(", call["function"]["arguments"].as_str().unwrap(), ")"].concat());
    }
    (text("id"), text("role"), content)
}

impl Reader {
    fn say(&mut self, id: &str, role: &str, text: &str) {
        match self.messages.iter_mut().find(|(known, ..)| known == id) {
            Some((_, _, content)) => content.push_str(text),
            None => self.messages.push((id.to_owned(), role.to_owned(), text.to_owned())),
        }
    }

    /// One event more.
    pub fn take(&mut self, event: &Value) {
        let kind = event["type"].as_str().unwrap();
        let field = |name: &str| event[name].as_str().unwrap_or_else(|| panic!("{name}: {event}")).to_owned();
        if !matches!(kind, "RUN_STARTED" | "RUN_ERROR") {
            assert!(self.run.is_some(), "outside of a run: {event}");
        }
        match kind {
            "RUN_STARTED" => {
                assert_eq!(self.run, None, "a run in a run: {event}");
                self.run = Some(field("runId"));
                self.starts.push(field("runId"));
                if let Some(input) = event.get("input") {
                    assert!(input["tools"].is_array() && input["context"].is_array(), "{event}");
                    for message in input["messages"].as_array().unwrap() {
                        let message = words(message);
                        if !self.messages.iter().any(|(id, ..)| *id == message.0) {
                            self.messages.push(message);
                        }
                    }
                }
            }
            "RUN_FINISHED" => {
                assert_eq!(self.run.take(), Some(field("runId")), "{event}");
                assert!(self.open.is_empty(), "open: {:?}", self.open);
                self.ends.push(event["outcome"]["type"].as_str().unwrap_or("success").to_owned());
            }
            "RUN_ERROR" => {
                (self.run, self.open) = (None, BTreeSet::new());
                self.ends.push(field("code"));
            }
            "MESSAGES_SNAPSHOT" => self.messages = event["messages"].as_array().unwrap().iter().map(words).collect(),
            "TEXT_MESSAGE_START" => {
                assert!(self.open.insert(field("messageId")), "{event}");
                self.say(&field("messageId"), "assistant", "");
            }
            "TEXT_MESSAGE_CONTENT" => {
                assert!(self.open.contains(&field("messageId")), "{event}");
                self.say(&field("messageId"), "assistant", &field("delta"));
            }
            "TEXT_MESSAGE_END" => assert!(self.open.remove(&field("messageId")), "{event}"),
            "TOOL_CALL_START" => {
                assert!(self.open.insert(field("toolCallId")), "{event}");
                let (parent, call) = (field("parentMessageId"), format!(" {}(", field("toolCallId")));
                // One that goes on is there already.
                if !self.messages.iter().any(|(id, _, said)| *id == parent && said.contains(&call)) {
                    self.say(&parent, "assistant", &format!("{call})"));
                }
            }
            "TOOL_CALL_ARGS" => {
                assert!(self.open.contains(&field("toolCallId")), "{event}");
                let call = format!(" {}(", field("toolCallId"));
                let said = &mut self.messages.iter_mut().find(|(_, _, said)| said.contains(&call)).unwrap().2;
                let at = said.find(&call).unwrap();
                let end = at + said[at..].find(')').unwrap();
                said.insert_str(end, &field("delta"));
            }
            "TOOL_CALL_END" => assert!(self.open.remove(&field("toolCallId")), "{event}"),
            "TOOL_CALL_RESULT" => self.say(&field("messageId"), "tool", &field("content")),
            other => panic!("{other}"),
        }
    }
}
