//! Decisions: what an agent's worker is asked, and what it may answer. As JSON these are the contract with workers, whatever they speak
//! over. May not know who asks, how a worker is reached, or what an answer comes to.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    AgentChanges, AgentOverrides, Client, Code, Content, Json, LimitReason, Message, Raise, Resumed, Tool, ToolCall, ToolInput, Usage,
};
use crate::ids::{AgentId, CallId, DecisionId, InterruptId, Millis, NodeId, SessionId, ToolCallId, TurnId};

/// One attempt of a decision, as the worker is asked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DecisionRequest {
    /// In which session.
    pub session_id: SessionId,
    /// Which decision: the same at each attempt.
    pub decision_id: DecisionId,
    /// Which agent.
    pub agent_id: AgentId,
    /// In which turn.
    pub turn_id: TurnId,
    /// What happened.
    pub trigger: Trigger,
    /// What an agent without a worker does now: a whole answer, which may be given back as it is.
    pub proposed: DecisionAnswer,
    /// The agent's state at the head; absent: there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<Json>,
    /// What is overridden of the agent's configuration there; absent: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentOverrides>,
    /// What a model reads at the head, each message under the id that it is shown under, else its own.
    pub messages: Vec<Arc<Message>>,
    /// The tool calls of the last reply among them.
    pub calls: Vec<ToolCall>,
    /// Those of them that have no result yet.
    pub pending_calls: Vec<ToolCallId>,
    /// From 1.
    pub attempt: u32,
    /// An answer to this attempt that comes later may be too late.
    pub deadline: Millis,
}

/// What a decision is about.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type")]
pub enum Trigger {
    /// Messages came, and a turn began.
    #[serde(rename = "client.messages")]
    ClientMessages {
        /// From this one on, the request's messages are new.
        new_from: usize,
        /// What the client offers.
        client: Client,
    },
    /// A person did something other than writing, and a turn began.
    #[serde(rename = "client.action")]
    ClientAction {
        /// What the application calls it.
        name: String,
        /// What goes with it.
        #[serde(skip_serializing_if = "Option::is_none")]
        args: Option<Json>,
        /// What the client offers.
        client: Client,
    },
    /// A model call ended.
    #[serde(rename = "llm.finished")]
    LlmFinished {
        /// Which call.
        id: CallId,
        /// Whether it ended well.
        ok: bool,
        /// What the model said.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<Arc<Message>>,
        /// As reported.
        #[serde(skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        /// Whether the model reached its output limit.
        truncated: bool,
        /// Why it failed, after all its attempts.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<Fault>,
        /// Whether nobody but the worker sees what it said.
        hidden: bool,
        /// The call that waits meanwhile.
        #[serde(skip_serializing_if = "Option::is_none")]
        held: Option<HeldLlmCall>,
    },
    /// The last result of a reply's tool calls came.
    #[serde(rename = "tool.finished")]
    ToolFinished {
        /// Which call.
        id: ToolCallId,
        /// Whether it ended well.
        ok: bool,
        /// Which tool.
        name: String,
        /// What it gave.
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Content>,
        /// What went wrong.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// A call of a tool that the worker carries out. Answered by `tool.result` or `tool.error`.
    #[serde(rename = "tool.execute")]
    ToolExecute {
        /// Which call.
        id: ToolCallId,
        /// Which tool.
        name: String,
        /// The arguments, as the model wrote them.
        arguments: String,
        /// The same, read.
        input: ToolInput,
        /// From 1.
        attempt: u32,
        /// The same at each attempt of this call, and at no other's: what was done under it needn't be done again.
        key: String,
    },
    /// A model call is held: there is no room for it in the context window.
    #[serde(rename = "context.limit")]
    ContextLimit {
        /// Why.
        reason: LimitReason,
        /// The strategy that applies; absent when the provider refused the call and none is configured.
        #[serde(skip_serializing_if = "Option::is_none")]
        strategy: Option<String>,
        /// What the model would read, in tokens.
        tokens: u64,
        /// The model's context window, in tokens.
        #[serde(skip_serializing_if = "Option::is_none")]
        window: Option<u64>,
        /// The call.
        call: HeldLlmCall,
    },
    /// The turn is about to end well. Asked only of workers that want to be.
    #[serde(rename = "turn.finished")]
    TurnFinished {
        /// What its model calls read and wrote, by provider and model.
        usage: Vec<Usage>,
    },
    /// All that paused the turn was answered.
    #[serde(rename = "interrupt.resumed")]
    InterruptResumed {
        /// The answers, each with what it answers.
        interrupts: Vec<Resumed>,
    },
}

/// The kinds of trigger. As a list they say what a worker is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TriggerKind {
    /// Messages came.
    #[serde(rename = "client.messages")]
    ClientMessages,
    /// A person did something.
    #[serde(rename = "client.action")]
    ClientAction,
    /// A model call ended.
    #[serde(rename = "llm.finished")]
    LlmFinished,
    /// The last result of a reply's calls came.
    #[serde(rename = "tool.finished")]
    ToolFinished,
    /// A call is held.
    #[serde(rename = "context.limit")]
    ContextLimit,
    /// A turn is about to end well.
    #[serde(rename = "turn.finished")]
    TurnFinished,
    /// Interrupts were answered.
    #[serde(rename = "interrupt.resumed")]
    InterruptResumed,
}

impl TriggerKind {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClientMessages => "client.messages",
            Self::ClientAction => "client.action",
            Self::LlmFinished => "llm.finished",
            Self::ToolFinished => "tool.finished",
            Self::ContextLimit => "context.limit",
            Self::TurnFinished => "turn.finished",
            Self::InterruptResumed => "interrupt.resumed",
        }
    }

    /// What a worker is asked that doesn't say what it wants to be asked: everything that can't be decided well without it.
    pub fn asked_by_default() -> Vec<Self> {
        vec![Self::ClientMessages, Self::ClientAction, Self::LlmFinished, Self::ToolFinished, Self::ContextLimit, Self::InterruptResumed]
    }
}

/// Why something failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fault {
    /// In a word.
    pub code: Code,
    /// In words.
    pub message: String,
}

/// A model call that waits for room. An `llm.call` with its id runs it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeldLlmCall {
    /// Which.
    pub id: CallId,
    /// Which llm it goes to.
    pub llm: String,
    /// What it asks, besides the messages of the request.
    pub request: HeldRequest,
    /// Whether its reply is shown as it is written.
    pub stream: bool,
}

/// What a held call asks, besides the messages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeldRequest {
    /// Instead of the llm's configured model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tools that the model may call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool>,
}

/// What a worker answers. An empty one does nothing: the turn ends, when nothing else goes on.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DecisionAnswer {
    /// Messages of role assistant or activity that are put on the path, before anything is done. Readers are shown them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
    /// What is done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Action>,
    /// The agent's state from here on; `{}`: none any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<Json>,
    /// What changes of the state (RFC 6902), instead of `state`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_patch: Option<Json>,
    /// What is overridden of the agent's configuration from here on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentChanges>,
}

impl From<Vec<Action>> for DecisionAnswer {
    fn from(actions: Vec<Action>) -> Self {
        Self { actions, ..Self::default() }
    }
}

/// Something that a worker has done.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type")]
pub enum Action {
    /// A model is called.
    #[serde(rename = "llm.call")]
    LlmCall(LlmCall),
    /// The model goes on with another history.
    #[serde(rename = "context.replace")]
    ContextReplace(ContextReplace),
    /// A tool call of the reply goes to whom it is for.
    #[serde(rename = "tool.call")]
    ToolCall {
        /// Which.
        id: ToolCallId,
    },
    /// What a tool call gave.
    #[serde(rename = "tool.result")]
    ToolResult {
        /// Which; the one that is asked about may be left out.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<ToolCallId>,
        /// What.
        content: Content,
    },
    /// A tool call failed.
    #[serde(rename = "tool.error")]
    ToolError {
        /// Which; the one that is asked about may be left out.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<ToolCallId>,
        /// What the model reads.
        error: String,
        /// Whether it may be tried again: nothing was done.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        retryable: bool,
    },
    /// The turn pauses until a person, or somebody outside, has answered.
    #[serde(rename = "interrupt")]
    Interrupt(Box<Raise>),
    /// What pauses the turn is answered.
    #[serde(rename = "interrupt.resolve")]
    InterruptResolve {
        /// Which one.
        interrupt_id: InterruptId,
        /// With what.
        #[serde(skip_serializing_if = "Option::is_none")]
        payload: Option<Json>,
    },
    /// Something for the application is recorded and told; no model reads it.
    #[serde(rename = "custom")]
    Custom {
        /// What the application calls it.
        name: String,
        /// Anything but null.
        value: Json,
    },
    /// An activity is put on the path, as if it stood behind the answer's messages.
    #[serde(rename = "activity")]
    Activity {
        /// The id of its message; absent: one is made.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<NodeId>,
        /// What the application calls its kind.
        activity_type: String,
        /// An object.
        content: Json,
    },
    /// The turn is over.
    #[serde(rename = "done")]
    Done,
}

impl Action {
    /// Its type.
    pub fn name(&self) -> &'static str {
        match self {
            Self::LlmCall(_) => "llm.call",
            Self::ContextReplace(_) => "context.replace",
            Self::ToolCall { .. } => "tool.call",
            Self::ToolResult { .. } => "tool.result",
            Self::ToolError { .. } => "tool.error",
            Self::Interrupt(_) => "interrupt",
            Self::InterruptResolve { .. } => "interrupt.resolve",
            Self::Custom { .. } => "custom",
            Self::Activity { .. } => "activity",
            Self::Done => "done",
        }
    }
}

/// `llm.call`. What isn't said is as it is configured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LlmCall {
    /// The call that is held, or the one that is proposed; absent: a new one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<CallId>,
    /// Which llm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llm: Option<String>,
    /// Which of its models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the model reads, instead of the system prompt and the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<Vec<Message>>,
    /// Whether the reply is shown as it is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
}

/// `context.replace`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ContextReplace {
    /// What the model reads first, as a user's message that says that the earlier conversation was summarized.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// What follows: one with a recorded id is that message, any other is new and for the model only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
}
