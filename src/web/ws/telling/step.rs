//! What each event of a session means for who reads it as runs: where one begins and ends, what is told inside, when the branch
//! changes. May not know how it is told.

use std::sync::Arc;

use super::{Run, Telling};
use crate::ids::{NodeId, TurnId};
use crate::protocol::{Event, EventBody, Message, NodeKind, Role};
use crate::runtime::TurnEnd;

/// What an event means for the reader.
pub(super) enum Step {
    /// Nothing.
    Silent,
    /// It is told inside the run.
    Inside,
    /// It waits for what comes next.
    Pending,
    /// A run starts.
    Starts,
    /// A run starts, and this is told inside it.
    StartsWith,
    /// The run ends.
    Ends(TurnEnd),
    /// A run starts and ends at once.
    Passes(TurnEnd),
    /// The whole is to be shown.
    Moves,
}

impl Telling {
    /// What an event means, and what is known after it.
    pub(super) fn step(&mut self, event: &Event) -> Step {
        if let EventBody::CallStarted { .. } = event.body {
            self.call = event.cursor.map(|cursor| cursor.seq);
        } else if let EventBody::CallCompleted { .. } | EventBody::CallFailed { .. } | EventBody::CallVoided { .. } = event.body {
            self.call = None;
        }
        match &event.body {
            EventBody::MessageNew { node_id, parent_id, kind, shown_id, message, .. } => {
                // A history that replaces another begins at the root, and reads like that one.
                let follows = self.head == *parent_id || *kind == NodeKind::Epoch;
                self.head = Some(node_id.clone());
                self.knows.head = true;
                self.message(event, follows, shown_id.as_ref(), message.as_ref())
            }
            EventBody::HeadMoved { head_id, .. } => {
                let moves = self.head != *head_id;
                self.head.clone_from(head_id);
                self.knows.head = true;
                self.moves(moves)
            }
            EventBody::TurnStarted { turn_id, .. } => {
                self.knows.run = true;
                self.begins(turn_id, turn_id.clone())
            }
            EventBody::TurnJoined { turn_id, name } if self.run.is_none() => {
                self.joined = Some((turn_id.clone(), name.clone()));
                self.pending = Some((event.cursor, event.at));
                Step::Pending
            }
            EventBody::CallStarted { turn_id, hidden: false, .. } if self.run.is_none() => {
                if self.goes_on_with(turn_id) {
                    Step::Starts
                } else {
                    Step::Silent
                }
            }
            EventBody::ContextLimited { turn_id, .. }
            | EventBody::ContextReplaced { turn_id, .. }
            | EventBody::ContextKept { turn_id, .. } => self.makes_room(turn_id),
            EventBody::CallCompleted { usage, .. } => {
                if let Some(run) = &mut self.run {
                    run.usage.extend(usage.clone());
                }
                Step::Silent
            }
            EventBody::TurnCompleted { turn_id } => self.turn_ends(turn_id, TurnEnd::Completed),
            EventBody::TurnFailed { turn_id, code, message } => {
                self.turn_ends(turn_id, TurnEnd::Failed { code: *code, message: message.clone() })
            }
            EventBody::TurnWaiting { turn_id, calls } => {
                self.open.clone_from(calls);
                self.turn_ends(turn_id, TurnEnd::Waiting { calls: calls.clone() })
            }
            EventBody::SessionInterrupted { turn_id, interrupts } => {
                self.interrupts.clone_from(interrupts);
                self.turn_ends(turn_id, TurnEnd::Interrupted { interrupts: interrupts.clone() })
            }
            EventBody::InterruptResumed { .. } | EventBody::TurnSuspended { .. } => {
                self.interrupts.clear();
                Step::Silent
            }
            EventBody::TurnCancelled { turn_id, .. } => {
                self.open.clear();
                match &self.run {
                    Some(run) if run.turn == *turn_id => Step::Ends(TurnEnd::Cancelled),
                    // One that waited.
                    Some(_) | None => Step::Silent,
                }
            }
            EventBody::Live(_) | EventBody::Resync(_) | EventBody::StateUpdated { .. } if self.run.is_some() => Step::Inside,
            // The next run tells of it.
            EventBody::StateUpdated { .. } => {
                self.states.push(Event { cursor: None, ..event.clone() });
                Step::Silent
            }
            EventBody::Resync(_) => self.moves(true),
            EventBody::Live(_)
            | EventBody::TurnJoined { .. }
            | EventBody::CallStarted { .. }
            | EventBody::TurnQueued { .. }
            | EventBody::TurnRecovered { .. }
            | EventBody::SessionCreated { .. }
            | EventBody::SessionForked { .. }
            | EventBody::SessionUpdated { .. }
            | EventBody::CallFailed { .. }
            | EventBody::CallVoided { .. }
            | EventBody::DecisionAsked { .. }
            | EventBody::DecisionAnswered { .. }
            | EventBody::DecisionFailed { .. }
            | EventBody::ToolCallStarted { .. }
            | EventBody::ToolCallCompleted { .. }
            | EventBody::ToolCallFailed { .. }
            | EventBody::AgentUpdated { .. }
            | EventBody::Custom { .. }
            | EventBody::ArrivalQueued { .. }
            | EventBody::ArrivalConsumed { .. } => Step::Silent,
        }
    }

    fn message(&mut self, event: &Event, follows: bool, shown: Option<&NodeId>, message: Option<&Arc<Message>>) -> Step {
        if let Some(answered) = message.and_then(|message| message.tool_call_id.as_ref().filter(|_| message.role == Role::Tool)) {
            self.open.retain(|call| call != answered);
        }
        match (shown, message) {
            (Some(_), _) if self.run.is_some() => Step::Inside,
            (Some(id), Some(message)) if follows && !self.moved => {
                self.news.push(Arc::new((**message).clone().with_id(id.clone())));
                self.pending = Some((event.cursor, event.at));
                Step::Pending
            }
            // For models only.
            (None, _) if follows => Step::Silent,
            // What it says isn't said here, or it stands on another branch.
            (Some(_) | None, _) => self.moves(true),
        }
    }

    /// The path is another one: shown once the run is over.
    fn moves(&mut self, moves: bool) -> Step {
        self.moved |= moves;
        if moves && self.run.is_none() { Step::Moves } else { Step::Silent }
    }

    fn begins(&mut self, turn: &TurnId, name: TurnId) -> Step {
        self.open.clear();
        self.run = Some(Run { turn: turn.clone(), name, usage: Vec::new() });
        Step::Starts
    }

    /// Something about the room in the context window. It may come before the first call of a turn that goes on.
    fn makes_room(&mut self, turn: &TurnId) -> Step {
        match self.run.as_ref().map(|run| run.turn == *turn) {
            Some(true) => Step::Inside,
            None if self.goes_on_with(turn) => Step::StartsWith,
            Some(false) | None => Step::Silent,
        }
    }

    /// A turn goes on whose run was told to its end: with a run of the name that it goes on under. Not when it isn't known where
    /// the turn began.
    fn goes_on_with(&mut self, turn: &TurnId) -> bool {
        let name = match &self.joined {
            Some((joined, name)) if joined == turn => name.clone(),
            Some(_) | None if !self.knows.run => return false,
            Some(_) | None => turn.clone(),
        };
        self.knows.run = true;
        self.begins(turn, name);
        true
    }

    fn turn_ends(&mut self, turn: &TurnId, end: TurnEnd) -> Step {
        self.knows.run = true;
        match (&self.run, &self.joined) {
            (Some(run), _) if run.turn == *turn => Step::Ends(end),
            (None, Some((joined, _))) if joined == turn => Step::Passes(end),
            (Some(_) | None, _) => Step::Silent,
        }
    }
}

/// Whether a turn goes on or ends with it that got results, or may with what follows.
pub(super) fn goes_on(body: &EventBody) -> bool {
    matches!(
        body,
        EventBody::CallStarted { .. }
            | EventBody::ContextLimited { .. }
            | EventBody::ContextReplaced { .. }
            | EventBody::StateUpdated { .. }
            | EventBody::AgentUpdated { .. }
            | EventBody::MessageNew { shown_id: None, .. }
            | EventBody::TurnCompleted { .. }
            | EventBody::TurnFailed { .. }
    )
}

/// Whether nothing is told of it inside a run.
pub(super) fn is_silent(body: &EventBody) -> bool {
    match body {
        EventBody::Live(_)
        | EventBody::Resync(_)
        | EventBody::ContextLimited { .. }
        | EventBody::ContextReplaced { .. }
        | EventBody::ContextKept { .. }
        | EventBody::StateUpdated { .. } => false,
        EventBody::MessageNew { message, .. } => {
            message.as_ref().is_none_or(|message| !matches!(message.role, Role::Tool | Role::Activity))
        }
        EventBody::SessionCreated { .. }
        | EventBody::SessionForked { .. }
        | EventBody::SessionUpdated { .. }
        | EventBody::HeadMoved { .. }
        | EventBody::TurnQueued { .. }
        | EventBody::TurnJoined { .. }
        | EventBody::TurnWaiting { .. }
        | EventBody::TurnStarted { .. }
        | EventBody::TurnCompleted { .. }
        | EventBody::TurnFailed { .. }
        | EventBody::TurnCancelled { .. }
        | EventBody::TurnRecovered { .. }
        | EventBody::SessionInterrupted { .. }
        | EventBody::InterruptResumed { .. }
        | EventBody::TurnSuspended { .. }
        | EventBody::CallStarted { .. }
        | EventBody::CallCompleted { .. }
        | EventBody::CallFailed { .. }
        | EventBody::CallVoided { .. }
        | EventBody::DecisionAsked { .. }
        | EventBody::DecisionAnswered { .. }
        | EventBody::DecisionFailed { .. }
        | EventBody::ToolCallStarted { .. }
        | EventBody::ToolCallCompleted { .. }
        | EventBody::ToolCallFailed { .. }
        | EventBody::AgentUpdated { .. }
        | EventBody::Custom { .. }
        | EventBody::ArrivalQueued { .. }
        | EventBody::ArrivalConsumed { .. } => true,
    }
}
