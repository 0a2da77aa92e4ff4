//! What nodes say, as far as it is in memory: that of what the model reads at the head, and for a while that of
//! others. May not know records.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::reading::Ix;
use crate::protocol::{Content, Message, ToolCall};

/// So many bytes of contents off the path may always stay.
const SPARE: usize = 1 << 20;
/// What a content takes besides its texts.
const EACH: usize = 400;

/// Contents, by node.
#[derive(Clone, Debug, Default)]
pub(super) struct Contents {
    all: HashMap<Ix, Arc<Message>, RandomState>,
    /// About how many bytes they take.
    bytes: usize,
    /// How many were kept when some left last.
    kept: usize,
}

impl Contents {
    /// A node's content.
    pub(super) fn get(&self, ix: Ix) -> Option<&Arc<Message>> {
        self.all.get(&ix)
    }

    /// Takes a node's content in.
    pub(super) fn insert(&mut self, ix: Ix, message: Message) {
        self.bytes += bytes(&message);
        if let Some(before) = self.all.insert(ix, Arc::new(message)) {
            self.bytes -= bytes(&before);
        }
    }

    /// Whether those off the path are to leave: when all take twice as much as those that were kept last, and some.
    pub(super) fn is_full(&self) -> bool {
        self.bytes > 2 * self.kept + SPARE
    }

    /// All but these leave memory.
    pub(super) fn keep(&mut self, nodes: impl Iterator<Item = Ix>) {
        let mut all = HashMap::default();
        self.kept = 0;
        for ix in nodes {
            if let Some(content) = self.all.remove(&ix) {
                self.kept += bytes(&content);
                all.insert(ix, content);
            }
        }
        (self.all, self.bytes) = (all, self.kept);
    }
}

/// About how many bytes a content takes.
pub(super) fn bytes(message: &Message) -> usize {
    let Message { id: _, role: _, content, tool_calls, tool_call_id: _, error, name, activity_type, encrypted_value, metadata } = message;
    let texts = [error, name, activity_type, encrypted_value].into_iter().flatten().map(String::len).sum::<usize>();
    let opaque = |value: &Option<String>| value.as_ref().map_or(0, String::len);
    let call = |call: &ToolCall| EACH + call.function.name.len() + call.function.arguments.len() + opaque(&call.encrypted_value);
    let calls = tool_calls.iter().map(call).sum::<usize>();
    let said = match content {
        None => 0,
        Some(Content::Text(text)) => text.len(),
        Some(Content::Object(json)) => json.get().len(),
        Some(Content::Parts(parts)) => {
            let part = |part: &crate::protocol::Part| {
                let source = part.source.as_ref().map_or(0, |source| source.get().len());
                EACH + part.text.as_ref().map_or(0, String::len) + source + opaque(&part.encrypted_value)
            };
            parts.iter().map(part).sum()
        }
    };
    EACH + said + texts + calls + metadata.as_ref().map_or(0, |json| json.get().len())
}
