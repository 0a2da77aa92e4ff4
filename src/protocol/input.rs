//! What a client submits.

use serde::{Deserialize, Serialize};

use super::{Code, Json, Message, Refusal, Resume, Tool};
use crate::ids::{AgentId, TurnId};

/// One submit to a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// Which agent answers.
    pub agent_id: AgentId,
    /// Idempotency: a known one answers with that turn and runs nothing.
    pub turn_id: Option<TurnId>,
    /// Overrides whether a reply is due.
    pub run: Option<bool>,
    /// What the client offers the agent.
    pub client: Client,
    /// What becomes of it when a turn is there already.
    pub on_busy: OnBusy,
    /// What it is.
    pub body: InputBody,
}

/// What becomes of a submit when a turn is there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnBusy {
    /// It is refused, and the turn named.
    #[default]
    Refuse,
    /// It waits, as a turn of its own.
    Queue,
    /// It joins the last waiting turn when that was merged too, else it waits as one that others may join.
    Merge,
    /// It joins the running turn: its next model call reads it.
    Steer,
    /// The running turn is stopped first.
    Cancel,
}

impl OnBusy {
    /// What an input's own `queue` says, as JSON text.
    pub fn from_queue(json: &str) -> Result<Self, Refusal> {
        match json {
            "false" => Ok(Self::Refuse),
            "true" => Ok(Self::Queue),
            r#""merge""# => Ok(Self::Merge),
            r#""steer""# => Ok(Self::Steer),
            _ => Err(Refusal::new(Code::BadRequest, "queue is true, false, \"merge\" or \"steer\"")),
        }
    }
}

/// The kinds of submit.
#[derive(Clone, Debug, PartialEq)]
pub enum InputBody {
    /// `client.messages`: the client's whole view, reconciled with the tree.
    Messages {
        /// In the client's order; ids optional.
        messages: Vec<Message>,
        /// How to read it.
        options: ViewOptions,
    },
    /// `client.message`: one message of a user's, at the head.
    Message {
        /// Its id optional.
        message: Message,
    },
    /// `client.append`: several, at the head as it is when they are delivered.
    Append {
        /// In order; ids optional.
        messages: Vec<Message>,
    },
    /// `session.event`: something that happened; the next model call reads it.
    Event {
        /// Of role user, named after what happened; its id optional.
        message: Message,
        /// Whether readers see it.
        show: bool,
    },
    /// `client.action`: something that a person did, which the agent's worker is asked about.
    Action(ClientAction),
    /// `interrupt.resume`: answers to what pauses a turn.
    Resume {
        /// The answers.
        interrupts: Vec<Resume>,
        /// The view of a front end that has nothing else to send it with.
        view: Option<(Vec<Message>, ViewOptions)>,
    },
    /// `tool.result` and `tool.error`: the answer to an open call.
    Result {
        /// Of role tool; it names its call.
        message: Message,
    },
}

/// Something that a person did in a front end, other than writing: a button, a form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientAction {
    /// What the application calls it.
    pub name: String,
    /// What goes with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Json>,
}

/// What a client offers the agent with its input.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Client {
    /// Front-end tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<Tool>>,
    /// AG-UI's context entries, system and developer messages included; relayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Json>,
    /// The client's state; relayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Json>,
    /// AG-UI's forwarded properties; relayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarded_props: Option<Json>,
}

impl Client {
    /// How many bytes all of it has.
    pub fn bytes(&self) -> usize {
        let length = |json: &Option<Json>| json.as_ref().map_or(0, |json| json.get().len());
        let tool = |tool: &Tool| tool.name.len() + tool.description.len() + length(&tool.parameters) + length(&tool.metadata);
        let tools: usize = self.tools.iter().flatten().map(tool).sum();
        tools + length(&self.context) + length(&self.state) + length(&self.forwarded_props)
    }

    /// Takes what a later input of the same turn offers: what it says wins, what it doesn't say stays.
    pub fn merge(&mut self, later: Self) {
        let Self { tools, context, state, forwarded_props } = later;
        self.tools = tools.or(self.tools.take());
        self.context = context.or(self.context.take());
        self.state = state.or(self.state.take());
        self.forwarded_props = forwarded_props.or(self.forwarded_props.take());
    }

    /// Whether the client carries out calls of the tool `name`.
    pub fn has_tool(&self, name: &str) -> bool {
        self.tools.iter().flatten().any(|tool| tool.name == name)
    }
}

/// What becomes of the state that a client sends along.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientState {
    /// Nothing: nobody sees it.
    Ignore,
    /// The agent's worker sees it; without a worker it becomes the session's state.
    #[default]
    Offer,
    /// It becomes the session's state.
    Accept,
}

/// How a view is read where its ids alone don't say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewOptions {
    /// A view with no known id on a session that has nodes.
    pub partial_view: PartialView,
    /// A known user id with other content.
    pub same_id_edit: SameIdEdit,
}

/// What a view with no known id means on a session that has nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartialView {
    /// A branch at the root: what the person sees is what the model reads.
    #[default]
    Root,
    /// It follows the head: for front ends that send only the new message.
    Append,
}

impl PartialView {
    /// Its words.
    pub const WORDS: [(&str, Self); 2] = [("root", Self::Root), ("append", Self::Append)];
}

impl SameIdEdit {
    /// Its words.
    pub const WORDS: [(&str, Self); 2] = [("ignore", Self::Ignore), ("fork", Self::Fork)];
}

/// What a known user id with other content means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SameIdEdit {
    /// Ids decide: nothing changes, and the answer says so.
    #[default]
    Ignore,
    /// An edit: written under a fresh id, beside the recorded one.
    Fork,
}
