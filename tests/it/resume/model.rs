//! A model that says what it is told to say: the last user message is JSON, a list of replies, each a list of pieces.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use headwater::protocol::{CallError, CallErrorKind, CallRequest, Finish, Role, Usage};
use headwater::provider::{Attempt, Chunk, Factory, Provider};
use serde::{Deserialize, Serialize};

/// A piece of a reply.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Piece {
    Text(String),
    /// This text so many times.
    Long(String, usize),
    Thought(String),
    /// A call with this index and of this tool.
    Call(u32, String),
    Arguments(u32, String),
    Wait(u64),
    Used(u64),
    /// The attempt fails for good.
    Refused,
    /// The attempt fails, and the next one says what comes after this.
    Fails,
    /// The first attempt finds that what it reads is too long.
    TooLong,
}

/// Remembers which replies failed already.
#[derive(Default)]
struct Obedient(RefCell<HashSet<(String, u32)>>);

/// The model.
pub fn model() -> Factory {
    Arc::new(|| Box::<Obedient>::default())
}

impl Provider for Obedient {
    fn start(&self, request: CallRequest) -> Attempt {
        let asked = request.messages.iter().rev().find(|message| message.role == Role::User);
        let replies: Vec<Vec<Piece>> = asked.and_then(|message| serde_json::from_str(&message.joined_text()).ok()).unwrap_or_default();
        let mut pieces = replies.get(request.index as usize).cloned().unwrap_or_else(|| vec![Piece::Text("Done.".to_owned())]);
        if let Some(fails) = pieces.iter().position(|piece| matches!(piece, Piece::Fails | Piece::TooLong)) {
            let name = asked.map(|message| message.joined_text()).unwrap_or_default();
            if !self.0.borrow_mut().insert((name, request.index)) {
                pieces.drain(..=fails);
            }
        }
        let calls = pieces.iter().any(|piece| matches!(piece, Piece::Call(..)));
        let finish = Chunk::Finished(if calls { Finish::ToolCalls } else { Finish::Stop });
        stream::iter(pieces).filter_map(said).chain(stream::iter([Ok(finish)])).boxed_local()
    }
}

async fn said(piece: Piece) -> Option<Result<Chunk, CallError>> {
    Some(match piece {
        Piece::Text(text) => Ok(Chunk::Text(text)),
        Piece::Long(text, times) => Ok(Chunk::Text(text.repeat(times))),
        Piece::Thought(text) => Ok(Chunk::Reasoning(text)),
        Piece::Call(index, name) => Ok(Chunk::ToolCall { index, id: None, name }),
        Piece::Arguments(index, delta) => Ok(Chunk::ToolArguments { index, delta }),
        Piece::Used(tokens) => Ok(Chunk::Usage(Usage {
            model: Some("obedient".to_owned()),
            input_tokens: Some(tokens),
            output_tokens: Some(1),
            ..Usage::default()
        })),
        Piece::Fails => Err(CallError::new(CallErrorKind::Unavailable, "not now")),
        Piece::TooLong => Err(CallError::new(CallErrorKind::TooLong, "too long")),
        Piece::Refused => Err(CallError::new(CallErrorKind::Refused, "no")),
        Piece::Wait(ms) => {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            return None;
        }
    })
}

/// Numbers by chance, the same for the same seed.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `max`.
    pub fn below(&mut self, max: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % max.max(1)
    }

    fn words(&mut self) -> String {
        let words = ["He", "llo ", "né", "🦀", "\"quoted\" ", "line\n", "x", "\u{2028}"];
        (0..=self.below(3)).map(|_| words[self.below(words.len())]).collect()
    }
}

/// One reply: thoughts, text and calls in any order, calls written at once.
fn reply(chance: &mut Chance, wait_ms: u64, calls: bool) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut open: Vec<(u32, String)> = Vec::new();
    let mut made = 0;
    for _ in 0..3 + chance.below(8) {
        match chance.below(if calls { 6 } else { 2 }) {
            0 => pieces.push(Piece::Thought(chance.words())),
            1 => pieces.push(Piece::Text(chance.words())),
            2 if made < 3 => {
                pieces.push(Piece::Call(made, "look".to_owned()));
                let arguments = serde_json::json!({"at": chance.words(), "n": [1, {"deep": "}"}]}).to_string();
                open.push((made, arguments));
                made += 1;
            }
            _ if !open.is_empty() => {
                let at = chance.below(open.len());
                let (index, rest) = &mut open[at];
                let take = rest.char_indices().map(|(at, _)| at).nth(1 + chance.below(6)).unwrap_or(rest.len());
                let piece: String = rest.drain(..take).collect();
                pieces.push(Piece::Arguments(*index, piece));
                open.retain(|(_, rest)| !rest.is_empty());
            }
            _ => pieces.push(Piece::Text(chance.words())),
        }
        if wait_ms > 0 {
            pieces.push(Piece::Wait(wait_ms));
        }
    }
    for (index, rest) in open {
        pieces.push(Piece::Arguments(index, rest));
    }
    pieces.push(Piece::Text(".".to_owned()));
    pieces.push(Piece::Used(7));
    pieces
}

/// What to say for a whole run of several calls, none of whose tools anybody has.
pub fn script(chance: &mut Chance, wait_ms: u64) -> String {
    serde_json::to_string(&replies(chance, wait_ms)).unwrap()
}

/// The same without a count of tokens; with `too_long` one of the calls finds first that there is no room.
pub fn script_of_room(chance: &mut Chance, wait_ms: u64, too_long: bool) -> String {
    let mut replies = replies(chance, wait_ms);
    let one = chance.below(replies.len());
    for reply in &mut replies {
        reply.retain(|piece| !matches!(piece, Piece::Used(_)));
    }
    if too_long {
        replies[one].insert(0, Piece::TooLong);
    }
    serde_json::to_string(&replies).unwrap()
}

fn replies(chance: &mut Chance, wait_ms: u64) -> Vec<Vec<Piece>> {
    let mut replies: Vec<Vec<Piece>> = (0..chance.below(3)).map(|_| reply(chance, wait_ms, true)).collect();
    replies.push(reply(chance, wait_ms, false));
    // Before a reply that calls nothing the turn doesn't go on.
    for reply in replies.iter_mut().rev().skip(1) {
        if !reply.iter().any(|piece| matches!(piece, Piece::Call(..))) {
            reply.push(Piece::Call(0, "look".to_owned()));
            reply.push(Piece::Arguments(0, "{}".to_owned()));
        }
    }
    replies
}
