//! The count of what a model reads, once more, by walking the path.

use std::collections::{HashMap, HashSet};

use headwater::engine::record::{Body, Reads, Record};
use headwater::engine::{self, Session};
use headwater::ids::{CallId, NodeId};
use headwater::protocol::{NodeKind, Size};

use super::Room;

/// What providers reported.
#[derive(Default)]
pub struct Counts {
    /// Of running calls, the replies to be.
    replies: HashMap<CallId, NodeId>,
    /// Of replies, the tokens that were read for them.
    reported: HashMap<NodeId, u64>,
    /// Replies that were kept in part.
    partial: HashSet<NodeId>,
}

impl Counts {
    pub fn take(&mut self, record: &Record) {
        match &record.body {
            Body::CallStarted(started) if started.reads == Reads::Path => {
                self.replies.insert(started.call_id.clone(), started.reply_id.clone());
            }
            Body::MessageNew(new) if new.partial => {
                self.partial.insert(new.id.clone());
            }
            Body::CallCompleted(completed) => {
                let tokens = completed.usage.as_ref().and_then(|usage| usage.input_tokens).filter(|&tokens| tokens > 0);
                if let (Some(reply), Some(tokens)) = (self.replies.remove(&completed.call_id), tokens) {
                    self.reported.insert(reply, tokens);
                }
            }
            _ => {}
        }
    }

    /// In tokens, with what comes besides the messages.
    pub fn at_head(&self, session: &Session, besides: Size) -> u64 {
        let tree = &session.tree;
        let mut read = besides;
        for ix in engine::path(session) {
            let message = session.content(ix).unwrap();
            if let Some(&tokens) = self.reported.get(&tree.id(ix)) {
                read = Size::from_tokens(tokens);
            }
            read += match tree.node(ix).kind {
                NodeKind::Message if tree.node(ix).is_event => Size::of_text("[Event]\n") + Size::of_message(message),
                NodeKind::Message => Size::of_message(message),
                NodeKind::Epoch if message.joined_text().is_empty() => Size::ZERO,
                NodeKind::Epoch => Size::of_text("The earlier conversation was summarized:\n\n") + Size::of_text(&message.joined_text()),
                NodeKind::Custom => Size::ZERO,
            };
        }
        read.tokens()
    }
}

impl Room {
    /// What a model reads besides the messages: the system prompt, and the tools of whoever asked.
    pub fn besides(&self) -> Size {
        let client = self.world.talk.session.turn.as_ref().map(|turn| turn.client.clone()).unwrap_or_default();
        Size::of_text(self.system) + client.tools.iter().flatten().map(Size::of_tool).sum()
    }

    /// What a model would read at the head, in tokens.
    pub fn counted(&self) -> u64 {
        self.counts.at_head(&self.world.talk.session, self.besides())
    }
}
