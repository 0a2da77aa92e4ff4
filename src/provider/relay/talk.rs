//! An agent's text messages that are open: one speaks, what the others say meanwhile waits. May not know replies.

use super::translate::clip;
use crate::protocol::CallError;
use crate::provider::http::halves::{Halves, Units};
use crate::provider::http::nonsense;

/// The most text messages that are open at once.
const OPEN_MAX: usize = 64;

/// The messages, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Talk {
    open: Vec<Speech>,
    /// Whose text is told at once.
    speaking: Option<String>,
}

#[derive(Debug)]
struct Speech {
    id: String,
    /// Whether it is the agent's own: what it repeats of others is no reply.
    is_own: bool,
    has_ended: bool,
    halves: Halves,
    waiting: String,
}

impl Talk {
    /// A message begins.
    pub fn start(&mut self, id: String, role: Option<&str>) -> Result<(), CallError> {
        if self.open.iter().any(|speech| speech.id == id && !speech.has_ended) {
            return Err(nonsense(format!("TEXT_MESSAGE_START of the message {}, which is open", clip(&id))));
        }
        if self.open.len() == OPEN_MAX {
            return Err(nonsense(format!("the agent has {OPEN_MAX} text messages open at once")));
        }
        let is_own = role.is_none_or(|role| role == "assistant");
        self.open.push(Speech { id, is_own, has_ended: false, halves: Halves::default(), waiting: String::new() });
        Ok(())
    }

    /// What a message says more, when that is the agent's own.
    pub fn say(&mut self, id: &str, delta: Units) -> Result<Option<String>, CallError> {
        let speech = self.find("TEXT_MESSAGE_CONTENT", id)?;
        let text = speech.halves.join(delta);
        Ok(Some(text).filter(|text| speech.is_own && !text.is_empty()))
    }

    /// The text, when this message speaks; else it waits.
    pub fn wait(&mut self, id: &str, text: String) -> Option<String> {
        let speaking = self.speaking.get_or_insert_with(|| id.to_owned());
        if speaking == id {
            return Some(text);
        }
        if let Some(speech) = self.open.iter_mut().rev().find(|speech| speech.id == id) {
            speech.waiting.push_str(&text);
        }
        None
    }

    /// A message ends.
    pub fn end(&mut self, id: &str) -> Result<(), CallError> {
        self.find("TEXT_MESSAGE_END", id)?.has_ended = true;
        self.pass(id);
        Ok(())
    }

    /// All end.
    pub fn end_all(&mut self) {
        self.open.iter_mut().for_each(|speech| speech.has_ended = true);
        if let Some(id) = self.speaking.take() {
            self.pass(&id);
        }
    }

    /// What has waited and may be told now: with its message's name.
    pub fn next(&mut self) -> Option<(String, String)> {
        if self.speaking.is_some() {
            return None;
        }
        let at = self.open.iter().position(|speech| !speech.waiting.is_empty())?;
        let (id, text) = (self.open[at].id.clone(), std::mem::take(&mut self.open[at].waiting));
        if self.open[at].has_ended {
            self.open.remove(at);
        } else {
            self.speaking = Some(id.clone());
        }
        Some((id, text))
    }

    /// Whether a message is open that speaks.
    pub fn is_speaking(&self) -> bool {
        self.speaking.is_some()
    }

    /// One that has ended speaks no more, and is forgotten once all of it was told.
    fn pass(&mut self, id: &str) {
        if self.speaking.as_deref() == Some(id) {
            self.speaking = None;
        }
        self.open.retain(|speech| !speech.has_ended || !speech.waiting.is_empty());
    }

    fn find(&mut self, what: &str, id: &str) -> Result<&mut Speech, CallError> {
        let found = self.open.iter_mut().rev().find(|speech| speech.id == id && !speech.has_ended);
        found.ok_or_else(|| nonsense(format!("{what} of the message {}, which isn't open", clip(id))))
    }
}
