//! What observers of a session are told. Records become events one by one; the deltas of a running call are live only.
//! Neutral: no AG-UI here, and nothing about who reads. Every message, part and call has an explicit start and end.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    Code, Cursor, ForkedFrom, Interrupt, Json, KeptReason, LimitReason, Live, Message, NodeKind, Resume, Snapshot, Source, TriggerKind,
    Usage,
};
use crate::ids::{AgentId, CallId, DecisionId, Millis, NodeId, ToolCallId, TurnId};

/// One event. As JSON `{cursor?, at, type, …}`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// Where a reader that got this resumes. Of one record's events only the last has it; of live ones each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
    /// When it happened.
    pub at: Millis,
    /// What happened.
    #[serde(flatten)]
    pub body: EventBody,
}

/// The events.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type")]
pub enum EventBody {
    /// The session's first record.
    #[serde(rename = "session.created")]
    SessionCreated {
        /// The agent it began with.
        agent_id: AgentId,
    },
    /// The first record of a session that was made from another's path.
    #[serde(rename = "session.forked")]
    SessionForked {
        /// The agent it began with.
        agent_id: AgentId,
        /// What it was made from.
        from: ForkedFrom,
    },
    /// Its title changed, or whether lists leave it out.
    #[serde(rename = "session.updated")]
    SessionUpdated {
        /// The new title; null: none any more.
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<Option<String>>,
        /// Whether lists leave it out.
        #[serde(skip_serializing_if = "Option::is_none")]
        archived: Option<bool>,
    },
    /// A message became a node.
    #[serde(rename = "message.new")]
    MessageNew {
        /// Its node id.
        node_id: NodeId,
        /// The node before it.
        parent_id: Option<NodeId>,
        /// What sort of node.
        kind: NodeKind,
        /// The id under which clients see it; absent when they never do (epochs, model-only messages, hidden calls).
        #[serde(skip_serializing_if = "Option::is_none")]
        shown_id: Option<NodeId>,
        /// Its content; absent for copies, and for what clients never see.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<Arc<Message>>,
        /// Of a copy: the first original.
        #[serde(skip_serializing_if = "Option::is_none")]
        copied_from: Option<NodeId>,
        /// Of a node in a history that replaced another: the node at which readers see the same; null: they see nothing there.
        #[serde(skip_serializing_if = "Option::is_none")]
        reads_as: Option<Option<NodeId>>,
        /// Whether it is the kept part of a reply that was cancelled.
        #[serde(skip_serializing_if = "is_false")]
        partial: bool,
        /// Of a reply: the call that wrote it.
        #[serde(skip_serializing_if = "Option::is_none")]
        call_id: Option<CallId>,
        /// What it is, when no person said it.
        #[serde(skip_serializing_if = "Option::is_none")]
        source: Option<Source>,
    },
    /// The next message attaches elsewhere.
    #[serde(rename = "head.moved")]
    HeadMoved {
        /// There, or nowhere (the empty path).
        head_id: Option<NodeId>,
        /// From now on the name of that node.
        #[serde(skip_serializing_if = "Option::is_none")]
        label: Option<String>,
        /// When readers never see that node: the one that they see last there; null: they see nothing there.
        #[serde(skip_serializing_if = "Option::is_none")]
        reads_as: Option<Option<NodeId>>,
    },
    /// A submit waits for the running turn.
    #[serde(rename = "turn.queued")]
    TurnQueued {
        /// The turn that it will be, or joins.
        turn_id: TurnId,
        /// Whether it joined one that waited already.
        #[serde(skip_serializing_if = "is_false")]
        joined: bool,
        /// Whose.
        agent_id: AgentId,
        /// What it brings; nodes when the turn begins.
        messages: Vec<Arc<Message>>,
    },
    /// Another input became part of a turn: its id is another name of the turn.
    #[serde(rename = "turn.joined")]
    TurnJoined {
        /// Which.
        turn_id: TurnId,
        /// The input's id.
        name: TurnId,
    },
    /// A turn can't go on before a client sends results. Its run ends, the turn doesn't.
    #[serde(rename = "turn.waiting")]
    TurnWaiting {
        /// Which.
        turn_id: TurnId,
        /// The calls that are open.
        calls: Vec<ToolCallId>,
    },
    /// A turn began.
    #[serde(rename = "turn.started")]
    TurnStarted {
        /// Which.
        turn_id: TurnId,
        /// Whose.
        agent_id: AgentId,
    },
    /// A turn ended well.
    #[serde(rename = "turn.completed")]
    TurnCompleted {
        /// Which.
        turn_id: TurnId,
    },
    /// A turn ended badly.
    #[serde(rename = "turn.failed")]
    TurnFailed {
        /// Which.
        turn_id: TurnId,
        /// Why.
        code: Code,
        /// In words.
        message: String,
    },
    /// A turn was stopped, or given up before it began.
    #[serde(rename = "turn.cancelled")]
    TurnCancelled {
        /// Which.
        turn_id: TurnId,
        /// Why; absent: somebody asked for it.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<CancelReason>,
        /// Of one that waited: its messages, which never became nodes.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        messages: Vec<NodeId>,
    },
    /// A turn whose process was lost goes on.
    #[serde(rename = "turn.recovered")]
    TurnRecovered {
        /// Which.
        turn_id: TurnId,
    },
    /// An attempt of a model call began.
    #[serde(rename = "llm.call.started")]
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
        #[serde(skip_serializing_if = "is_false")]
        hidden: bool,
        /// So many arrivals it reads besides the path, the oldest ones.
        #[serde(skip_serializing_if = "is_zero")]
        arrivals: u32,
    },
    /// A call ended well; its reply is a node.
    #[serde(rename = "llm.call.completed")]
    CallCompleted {
        /// Which call.
        call_id: CallId,
        /// Whether no UI may see it.
        #[serde(skip_serializing_if = "is_false")]
        hidden: bool,
        /// As reported.
        #[serde(skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    },
    /// An attempt failed; nothing of it was kept.
    #[serde(rename = "llm.call.failed")]
    CallFailed {
        /// Which call.
        call_id: CallId,
        /// Which attempt.
        attempt: u32,
        /// Whether no UI may see it.
        #[serde(skip_serializing_if = "is_false")]
        hidden: bool,
        /// Why.
        code: Code,
        /// When the next attempt starts, if one does.
        #[serde(skip_serializing_if = "Option::is_none")]
        not_before: Option<Millis>,
    },
    /// A call was given up; nobody waits for it.
    #[serde(rename = "call.voided")]
    CallVoided {
        /// Which call.
        call_id: CallId,
        /// Whether no UI may see it.
        #[serde(skip_serializing_if = "is_false")]
        hidden: bool,
    },
    /// A call is held until there is room in the context window. One of the next two follows.
    #[serde(rename = "context.limited")]
    ContextLimited {
        /// Of which turn.
        turn_id: TurnId,
        /// The call that is held.
        call_id: CallId,
        /// Why.
        reason: LimitReason,
        /// The strategy that applies; absent when the provider refused the call and none is configured.
        #[serde(skip_serializing_if = "Option::is_none")]
        strategy: Option<String>,
        /// What the model would read, in tokens, by the engine's count.
        tokens: u64,
        /// The model's context window, in tokens, when it is configured.
        #[serde(skip_serializing_if = "Option::is_none")]
        window: Option<u64>,
    },
    /// The model goes on with a shorter history. Readers see the conversation as before.
    #[serde(rename = "context.replaced")]
    ContextReplaced {
        /// Of which turn.
        turn_id: TurnId,
        /// The call that was held; absent when none was.
        #[serde(skip_serializing_if = "Option::is_none")]
        call_id: Option<CallId>,
        /// Number of the history that the model reads from now on; the unshortened one is 0.
        epoch: u32,
        /// What the model would read now, in tokens, by the engine's count.
        tokens: u64,
        /// Whether it was made while turns went on.
        #[serde(skip_serializing_if = "is_false")]
        background: bool,
    },
    /// The history stays as it is.
    #[serde(rename = "context.kept")]
    ContextKept {
        /// Of which turn.
        turn_id: TurnId,
        /// The call that was held.
        call_id: CallId,
        /// Why.
        reason: KeptReason,
    },
    /// The agent's worker is asked what to do.
    #[serde(rename = "decision.asked")]
    DecisionAsked {
        /// In which turn.
        turn_id: TurnId,
        /// Which decision.
        decision_id: DecisionId,
        /// What it is about.
        trigger: TriggerKind,
        /// From 1.
        attempt: u32,
    },
    /// The worker has decided; what it has done follows.
    #[serde(rename = "decision.answered")]
    DecisionAnswered {
        /// In which turn.
        turn_id: TurnId,
        /// Which decision.
        decision_id: DecisionId,
        /// The types of its actions, in order.
        actions: Vec<String>,
    },
    /// An attempt to ask the worker failed: it gave no answer, or none that can be carried out.
    #[serde(rename = "decision.failed")]
    DecisionFailed {
        /// In which turn.
        turn_id: TurnId,
        /// Which decision.
        decision_id: DecisionId,
        /// Which attempt.
        attempt: u32,
        /// Why.
        code: Code,
        /// When it is asked again, if it is.
        #[serde(skip_serializing_if = "Option::is_none")]
        not_before: Option<Millis>,
    },
    /// The agent's state changed: it is `state` now, or what `patch` (RFC 6902) makes of the one told before. One of them is there.
    #[serde(rename = "state.updated")]
    StateUpdated {
        /// The whole.
        #[serde(skip_serializing_if = "Option::is_none")]
        state: Option<Json>,
        /// What changed.
        #[serde(skip_serializing_if = "Option::is_none")]
        patch: Option<Json>,
    },
    /// What is configured of an agent is overridden from here on, or as configured again.
    #[serde(rename = "agent.updated")]
    AgentUpdated {
        /// Of which agent.
        agent_id: AgentId,
        /// What is overridden; what it says is the agent's business.
        overridden: Vec<&'static str>,
    },
    /// A turn pauses at the head until its interrupts are answered. Its run ends, the turn doesn't. Of one that was suspended: the head is
    /// back where it pauses.
    #[serde(rename = "session.interrupted")]
    SessionInterrupted {
        /// Which turn.
        turn_id: TurnId,
        /// All that is open.
        interrupts: Vec<Interrupt>,
    },
    /// Interrupts were answered, or their turn was stopped.
    #[serde(rename = "session.interrupt_resumed")]
    InterruptResumed {
        /// Whose.
        turn_id: TurnId,
        /// The answers.
        interrupts: Vec<Resume>,
    },
    /// The head leaves a turn that pauses: it stays where it is, and others may run.
    #[serde(rename = "turn.suspended")]
    TurnSuspended {
        /// Which.
        turn_id: TurnId,
    },
    /// The agent's worker tells the application something.
    #[serde(rename = "custom")]
    Custom {
        /// In which turn.
        turn_id: TurnId,
        /// What the application calls it.
        name: String,
        /// Anything but null.
        value: Json,
    },
    /// Something waits for the next model call.
    #[serde(rename = "arrival.queued")]
    ArrivalQueued {
        /// The input's id: of messages another name of the turn that they join.
        turn_id: TurnId,
        /// The turn that they join; absent: it is something that happened.
        #[serde(skip_serializing_if = "Option::is_none")]
        joins: Option<TurnId>,
        /// What it brings, as far as readers see it; nodes when a call has read them.
        messages: Vec<Arc<Message>>,
    },
    /// What waited is part of the conversation now.
    #[serde(rename = "arrival.consumed")]
    ArrivalConsumed {
        /// Their inputs' ids.
        turn_ids: Vec<TurnId>,
        /// The call that read them.
        #[serde(skip_serializing_if = "Option::is_none")]
        call_id: Option<CallId>,
        /// No call did: their turn ends, and they become this one.
        #[serde(skip_serializing_if = "Option::is_none")]
        into: Option<TurnId>,
    },
    /// An attempt to carry out a tool call began.
    #[serde(rename = "tool.call.started")]
    ToolCallStarted {
        /// In which turn.
        turn_id: TurnId,
        /// Which call.
        tool_call_id: ToolCallId,
        /// From 1.
        attempt: u32,
    },
    /// A tool call was carried out; its result is a node.
    #[serde(rename = "tool.call.completed")]
    ToolCallCompleted {
        /// In which turn.
        turn_id: TurnId,
        /// Which call.
        tool_call_id: ToolCallId,
    },
    /// An attempt to carry out a tool call failed. When no other is made, what the model reads of it is a node.
    #[serde(rename = "tool.call.failed")]
    ToolCallFailed {
        /// In which turn.
        turn_id: TurnId,
        /// Which call.
        tool_call_id: ToolCallId,
        /// Which attempt.
        attempt: u32,
        /// Why.
        code: Code,
        /// When the next attempt starts, if one does.
        #[serde(skip_serializing_if = "Option::is_none")]
        not_before: Option<Millis>,
    },
    /// Live: a piece of a reply that is being written.
    #[serde(rename = "llm.delta")]
    Live(Live),
    /// Live: what clients hold is no longer right; here is the whole.
    #[serde(rename = "session.snapshot")]
    Resync(Arc<Snapshot>),
}

/// Why a turn was stopped that nobody asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelReason {
    /// The head went elsewhere.
    BranchLeft,
    /// It waited for results, and something else was submitted.
    Superseded,
    /// It was unfinished in a log that was imported.
    Imported,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's shape")]
fn is_false(value: &bool) -> bool {
    !value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's shape")]
fn is_zero(value: &u32) -> bool {
    *value == 0
}
