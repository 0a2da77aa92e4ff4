//! What was told of a reply in the making: its pieces, in order, those that go on with each other as one. Any place in it can be
//! found again. May not know readers.

use crate::ids::{Millis, NodeId, ToolCallId};
use crate::protocol::{Content, Live, Message, Part, PartKind, ToolCall};

/// No piece is larger, so that a place is soon found, and a reader that comes back takes it in small parts.
const PIECE_BYTES: usize = 16 << 10;

/// The pieces.
#[derive(Debug, Default)]
pub struct Pieces {
    list: Vec<Piece>,
    told: u64,
}

#[derive(Debug)]
struct Piece {
    /// When something was last added to it.
    at: Millis,
    /// Characters and marks told before it.
    before: u64,
    live: Live,
}

/// A place among the pieces: after so many bytes of the text of one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    piece: usize,
    bytes: usize,
}

/// Something that was told, and how much was told with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// When.
    pub at: Millis,
    /// Characters and marks told then.
    pub told: u64,
    /// What.
    pub live: Live,
}

impl Pieces {
    /// What was told of a finished reply: a message says in which order it was written.
    pub fn of_reply(id: &NodeId, message: &Message, at: Millis) -> Self {
        let mut telling = Telling { id, at, pieces: Self::default(), text: false, reasoning: None, reasonings: 0, calls: Vec::new() };
        match &message.content {
            Some(Content::Text(text)) => telling.text(text),
            Some(Content::Parts(parts)) => parts.iter().for_each(|part| telling.part(part, &message.tool_calls)),
            Some(Content::Object(_)) | None => {}
        }
        message.tool_calls.iter().for_each(|call| telling.call(call));
        telling.end()
    }

    /// Characters and marks told so far: one a character, and one a mark: a start or an end, two where reasoning starts or ends.
    pub fn told(&self) -> u64 {
        self.told
    }

    /// Adds what is told now.
    pub fn tell(&mut self, live: Live, at: Millis) {
        let Some(mut rest) = live.text().filter(|text| text.len() > PIECE_BYTES) else { return self.add(live, at) };
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES));
            self.add(with_text(&live, piece), at);
            rest = after;
        }
    }

    fn add(&mut self, live: Live, at: Millis) {
        let before = self.told;
        self.told += size(&live);
        let bytes = |live: &Live| live.text().map_or(0, str::len);
        if let Some(last) = self.list.last_mut()
            && bytes(&last.live) + bytes(&live) <= PIECE_BYTES
            && last.live.go_on(&live)
        {
            last.at = at;
            return;
        }
        self.list.push(Piece { at, before, live });
    }

    /// The place where everything was told so far.
    pub fn end(&self) -> Place {
        match self.list.last().and_then(|last| last.live.text()) {
            Some(text) => Place { piece: self.list.len() - 1, bytes: text.len() },
            None => Place { piece: self.list.len(), bytes: 0 },
        }
    }

    /// The place where `told` characters and marks were told.
    pub fn place(&self, told: u64) -> Place {
        let after = self.list.partition_point(|piece| piece.before < told);
        let Some(piece) = after.checked_sub(1) else { return Place::default() };
        let within = usize::try_from(told - self.list[piece].before).unwrap_or(usize::MAX);
        let Some(text) = self.list[piece].live.text() else {
            // Of several marks that are told together either all were, or they are told again.
            let whole = told >= self.list[piece].before + size(&self.list[piece].live);
            return Place { piece: if whole { after } else { piece }, bytes: 0 };
        };
        let bytes = text.char_indices().nth(within).map_or(text.len(), |(bytes, _)| bytes);
        Place { piece, bytes }
    }

    /// What was told from a place on.
    pub fn since(&self, place: Place) -> impl Iterator<Item = Said> + '_ {
        let pieces = self.list.iter().enumerate().skip(place.piece);
        pieces.filter_map(move |(index, Piece { at, live, .. })| {
            let told = self.list.get(index + 1).map_or(self.told, |next| next.before);
            let skipped = if index == place.piece { place.bytes } else { 0 };
            let live = match live.text() {
                Some(text) if text.len() == skipped => return None,
                Some(text) if skipped > 0 => with_text(live, &text[skipped..]),
                Some(_) | None => live.clone(),
            };
            Some(Said { at: *at, told, live })
        })
    }
}

/// A finished reply, told once more.
struct Telling<'a> {
    id: &'a NodeId,
    at: Millis,
    pieces: Pieces,
    text: bool,
    reasoning: Option<u32>,
    reasonings: u32,
    calls: Vec<ToolCallId>,
}

impl Telling<'_> {
    fn tell(&mut self, live: Live) {
        self.pieces.tell(live, self.at);
    }

    fn part(&mut self, part: &Part, calls: &[ToolCall]) {
        let text = part.text.as_deref().unwrap_or_default();
        match part.kind {
            PartKind::Text => self.text(text),
            PartKind::Reasoning => self.reason(text),
            PartKind::ToolCall => {
                if let Some(call) = calls.iter().find(|call| part.tool_call_id.as_ref() == Some(&call.id)) {
                    self.call(call);
                }
            }
            PartKind::Image | PartKind::Audio | PartKind::Video | PartKind::Document => {}
        }
    }

    fn text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.close_reasoning();
        let reply_id = self.id.clone();
        if !std::mem::replace(&mut self.text, true) {
            self.tell(Live::TextStarted { reply_id: reply_id.clone() });
        }
        self.tell(Live::Text { reply_id, delta: text.to_owned() });
    }

    fn reason(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.close_reasoning();
        self.reasonings += 1;
        let index = self.reasonings;
        self.reasoning = Some(index);
        self.tell(Live::ReasoningStarted { reply_id: self.id.clone(), index });
        self.tell(Live::Reasoning { reply_id: self.id.clone(), index, delta: text.to_owned() });
    }

    fn close_reasoning(&mut self) {
        if let Some(index) = self.reasoning.take() {
            self.tell(Live::ReasoningEnded { reply_id: self.id.clone(), index });
        }
    }

    /// A call, unless it was told before.
    fn call(&mut self, call: &ToolCall) {
        if self.calls.contains(&call.id) {
            return;
        }
        self.close_reasoning();
        self.calls.push(call.id.clone());
        let (id, name, delta) = (call.id.clone(), call.function.name.clone(), call.function.arguments.clone());
        self.tell(Live::ToolCallStarted { reply_id: self.id.clone(), id: id.clone(), name });
        if !delta.is_empty() {
            self.tell(Live::ToolCallArguments { id, delta });
        }
    }

    fn end(mut self) -> Pieces {
        let (reply_id, calls) = (self.id.clone(), std::mem::take(&mut self.calls));
        self.tell(Live::ReplyEnded { reply_id, text: self.text, reasoning: self.reasoning, calls });
        self.pieces
    }
}

/// How much a piece counts.
pub fn size(live: &Live) -> u64 {
    match live {
        Live::Text { delta, .. } | Live::Reasoning { delta, .. } | Live::ToolCallArguments { delta, .. } => delta.chars().count() as u64,
        Live::TextStarted { .. } | Live::ToolCallStarted { .. } => 1,
        // A reasoning part is a span and a message in it.
        Live::ReasoningStarted { .. } | Live::ReasoningEnded { .. } => 2,
        Live::ReplyEnded { text, reasoning, calls, .. } => u64::from(*text) + reasoning.map_or(0, |_| 2) + calls.len() as u64,
    }
}

/// The same piece with another text.
fn with_text(live: &Live, part: &str) -> Live {
    let delta = part.to_owned();
    match live {
        Live::Text { reply_id, .. } => Live::Text { reply_id: reply_id.clone(), delta },
        Live::Reasoning { reply_id, index, .. } => Live::Reasoning { reply_id: reply_id.clone(), index: *index, delta },
        Live::ToolCallArguments { id, .. } => Live::ToolCallArguments { id: id.clone(), delta },
        Live::TextStarted { .. }
        | Live::ReasoningStarted { .. }
        | Live::ReasoningEnded { .. }
        | Live::ToolCallStarted { .. }
        | Live::ReplyEnded { .. } => live.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said() -> Pieces {
        let mut pieces = Pieces::default();
        let text = |delta: &str| Live::Text { reply_id: "r".into(), delta: delta.to_owned() };
        let arguments = |id: &str, delta: &str| Live::ToolCallArguments { id: id.into(), delta: delta.to_owned() };
        pieces.tell(Live::ReasoningStarted { reply_id: "r".into(), index: 1 }, 1);
        pieces.tell(Live::Reasoning { reply_id: "r".into(), index: 1, delta: "hm".to_owned() }, 1);
        pieces.tell(Live::ReasoningEnded { reply_id: "r".into(), index: 1 }, 2);
        pieces.tell(Live::TextStarted { reply_id: "r".into() }, 2);
        pieces.tell(text("aé"), 2);
        pieces.tell(text("🦀b"), 3);
        for id in ["c1", "c2"] {
            pieces.tell(Live::ToolCallStarted { reply_id: "r".into(), id: id.into(), name: "look".to_owned() }, 4);
        }
        for (id, delta) in [("c1", "{\"a"), ("c2", "{"), ("c1", "\":1}"), ("c2", "}")] {
            pieces.tell(arguments(id, delta), 5);
        }
        pieces
    }

    /// One entry a character or mark.
    fn flat(said: impl Iterator<Item = Said>) -> Vec<Live> {
        said.flat_map(|said| match said.live.text() {
            Some(text) => text.chars().map(|char| with_text(&said.live, &char.to_string())).collect(),
            None => vec![said.live],
        })
        .collect()
    }

    #[test]
    fn any_place_is_found_again() {
        let pieces = said();
        let all = flat(pieces.since(Place::default()));
        assert_eq!(all.iter().map(size).sum::<u64>(), pieces.told());
        for told in 0..=pieces.told() {
            let place = pieces.place(told);
            let rest = flat(pieces.since(place));
            let left: u64 = rest.iter().map(size).sum();
            // Two marks that are told together aren't parted.
            let inside = u64::from(told == 1 || told == 5);
            assert_eq!(left, pieces.told() - told + inside, "after {told}");
            assert!(all.ends_with(&rest));
            let last = pieces.since(place).last();
            assert!(last.is_none_or(|last| last.told == pieces.told()));
        }
        assert_eq!(pieces.since(pieces.end()).count(), 0);
        assert_eq!(pieces.since(pieces.place(99)).count(), 0);
    }

    #[test]
    fn what_comes_later_goes_on_at_the_end() {
        let mut pieces = said();
        let (end, told) = (pieces.end(), pieces.told());
        pieces.tell(Live::ToolCallArguments { id: "c2".into(), delta: " ".to_owned() }, 9);
        pieces.tell(Live::ToolCallStarted { reply_id: "r".into(), id: "c3".into(), name: "look".to_owned() }, 9);
        let since: Vec<Said> = pieces.since(end).collect();
        assert_eq!(since.iter().map(|said| said.told).collect::<Vec<_>>(), [told + 1, told + 2]);
        assert_eq!(since[0].live, Live::ToolCallArguments { id: "c2".into(), delta: " ".to_owned() });
        assert_eq!(pieces.since(pieces.end()).count(), 0);
    }
}
