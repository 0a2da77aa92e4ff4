//! Interrupts that a worker's answer raises: whether they can be. May not write records.

use std::collections::HashSet;

use super::check::Place;
use super::said::Said;
use crate::engine::decision::Asked;
use crate::ids::{InterruptId, SERVER_PREFIX};
use crate::protocol::{Code, Json, Raise, Refusal, Schema, interrupt};

/// The longest reason, in bytes.
const REASON_BYTES_MAX: usize = 256;
/// The longest text for people, in bytes.
const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// The most interrupts of one answer.
const MOST: usize = 100;

/// What an answer raises, or why it can't be.
pub(super) fn raised(asked: &Asked<'_>, raises: &[(Place, &Raise)], said: &Said) -> Result<Vec<Raise>, Refusal> {
    let mut ids = HashSet::new();
    if let Some((place, _)) = raises.get(MOST) {
        return Err(place.bad(format_args!("an answer raises at most {MOST} interrupts")));
    }
    for (place, raise) in raises {
        must_be_new(asked, place, raise.id.as_ref())?;
        if let Some(id) = raise.id.as_ref().filter(|id| !ids.insert(*id)) {
            return Err(place.field("id").bad(format_args!("{id} stands there twice; give each interrupt an id of its own, or none")));
        }
        must_be_words(place, raise)?;
        must_be_called(asked, place, raise, said)?;
        must_be_usable(place, raise)?;
    }
    Ok(raises.iter().map(|(_, raise)| Raise::clone(raise)).collect())
}

fn must_be_new(asked: &Asked<'_>, place: &Place, id: Option<&InterruptId>) -> Result<(), Refusal> {
    let Some(id) = id else { return Ok(()) };
    if id.as_str().starts_with(SERVER_PREFIX) {
        let text = format!("{id} begins with Headwater's own prefix; give the interrupt an id of its own or none");
        return Err(place.field("id").refuse(Code::ReservedId, text));
    }
    if asked.session.knows_interrupt(id) {
        let text = format!("{id} is an interrupt of this session already; give the new one an id of its own or none");
        return Err(place.field("id").bad(text));
    }
    Ok(())
}

fn must_be_words(place: &Place, raise: &Raise) -> Result<(), Refusal> {
    if raise.reason.trim().is_empty() || raise.reason.len() > REASON_BYTES_MAX {
        return Err(place.field("reason").bad(format_args!("a reason has 1 to {REASON_BYTES_MAX} bytes")));
    }
    if raise.message.as_ref().is_some_and(|message| message.len() > MESSAGE_BYTES_MAX) {
        return Err(place.field("message").bad(format_args!("a message for people has at most {MESSAGE_BYTES_MAX} bytes")));
    }
    Ok(())
}

/// One that is about a tool call names a call of the session.
fn must_be_called(asked: &Asked<'_>, place: &Place, raise: &Raise, said: &Said) -> Result<(), Refusal> {
    let Some(id) = &raise.tool_call_id else { return Ok(()) };
    let tree = &asked.session.tree;
    let refuse = |what: String| {
        let refusal = place.field("tool_call_id").refuse(Code::CallNotOpen, what);
        Err(refusal.with("tool_call_id", id.as_str()))
    };
    if said.has_messages() && tree.open_calls().contains(id) {
        return refuse(format!("the answer's messages would stand between the call {id} and its result; leave them out"));
    }
    if tree.call(id).is_none() && !said.calls.iter().any(|call| call.id == *id) {
        return refuse(format!("{id} is no tool call of this session"));
    }
    Ok(())
}

fn must_be_usable(place: &Place, raise: &Raise) -> Result<(), Refusal> {
    if let Some(schema) = &raise.response_schema {
        Schema::new(schema).map_err(|what| place.field("response_schema").bad(format_args!("it can't be used: {what}")))?;
    }
    if let Some(at) = &raise.expires_at
        && interrupt::instant(at).is_none()
    {
        return Err(place.field("expires_at").bad("it is no time like 2026-01-01T00:00:00Z (RFC 3339)"));
    }
    if raise.metadata.as_ref().is_some_and(|metadata: &Json| !metadata.is_object()) {
        return Err(place.field("metadata").bad("it is an object"));
    }
    Ok(())
}
