//! What is always true of a session. Checked after every step in tests and debug builds.

use std::collections::HashSet;

use super::reading::Ix;
use super::session::Session;
use super::tools::Execution;
use crate::protocol::NodeKind;

/// A broken invariant, in words.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(String);

fn broken(text: String) -> Result<(), Broken> {
    Err(Broken(text))
}

/// What the last record can have broken; O(1).
pub fn check_step(session: &Session) -> Result<(), Broken> {
    if let Some(ix) = u32::try_from(session.tree.len()).ok().and_then(|len| len.checked_sub(1)) {
        check_node(session, ix)?;
    }
    if let Some(turn) = &session.turn
        && session.turns.get(&turn.id).is_none_or(|known| known.end.is_some())
    {
        return broken(format!("turn {} runs, and isn't known to run", turn.id));
    }
    if session.turn.is_none() && !session.tree.open_calls().is_empty() {
        return broken("calls are open while no turn runs".to_owned());
    }
    Ok(())
}

/// What the last append can have broken; O(1). Between the records of one append it needn't hold.
pub fn check_rest(session: &Session) -> Result<(), Broken> {
    let waits = session.is_waiting();
    if let Some(why) = session.misplaced_arrival().or_else(|| session.misplaced_interrupt()) {
        return broken(why);
    }
    match &session.turn {
        None => match session.queue.iter().next() {
            Some(queued) => broken(format!("turn {} waits while no turn is there", queued.id)),
            None => Ok(()),
        },
        Some(turn) if turn.call.is_some() && turn.decision.is_some() => {
            broken(format!("turn {} asks its worker while a call runs", turn.id))
        }
        Some(turn) if turn.executions.iter().any(|execution| session.tree.call(execution.id()).is_none_or(|called| !called.taken)) => {
            broken(format!("turn {} carries out a call that isn't open", turn.id))
        }
        Some(turn) if turn.executions.len() + session.tree.awaited_calls().len() != session.tree.open_calls().len() => {
            broken(format!("an open call of turn {} is nobody's", turn.id))
        }
        Some(turn) if !turn.executions.is_empty() && !turn.executions.iter().any(Execution::has_begun) => {
            broken(format!("turn {} carries out calls, and none of them has begun", turn.id))
        }
        Some(turn) if turn.call.is_none() && turn.held.is_none() && turn.decision.is_none() && turn.executions.is_empty() && !waits => {
            broken(format!("turn {} neither runs nor waits", turn.id))
        }
        Some(turn) if turn.call.is_some() && !session.tree.open_calls().is_empty() => {
            broken(format!("turn {} runs while calls are open", turn.id))
        }
        Some(_) => Ok(()),
    }
}

fn check_node(session: &Session, ix: Ix) -> Result<(), Broken> {
    let tree = &session.tree;
    let node = tree.node(ix);
    if let Some(parent) = tree.parent(ix) {
        if parent >= ix {
            return broken(format!("node {} is older than its parent", tree.id(ix)));
        }
        if !tree.readings().extends(node.vertex, tree.node(parent).vertex) {
            return broken(format!("the reader view of node {} doesn't extend its parent's", tree.id(ix)));
        }
    }
    if tree.find(&tree.id(ix)) != Some(ix) {
        return broken(format!("the id {} doesn't name its node", tree.id(ix)));
    }
    Ok(())
}

/// Everything; O(tree × depth): for tests.
pub fn check(session: &Session) -> Result<(), Broken> {
    check_step(session)?;
    check_rest(session)?;
    let tree = &session.tree;
    for ix in 0..u32::try_from(tree.len()).unwrap_or(u32::MAX) {
        check_node(session, ix)?;
        let mut shown = HashSet::new();
        for seen in tree.reader_up(Some(ix)) {
            if !shown.insert(tree.shown_id(seen)) {
                return broken(format!("the reader view of {} holds {} twice", tree.id(ix), tree.shown_id(seen)));
            }
        }
        let vertices = tree.readings().up(tree.node(ix).vertex).count();
        let messages = tree.reader_up(Some(ix)).filter(|&seen| tree.node(seen).kind == NodeKind::Message).count();
        if vertices != messages {
            return broken(format!("the reader view of {} has {messages} messages, its vertex {vertices}", tree.id(ix)));
        }
        let mut answered = HashSet::new();
        for on_path in tree.up(Some(ix)) {
            let result = tree.node(on_path).original;
            if let Some(call) = tree.answers(result)
                && !answered.insert(call.clone())
            {
                return broken(format!("the path of {} holds two results of the call {call}", tree.id(ix)));
            }
        }
    }
    Ok(())
}
