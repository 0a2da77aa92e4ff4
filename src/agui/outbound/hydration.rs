//! A conversation as `TanStack`'s chat keeps it: messages made of parts, results beside their calls. May not know who reads.

use serde_json::{Value, json};

use crate::protocol::{Content, Message, Part, PartKind, Role, Snapshot, ToolCall};

/// The conversation's messages.
pub fn ui_messages(snapshot: &Snapshot) -> Vec<Value> {
    let mut shown: Vec<Shown> = Vec::with_capacity(snapshot.messages.len());
    for message in &snapshot.messages {
        let Some(id) = &message.id else { continue };
        let (role, parts) = match message.role {
            Role::User => ("user", said(message)),
            Role::Assistant => ("assistant", written(message)),
            Role::System | Role::Developer => ("system", said(message)),
            Role::Reasoning => ("assistant", vec![thought(&message.joined_text())]),
            Role::Tool => {
                answer(&mut shown, message);
                continue;
            }
            // It has nothing like it.
            Role::Activity => continue,
        };
        shown.push(Shown { id: id.as_str().to_owned(), role, parts });
    }
    shown.into_iter().map(|Shown { id, role, parts }| json!({ "id": id, "role": role, "parts": parts })).collect()
}

struct Shown {
    id: String,
    role: &'static str,
    parts: Vec<Value>,
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "content": text })
}

fn thought(text: &str) -> Value {
    json!({ "type": "thinking", "content": text })
}

fn call(call: &ToolCall) -> Value {
    let function = &call.function;
    json!({ "type": "tool-call", "id": call.id, "name": function.name, "arguments": function.arguments, "state": "input-complete" })
}

fn said(message: &Message) -> Vec<Value> {
    match &message.content {
        Some(Content::Parts(parts)) => parts.iter().filter_map(|part| shown_part(part, message)).collect(),
        Some(Content::Text(_) | Content::Object(_)) | None => vec![text(&message.joined_text())],
    }
}

/// A reply's parts, in the order in which they were written.
fn written(message: &Message) -> Vec<Value> {
    let mut parts = match &message.content {
        Some(Content::Text(said)) if !said.is_empty() => vec![text(said)],
        Some(Content::Parts(parts)) => parts.iter().filter_map(|part| shown_part(part, message)).collect(),
        Some(Content::Text(_) | Content::Object(_)) | None => Vec::new(),
    };
    let marked = |id: &Value| parts.iter().any(|part| part["type"] == "tool-call" && part["id"] == *id);
    let rest: Vec<Value> = message.tool_calls.iter().map(call).filter(|call| !marked(&call["id"])).collect();
    parts.extend(rest);
    parts
}

fn shown_part(part: &Part, message: &Message) -> Option<Value> {
    let said = part.text.as_deref().unwrap_or_default();
    match part.kind {
        PartKind::Text | PartKind::Reasoning if said.is_empty() => None,
        PartKind::Text => Some(text(said)),
        PartKind::Reasoning => Some(thought(said)),
        PartKind::ToolCall => message.tool_calls.iter().find(|call| part.tool_call_id.as_ref() == Some(&call.id)).map(call),
        PartKind::Image | PartKind::Audio | PartKind::Video | PartKind::Document => {
            let mut source: Value = serde_json::from_str(part.source.as_ref()?.get()).ok()?;
            if let Some(mime_type) = source.as_object_mut()?.remove("mime_type") {
                source["mimeType"] = mime_type;
            }
            Some(json!({ "type": part.kind, "source": source }))
        }
    }
}

/// A result stands in the message whose call it answers.
fn answer(shown: &mut [Shown], message: &Message) {
    let Some(id) = &message.tool_call_id else { return };
    let asks = |part: &Value| part["type"] == "tool-call" && part["id"] == id.as_str();
    let Some(asked) = shown.iter_mut().rev().find(|shown| shown.parts.iter().any(asks)) else { return };
    let content = message.joined_text();
    let mut result = json!({ "type": "tool-result", "toolCallId": id, "content": content, "state": "complete" });
    if let Some(error) = &message.error {
        result["state"] = "error".into();
        result["error"] = error.as_str().into();
    }
    if let Some(part) = asked.parts.iter_mut().find(|part| asks(part)) {
        part["output"] = serde_json::from_str(&content).unwrap_or(Value::String(content));
    }
    asked.parts.push(result);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn results_stand_beside_their_calls_and_parts_in_their_order() {
        let mark = Part { tool_call_id: Some("c1".into()), text: None, ..Part::text(PartKind::ToolCall, "") };
        let parts = vec![Part::text(PartKind::Reasoning, "hm"), mark, Part::text(PartKind::Text, "so")];
        let calls = ["c1", "c2"].map(|id| ToolCall::new(id.into(), "look", "{}"));
        let reply = Message { content: Some(Content::Parts(parts)), tool_calls: calls.to_vec(), ..Message::empty(Role::Assistant) };
        let result = |id: &str, error: Option<&str>| Message {
            tool_call_id: Some(id.into()),
            error: error.map(str::to_owned),
            ..Message::text(Role::Tool, "{\"n\":1}")
        };
        let all = [
            Message::text(Role::Developer, "be kind"),
            Message::text(Role::User, "hi"),
            reply,
            result("c1", None),
            result("c2", Some("no")),
            result("c9", None),
        ];
        let messages = (1..).zip(all).map(|(n, message)| Arc::new(message.with_id(format!("m{n}").into()))).collect();
        let asked = |id: &str| json!({"type": "tool-call", "id": id, "name": "look", "arguments": "{}", "state": "input-complete", "output": {"n": 1}});
        assert_eq!(
            ui_messages(&Snapshot { messages, ..Snapshot::default() }),
            [
                json!({"id": "m1", "role": "system", "parts": [text("be kind")]}),
                json!({"id": "m2", "role": "user", "parts": [text("hi")]}),
                json!({"id": "m3", "role": "assistant", "parts": [
                    thought("hm"), asked("c1"), text("so"), asked("c2"),
                    {"type": "tool-result", "toolCallId": "c1", "content": "{\"n\":1}", "state": "complete"},
                    {"type": "tool-result", "toolCallId": "c2", "content": "{\"n\":1}", "state": "error", "error": "no"},
                ]}),
            ]
        );
    }
}
