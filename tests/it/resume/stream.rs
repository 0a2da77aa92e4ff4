//! Streams as their readers have them: events with ids, and what they come to.

use serde_json::{Value, json};

/// One event as it came.
#[derive(Clone, Debug, PartialEq)]
pub struct Framed {
    pub id: Option<String>,
    pub event: Value,
}

/// The events of a stream of server-sent events, as far as they are whole.
pub fn framed(body: &str) -> Vec<Framed> {
    let whole = body.rfind("\n\n").map_or("", |end| &body[..end]);
    let one = |frame: &str| {
        let line = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        Some(Framed { id: line("id: "), event: serde_json::from_str(&line("data: ")?).expect("JSON") })
    };
    whole.split("\n\n").filter_map(one).collect()
}

/// A text of a socket: bare, or in an envelope.
pub fn of_text(text: Value) -> Framed {
    match text.get("chunk") {
        Some(chunk) => Framed { id: text["id"].as_str().map(str::to_owned), event: chunk.clone() },
        None => Framed { id: None, event: text },
    }
}

pub fn is_end(event: &Value) -> bool {
    event["type"] == "RUN_FINISHED" || event["type"] == "RUN_ERROR"
}

/// What a stream says, however it was cut: pieces that go on with each other as one, without times.
pub fn merged<'a>(events: impl IntoIterator<Item = &'a Framed>) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    for framed in events {
        let mut event = framed.event.clone();
        event.as_object_mut().unwrap().remove("timestamp");
        let goes_on = all.last().is_some_and(|last| {
            let same = |field: &str| last.get(field) == event.get(field);
            event.get("delta").is_some() && same("type") && same("messageId") && same("toolCallId")
        });
        match all.last_mut() {
            Some(last) if goes_on => {
                let delta = last["delta"].as_str().unwrap().to_owned() + event["delta"].as_str().unwrap();
                last["delta"] = json!(delta);
            }
            Some(_) | None => all.push(event),
        }
    }
    all
}

/// The same stream in the smallest pieces, each with the id that it would have come under.
pub fn flat(events: &[Framed]) -> Vec<Framed> {
    let mut all = Vec::new();
    for Framed { id, event } in events {
        let (Some(delta), Some(id)) = (event["delta"].as_str(), id) else {
            all.push(Framed { id: id.clone(), event: event.clone() });
            continue;
        };
        let (place, told) = id.rsplit_once('.').expect("a place in a reply");
        let told: usize = told.parse().unwrap();
        let count = delta.chars().count();
        for (n, char) in (1..).zip(delta.chars()) {
            let mut piece = event.clone();
            piece["delta"] = json!(char.to_string());
            all.push(Framed { id: Some(format!("{place}.{}", told - count + n)), event: piece });
        }
    }
    all
}

/// The message list that a client makes of a stream: texts, thoughts, calls and results by id.
pub fn built<'a>(events: impl IntoIterator<Item = &'a Framed>) -> Value {
    let mut held = serde_json::Map::new();
    let add = |held: &mut serde_json::Map<String, Value>, id: &Value, delta: &Value| {
        let entry = held.entry(id.as_str().unwrap().to_owned()).or_insert(json!(""));
        *entry = json!(entry.as_str().unwrap().to_owned() + delta.as_str().unwrap_or_default());
    };
    for Framed { event, .. } in events {
        match event["type"].as_str().unwrap() {
            "MESSAGES_SNAPSHOT" => {
                held.clear();
                for message in event["messages"].as_array().unwrap() {
                    let content = if message["content"].is_null() { json!("") } else { message["content"].clone() };
                    if message["role"] != "assistant" || content != "" {
                        held.insert(message["id"].as_str().unwrap().to_owned(), content);
                    }
                    for call in message["toolCalls"].as_array().into_iter().flatten() {
                        held.insert(call["id"].as_str().unwrap().to_owned(), call["function"]["arguments"].clone());
                    }
                }
            }
            "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT" => add(&mut held, &event["messageId"], &event["delta"]),
            "TOOL_CALL_START" => add(&mut held, &event["toolCallId"], &json!("")),
            "TOOL_CALL_ARGS" => add(&mut held, &event["toolCallId"], &event["delta"]),
            "TOOL_CALL_RESULT" => add(&mut held, &event["messageId"], &event["content"]),
            _ => {}
        }
    }
    Value::Object(held)
}
