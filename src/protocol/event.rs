//! What observers of a session are told. Records become events one by one; the deltas of a running call are live only.
//! Neutral: no AG-UI here, and nothing about who reads. Every message, part and call has an explicit start and end.

use std::sync::Arc;

use super::{Code, Cursor, Message, NodeKind, Snapshot, Usage};
use crate::ids::{AgentId, CallId, Millis, NodeId, ToolCallId, TurnId};

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Where a reader that got this resumes. Of one record's events only the last has it; of live ones each.
    pub cursor: Option<Cursor>,
    /// When it happened.
    pub at: Millis,
    /// What happened.
    pub body: EventBody,
}

/// The events.
#[derive(Clone, Debug, PartialEq)]
pub enum EventBody {
    /// The session's first record.
    SessionCreated {
        /// The agent it began with.
        agent_id: AgentId,
    },
    /// A message became a node.
    MessageNew {
        /// Its node id.
        node_id: NodeId,
        /// The node before it.
        parent_id: Option<NodeId>,
        /// What sort of node.
        kind: NodeKind,
        /// The id under which clients see it; absent when they never do (epochs, model-only messages, hidden calls).
        shown_id: Option<NodeId>,
        /// Its content; absent for copies.
        message: Option<Arc<Message>>,
        /// Of a copy: the first original.
        copied_from: Option<NodeId>,
        /// Whether it is the kept part of a reply that was cancelled.
        partial: bool,
        /// Of a reply: the call that wrote it.
        call_id: Option<CallId>,
    },
    /// The next message attaches elsewhere.
    HeadMoved {
        /// There, or nowhere (the empty path).
        head_id: Option<NodeId>,
    },
    /// A turn began.
    TurnStarted {
        /// Which.
        turn_id: TurnId,
        /// Whose.
        agent_id: AgentId,
    },
    /// A turn ended well.
    TurnCompleted {
        /// Which.
        turn_id: TurnId,
    },
    /// A turn ended badly.
    TurnFailed {
        /// Which.
        turn_id: TurnId,
        /// Why.
        code: Code,
        /// In words.
        message: String,
    },
    /// A turn was stopped.
    TurnCancelled {
        /// Which.
        turn_id: TurnId,
    },
    /// A turn whose process was lost goes on.
    TurnRecovered {
        /// Which.
        turn_id: TurnId,
    },
    /// An attempt of a model call began.
    CallStarted {
        /// Of which turn.
        turn_id: TurnId,
        /// Which call.
        call_id: CallId,
        /// From 1.
        attempt: u32,
        /// The id that the reply will have.
        reply_id: NodeId,
        /// Whether no UI may see it.
        hidden: bool,
    },
    /// A call ended well; its reply is a node.
    CallCompleted {
        /// Which call.
        call_id: CallId,
        /// Whether no UI may see it.
        hidden: bool,
        /// As reported.
        usage: Option<Usage>,
    },
    /// An attempt failed; nothing of it was kept.
    CallFailed {
        /// Which call.
        call_id: CallId,
        /// Which attempt.
        attempt: u32,
        /// Whether no UI may see it.
        hidden: bool,
        /// Why.
        code: Code,
        /// When the next attempt starts, if one does.
        not_before: Option<Millis>,
    },
    /// A call was given up; nobody waits for it.
    CallVoided {
        /// Which call.
        call_id: CallId,
        /// Whether no UI may see it.
        hidden: bool,
    },
    /// Live: a piece of a reply that is being written.
    Live(Live),
    /// Live: what clients hold is no longer right; here is the whole.
    Resync(Arc<Snapshot>),
}

/// Pieces of a reply in the making. A reply's text stays open until the reply is a node (or given up), so that its end is never
/// seen before it is durable.
#[derive(Clone, Debug, PartialEq)]
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
        reasoning: Option<u32>,
        /// The calls that were open, in order.
        calls: Vec<ToolCallId>,
    },
}
