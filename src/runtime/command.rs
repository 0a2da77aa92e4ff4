//! What a session's task is asked. May not know how it is answered.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::audience::Hold;
use super::events::{Follow, Followed};
use super::runs::Place;
use super::transfer::Carried;
use super::{Active, Joined, Submitted};
use crate::engine::Submit;
use crate::ids::{DecisionId, NodeId, TurnId};
use crate::protocol::{
    Cursor, DecisionAnswer, Forked, HeadAnswer, HeadMove, Imported, Refusal, SessionPage, SessionUpdate, Snapshot, TreePage, TreeQuery,
};

/// Where an answer goes.
pub type Answer<T> = oneshot::Sender<Result<T, Refusal>>;

/// What a session's task is asked.
pub enum Command {
    /// A submit.
    Submit(Box<Submit>, Answer<Submitted>),
    /// The whole, and what follows.
    Join(Answer<Joined>),
    /// Stop the turn that is there, or the one named.
    Cancel(Option<TurnId>, Answer<bool>),
    /// Stop the turn named, whose submitter went away.
    Leave(TurnId, Answer<bool>),
    /// Move the head, or name a node.
    MoveHead(HeadMove, Answer<HeadAnswer>),
    /// Change what the page says.
    Update(SessionUpdate, Answer<SessionPage>),
    /// The session's page.
    Page(Answer<SessionPage>),
    /// A page of its tree.
    Tree(TreeQuery, Answer<TreePage>),
    /// Where reading its events begins, and what keeps it in memory meanwhile.
    Events(Option<Cursor>, Answer<(Cursor, Arc<Hold>)>),
    /// What comes after a place in its events.
    Follow(Follow, Answer<Followed>),
    /// Where a run is.
    Run(TurnId, Answer<Place>),
    /// The conversation as it reads at a node, or at nothing, when the record at this position had been written.
    ReadAt(Option<NodeId>, u64, Answer<Arc<Snapshot>>),
    /// The conversation as the call reads it that writes, or wrote, this reply.
    ReadBefore(NodeId, Answer<Option<Arc<Snapshot>>>),
    /// The conversation without the reply in the making, and the run that makes one.
    Hydrate(Answer<Active>),
    /// The log of a fork at a node, or at the head.
    Carry(Option<NodeId>, Answer<Carried>),
    /// Begin as a fork.
    Fork(Box<Carried>, Answer<Forked>),
    /// Begin with a whole log.
    Import(Vec<Bytes>, Answer<Imported>),
    /// Leave nothing behind.
    Erase(Answer<()>),
    /// Carry out a worker's answer to this decision; whether it wasn't answered before.
    Decide(DecisionId, Box<DecisionAnswer>, Answer<bool>),
    /// Only be there: outstanding work goes on.
    Open(Answer<()>),
    /// Another session needs the room: leave memory, unless something goes on.
    MakeRoom,
    /// The process stops.
    Stop,
}

impl Command {
    /// Answers with a refusal.
    pub fn refuse(self, refusal: &Refusal) {
        match self {
            Self::Submit(_, answer) => refuse(answer, refusal),
            Self::Join(answer) => refuse(answer, refusal),
            Self::Cancel(_, answer) | Self::Leave(_, answer) | Self::Decide(_, _, answer) => refuse(answer, refusal),
            Self::MoveHead(_, answer) => refuse(answer, refusal),
            Self::Update(_, answer) | Self::Page(answer) => refuse(answer, refusal),
            Self::Tree(_, answer) => refuse(answer, refusal),
            Self::Events(_, answer) => refuse(answer, refusal),
            Self::Follow(_, answer) => refuse(answer, refusal),
            Self::Run(_, answer) => refuse(answer, refusal),
            Self::ReadAt(_, _, answer) => refuse(answer, refusal),
            Self::ReadBefore(_, answer) => refuse(answer, refusal),
            Self::Hydrate(answer) => refuse(answer, refusal),
            Self::Carry(_, answer) => refuse(answer, refusal),
            Self::Fork(_, answer) => refuse(answer, refusal),
            Self::Import(_, answer) => refuse(answer, refusal),
            Self::Open(answer) | Self::Erase(answer) => refuse(answer, refusal),
            Self::Stop | Self::MakeRoom => {}
        }
    }
}

fn refuse<T>(answer: Answer<T>, refusal: &Refusal) {
    reply(answer, Err(refusal.clone()));
}

/// Answers; whoever asked may be gone.
pub fn reply<T>(answer: Answer<T>, result: Result<T, Refusal>) {
    drop(answer.send(result));
}

/// Answers. What could not be recorded ends the task, whose fold is ahead of the log then.
pub fn give<T>(answer: Answer<T>, result: Result<T, Refusal>) -> Result<(), Refusal> {
    let failed = result.as_ref().err().cloned();
    reply(answer, result);
    failed.map_or(Ok(()), Err)
}
