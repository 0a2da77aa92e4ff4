//! Writing records: ids from the stamp, each node below the one before.

use super::record::{Body, CallStarted, CallVoided, MessageNew, Record, TurnCancelled, TurnStarted};
use super::session::Session;
use super::turn::{Call, Turn};
use super::{Context, News, View};
use crate::ids::{CallId, NodeId, TurnId};
use crate::protocol::{Content, Message, Part, PartKind, Role};

/// Records in the making.
pub(super) struct Writer<'a> {
    session: &'a Session,
    context: &'a Context,
    made: u32,
    /// Where the next node attaches.
    pub(super) parent: Option<NodeId>,
    /// Nodes of this input, in order.
    pub(super) nodes: Vec<NodeId>,
    pub(super) records: Vec<Record>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(session: &'a Session, context: &'a Context) -> Self {
        let parent = session.head.map(|head| session.tree.node(head).id.clone());
        Self { session, context, made: 0, parent, nodes: Vec::new(), records: Vec::new() }
    }

    pub(super) fn fresh(&mut self) -> String {
        self.made += 1;
        self.context.stamp.id(self.made - 1)
    }

    pub(super) fn push(&mut self, body: Body) {
        self.records.push(Record { at: self.context.stamp.now, body });
    }

    pub(super) fn node(&mut self, new: MessageNew) {
        self.parent = Some(new.id.clone());
        self.nodes.push(new.id.clone());
        self.push(Body::MessageNew(Box::new(new)));
    }

    /// Writes what a view brings.
    pub(super) fn news(&mut self, view: &View, news: &[News]) {
        for item in news {
            let parent = self.parent.clone();
            let new = match *item {
                News::Result(index) | News::Message { index, edit_of: None } => {
                    let message = &view.messages[index];
                    let id = message.id.clone().filter(|id| self.session.tree.known(id).is_none());
                    let id = id.unwrap_or_else(|| self.fresh().into());
                    MessageNew::plain(id, parent, message.clone())
                }
                News::Message { index, edit_of: Some(name) } => MessageNew {
                    edit_of: Some(self.session.tree.name_id(name).clone()),
                    ..MessageNew::plain(self.fresh().into(), parent, view.messages[index].clone())
                },
                News::Copy(original) => {
                    let original = self.session.tree.node(original).id.clone();
                    MessageNew::copy(self.fresh().into(), parent, original.clone(), Some(original))
                }
            };
            self.node(new);
        }
    }

    /// Begins a turn and its first call.
    pub(super) fn start(&mut self, started: TurnStarted) {
        let turn_id = started.turn_id.clone();
        self.push(Body::TurnStarted(Box::new(started)));
        self.next_call(turn_id);
    }

    /// Begins a turn's next call.
    pub(super) fn next_call(&mut self, turn_id: TurnId) {
        let (call_id, reply_id) = (CallId::from(self.fresh()), NodeId::from(self.fresh()));
        self.push(Body::CallStarted(CallStarted { turn_id, call_id, attempt: 1, reply_id, hidden: false }));
    }

    /// Begins another attempt of a call.
    pub(super) fn next_attempt(&mut self, turn: &Turn, call: &Call) {
        let reply_id = NodeId::from(self.fresh());
        self.push(Body::CallStarted(CallStarted {
            turn_id: turn.id.clone(),
            call_id: call.id.clone(),
            attempt: call.attempt + 1,
            reply_id,
            hidden: call.hidden,
        }));
    }

    /// Stops the running turn: what readers saw of its reply is kept, and its call is nobody's any more.
    pub(super) fn cancel(&mut self, turn: &Turn, aside: bool) {
        if let Some(call) = &turn.call {
            if let Some(message) = self.context.written.clone().filter(|_| !call.hidden).and_then(kept) {
                let parent = self.parent.clone();
                let new = MessageNew {
                    partial: true,
                    aside,
                    call_id: Some(call.id.clone()),
                    ..MessageNew::plain(call.reply_id.clone(), parent.clone(), message)
                };
                self.node(new);
                if aside {
                    self.parent = parent;
                    self.nodes.clear();
                }
            }
            self.push(Body::CallVoided(CallVoided { call_id: call.id.clone(), hidden: call.hidden }));
        }
        self.push(Body::TurnCancelled(TurnCancelled { turn_id: turn.id.clone() }));
    }
}

/// Of a reply that was cut short: its text and reasoning. Calls that were still being written are left out.
fn kept(message: Message) -> Option<Message> {
    let says = |part: &Part| part.kind != PartKind::ToolCall && part.text.as_ref().is_some_and(|text| !text.is_empty());
    let content = match message.content? {
        Content::Text(text) => Some(Content::Text(text)).filter(|content| *content != Content::Text(String::new())),
        Content::Parts(parts) => {
            Some(parts.into_iter().filter(says).collect::<Vec<_>>()).filter(|parts| !parts.is_empty()).map(Content::Parts)
        }
        Content::Object(_) => None,
    }?;
    Some(Message { content: Some(content), ..Message::empty(Role::Assistant) })
}
