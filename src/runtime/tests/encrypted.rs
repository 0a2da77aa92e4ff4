//! Opaque forms of a provider's: recorded in their place, told to nobody, counted nowhere.

use crate::ids::ToolCallId;
use crate::protocol::{Content, Message, Part, PartKind};
use crate::provider::{Chunk, EncryptedOf};
use crate::runtime::pieces::Place;
use crate::runtime::reply::Reply;

fn taken(chunks: &[Chunk]) -> Reply {
    let mut reply = Reply::new("r".into(), 1, false, 0);
    for chunk in chunks {
        reply.take(chunk.clone(), 1, |given, _| given.unwrap_or_else(|| ToolCallId::from("fresh")));
    }
    reply
}

fn thought(text: &str) -> Chunk {
    Chunk::Reasoning(text.to_owned())
}

fn text(text: &str) -> Chunk {
    Chunk::Text(text.to_owned())
}

fn call(index: u32, id: &str) -> Chunk {
    Chunk::ToolCall { index, id: Some(id.into()), name: "look".to_owned() }
}

fn encrypted(of: EncryptedOf, value: &str) -> Chunk {
    Chunk::Encrypted { of, value: format!("m:{value}") }
}

/// Parts in short: what they are, what they say, what is opaque in them.
fn drawn(message: &Message) -> String {
    let value = |value: &Option<String>| value.as_ref().map_or(String::new(), |value| format!("={value}"));
    let part = |part: &Part| match part.kind {
        PartKind::Reasoning => format!("~{}{}", part.text.as_deref().unwrap_or("-"), value(&part.encrypted_value)),
        PartKind::Text => format!("{}{}", part.text.as_deref().unwrap_or("-"), value(&part.encrypted_value)),
        other => format!("{other:?}"),
    };
    let parts = match &message.content {
        None => Vec::new(),
        Some(Content::Text(text)) => vec![format!("'{text}'")],
        Some(Content::Parts(parts)) => parts.iter().map(part).collect(),
        Some(Content::Object(_)) => panic!("a reply"),
    };
    let calls = message.tool_calls.iter().map(|call| format!("{}{}", call.id, value(&call.encrypted_value)));
    parts.into_iter().chain(calls).collect::<Vec<_>>().join(" ")
}

#[test]
fn opaque_forms_stand_with_what_they_are_of() {
    let reply = taken(&[
        thought("hm"),
        encrypted(EncryptedOf::Reasoning, "a"),
        encrypted(EncryptedOf::Reasoning, "b"),
        thought("hmm"),
        encrypted(EncryptedOf::Reasoning, "c"),
        text("He"),
        text("llo"),
        encrypted(EncryptedOf::Text, "d"),
        text("!"),
        call(0, "c0"),
        call(1, "c1"),
        encrypted(EncryptedOf::ToolCall(0), "e"),
        encrypted(EncryptedOf::ToolCall(7), "lost"),
    ]);
    assert_eq!(drawn(&reply.message()), "~hm=m:a ~-=m:b ~hmm=m:c Hello=m:d ! c0=m:e c1");
    assert_eq!(drawn(&reply.message().without_encrypted()), "~hm ~hmm Hello ! c0 c1");
    let (joined, _) = reply.joined().unwrap();
    assert!(!joined.has_encrypted() && reply.message().has_encrypted());
}

#[test]
fn a_text_that_is_signed_at_its_end_keeps_that() {
    let signed = taken(&[text("Hello"), encrypted(EncryptedOf::Text, "a")]);
    assert_eq!(drawn(&signed.message()), "Hello=m:a");
    let after_a_call = taken(&[call(0, "c0"), encrypted(EncryptedOf::Text, "a")]);
    assert_eq!(drawn(&after_a_call.message()), "ToolCall =m:a c0");
    let alone = taken(&[encrypted(EncryptedOf::Reasoning, "a")]);
    assert_eq!(drawn(&alone.message()), "~-=m:a");
    assert_eq!(drawn(&alone.message().without_encrypted()), "");
    assert!(!alone.was_shown());
}

/// Without opaque forms readers are told the same, at the same places.
#[test]
fn readers_are_told_the_same_without_them() {
    let with = [
        thought("hm"),
        encrypted(EncryptedOf::Reasoning, "a"),
        text("Hel"),
        encrypted(EncryptedOf::Text, "b"),
        text("lo"),
        call(0, "c0"),
        Chunk::ToolArguments { index: 0, delta: "{}".to_owned() },
        encrypted(EncryptedOf::ToolCall(0), "c"),
        encrypted(EncryptedOf::Reasoning, "d"),
    ];
    let without: Vec<Chunk> = with.iter().filter(|chunk| !matches!(chunk, Chunk::Encrypted { .. })).cloned().collect();
    let (with, without) = (taken(&with), taken(&without));
    assert_eq!(with.since(Place::default()), without.since(Place::default()));
    assert_eq!(with.cursor(), without.cursor());
    for told in 0..=with.cursor().within.unwrap().1 {
        assert_eq!(with.since(with.place(told)), without.since(without.place(told)));
    }
}
