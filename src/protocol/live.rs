//! Live pieces of a reply in the making: never recorded one by one. May not know records, or who reads.

use serde::{Deserialize, Serialize};

use crate::ids::{NodeId, ToolCallId};

/// Pieces of a reply in the making. A reply's text stays open until the reply is a node (or given up), so that its end is never
/// seen before it is durable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "snake_case")]
pub enum Live {
    /// The reply's text begins (once a reply).
    TextStarted {
        /// Which reply.
        reply_id: NodeId,
    },
    /// More text.
    Text {
        /// Which reply.
        reply_id: NodeId,
        /// What is added.
        delta: String,
    },
    /// A reasoning part begins.
    ReasoningStarted {
        /// Which reply.
        reply_id: NodeId,
        /// Which of its reasoning parts, from 1.
        index: u32,
    },
    /// More reasoning.
    Reasoning {
        /// Which reply.
        reply_id: NodeId,
        /// Which of its reasoning parts.
        index: u32,
        /// What is added.
        delta: String,
    },
    /// A reasoning part ends.
    ReasoningEnded {
        /// Which reply.
        reply_id: NodeId,
        /// Which of its reasoning parts.
        index: u32,
    },
    /// A tool call begins.
    ToolCallStarted {
        /// Which reply asks.
        reply_id: NodeId,
        /// Which call.
        id: ToolCallId,
        /// Which tool.
        name: String,
    },
    /// More of its arguments.
    ToolCallArguments {
        /// Which call.
        id: ToolCallId,
        /// What is added.
        delta: String,
    },
    /// What the reply had open is closed: it is a node now, or it was given up.
    ReplyEnded {
        /// Which reply.
        reply_id: NodeId,
        /// Whether its text was open.
        text: bool,
        /// The reasoning part that was open.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reasoning: Option<u32>,
        /// The calls that were open, in order.
        calls: Vec<ToolCallId>,
    },
}

impl Live {
    /// The text that it adds; nothing of one that begins or ends something.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text { delta, .. } | Self::Reasoning { delta, .. } | Self::ToolCallArguments { delta, .. } => Some(delta),
            Self::TextStarted { .. }
            | Self::ReasoningStarted { .. }
            | Self::ReasoningEnded { .. }
            | Self::ToolCallStarted { .. }
            | Self::ReplyEnded { .. } => None,
        }
    }

    /// Adds the text of `next`, when it goes on with the same part. Whether it did.
    pub fn go_on(&mut self, next: &Self) -> bool {
        let (text, more) = match (self, next) {
            (Self::Text { reply_id: of, delta }, Self::Text { reply_id, delta: more }) if of == reply_id => (delta, more),
            (Self::Reasoning { reply_id: of, index: at, delta }, Self::Reasoning { reply_id, index, delta: more })
                if of == reply_id && at == index =>
            {
                (delta, more)
            }
            (Self::ToolCallArguments { id: of, delta }, Self::ToolCallArguments { id, delta: more }) if of == id => (delta, more),
            (
                Self::TextStarted { .. }
                | Self::Text { .. }
                | Self::ReasoningStarted { .. }
                | Self::Reasoning { .. }
                | Self::ReasoningEnded { .. }
                | Self::ToolCallStarted { .. }
                | Self::ToolCallArguments { .. }
                | Self::ReplyEnded { .. },
                _,
            ) => return false,
        };
        text.push_str(more);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_part_goes_on() {
        let text = |reply: &str, delta: &str| Live::Text { reply_id: reply.into(), delta: delta.to_owned() };
        let thought = |index, delta: &str| Live::Reasoning { reply_id: "r1".into(), index, delta: delta.to_owned() };
        let arguments = |id: &str, delta: &str| Live::ToolCallArguments { id: id.into(), delta: delta.to_owned() };
        for (mut live, next) in
            [(text("r1", "a"), text("r1", "b")), (thought(1, "a"), thought(1, "b")), (arguments("c", "a"), arguments("c", "b"))]
        {
            assert!(live.go_on(&next));
            assert_eq!(live.text(), Some("ab"));
        }
        let mut live = text("r1", "a");
        for next in [text("r2", "b"), thought(1, "b"), arguments("c", "b"), Live::TextStarted { reply_id: "r1".into() }] {
            assert!(!live.go_on(&next));
        }
        assert!(!thought(1, "a").go_on(&thought(2, "b")) && !arguments("c", "a").go_on(&arguments("d", "b")));
        assert_eq!(live.text(), Some("a"));
    }
}
