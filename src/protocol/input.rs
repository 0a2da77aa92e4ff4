//! What a client submits.

use serde::{Deserialize, Serialize};

use super::{Json, Message, Tool};
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
    /// What it is.
    pub body: InputBody,
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
}

/// What a client offers the agent with its input.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Client {
    /// Front-end tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool>,
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
