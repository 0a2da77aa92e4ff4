//! Turns that wait for the running one, in the order in which they came.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::record::TurnQueued;
use crate::ids::{AgentId, Millis, NodeId, ToolCallId, TurnId};
use crate::protocol::{Client, Digest, Message, Role};

/// A turn that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Queued {
    /// Which.
    pub id: TurnId,
    /// Whose.
    pub agent_id: AgentId,
    /// What its first input held.
    pub digest: Digest,
    /// Whether others may join it.
    pub open: bool,
    /// Whether others did: it isn't one submitter's any more.
    pub merged: bool,
    /// What it brings, each with an id; what is recorded elsewhere without content.
    pub messages: Vec<Arc<Message>>,
    /// Overrides whether a reply is due.
    pub run: Option<bool>,
    /// What the client offers.
    pub client: Client,
    /// Since when.
    pub at: Millis,
}

impl Queued {
    /// Whether it brings the message `id`.
    pub fn brings(&self, id: &NodeId) -> bool {
        self.messages.iter().any(|message| message.id.as_ref() == Some(id))
    }

    /// Whether it asks for a reply, as far as that is known before it begins.
    pub fn asks(&self) -> bool {
        asks(self.run, self.messages.iter().map(AsRef::as_ref))
    }
}

/// Whether messages that follow the head ask for a reply: `run` says so, or the last of them is a user's.
pub(super) fn asks<'m>(run: Option<bool>, messages: impl Iterator<Item = &'m Message>) -> bool {
    let last = || messages.filter(|message| message.role != Role::Activity).last();
    run.unwrap_or_else(|| last().is_some_and(|message| message.role == Role::User))
}

/// Of inputs that become one turn: a reply is due when one of them says so, none when all do; else their messages say.
pub(super) fn together(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    match (one, other) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        (None, None | Some(false)) | (Some(false), None) => None,
    }
}

/// The turns that wait.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    turns: VecDeque<Queued>,
}

impl Queue {
    /// Takes an input that waits; the fold's part.
    pub(super) fn take(&mut self, at: Millis, queued: TurnQueued) -> Result<(), String> {
        let TurnQueued { turn_id, into, agent_id, digest, open, messages, run, client } = queued;
        let messages = messages.into_iter().map(Arc::new);
        match into {
            None => {
                let messages = messages.collect();
                self.turns.push_back(Queued { id: turn_id, agent_id, digest, open, merged: false, messages, run, client, at });
            }
            Some(group) => {
                let last = self.turns.back_mut().filter(|last| last.id == group && last.open);
                let last = last.ok_or_else(|| format!("turn {turn_id} joins {group}, which isn't the last that waits, or isn't open"))?;
                last.merged = true;
                last.messages.extend(messages);
                last.run = together(last.run, run);
                last.client.merge(client);
            }
        }
        Ok(())
    }

    /// Takes a turn out; nothing when it doesn't wait.
    pub(super) fn remove(&mut self, id: &TurnId) -> Option<Queued> {
        let at = self.turns.iter().position(|queued| queued.id == *id)?;
        self.turns.remove(at)
    }

    /// The turns, the next one first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Queued> + ExactSizeIterator {
        self.turns.iter()
    }

    /// A turn's place, from 1.
    pub fn position(&self, id: &TurnId) -> Option<usize> {
        self.turns.iter().position(|queued| queued.id == *id).map(|at| at + 1)
    }

    /// The turn that brings the message `id`.
    pub fn bringing(&self, id: &NodeId) -> Option<&Queued> {
        self.turns.iter().find(|queued| queued.brings(id))
    }

    /// The turn that brings a result of the call that `result` answers.
    pub fn answering(&self, result: &Message) -> Option<&Queued> {
        let id = result.tool_call_id.as_ref().filter(|_| result.role == Role::Tool)?;
        let answers = |message: &Arc<Message>| message.role == Role::Tool && message.tool_call_id.as_ref() == Some(id);
        self.turns.iter().find(|queued| queued.messages.iter().any(answers))
    }

    /// Whether a reply that waits calls `id`.
    pub fn calls(&self, id: &ToolCallId) -> bool {
        let mut replies = self.turns.iter().flat_map(|queued| &queued.messages);
        replies.any(|reply| reply.tool_calls.iter().any(|asked| asked.id == *id))
    }

    /// How many turns wait.
    pub fn len(&self) -> usize {
        self.turns.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }
}
