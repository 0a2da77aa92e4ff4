//! Moving the head to exactly one node, naming nodes; and what else changes without a turn: a session's title.

use super::reading::Ix;
use super::record::{Body, HeadMoved, Record, SessionUpdated};
use super::session::Session;
use super::tree::Tree;
use super::write::Writer;
use super::{Context, call, refuse_newer};
use crate::ids::{NodeId, SessionId, TurnId};
use crate::protocol::native::TITLE_BYTES_MAX;
use crate::protocol::{CancelReason, Code, HeadAnswer, HeadMove, HeadTo, NodeKind, Refusal, SessionUpdate};

/// The longest name of a node, in bytes.
const LABEL_BYTES_MAX: usize = 256;
/// The most named nodes of a session.
const LABELS_MAX: usize = 1000;

/// Moves the head, and gives the node that it goes to a name. A turn that is there is stopped when its branch is left.
pub fn move_head(session: &Session, id: &SessionId, asked: &HeadMove, context: &Context) -> Result<(Vec<Record>, HeadAnswer), Refusal> {
    refuse_newer(session)?;
    must_be_there(session)?;
    let to = target(session, &asked.to)?;
    if let Some(label) = &asked.label {
        must_be_label(session, label, to)?;
    }
    let mut writer = Writer::new(session, context);
    let mut cancelled = Vec::new();
    // Where a turn pauses its last node is meant, whatever stands there for people only.
    let stays = session.is_interrupted() && session.tree.vertex(to) == session.tree.vertex(session.head);
    let again = session.suspended_at(to).filter(|_| !stays);
    let to = if stays { session.head } else { again.map_or(to, |suspended| suspended.at) };
    let moves = to != session.head;
    let mut suspended = None;
    if moves
        && session.is_interrupted()
        && let Some(turn) = call::turn(session)
    {
        suspended = Some(turn.id.clone());
        cancelled.extend(waiting(session));
        writer.suspend(turn);
    } else if moves && let Some(turn) = call::turn(session) {
        cancelled.push(turn.id.clone());
        cancelled.extend(waiting(session));
        writer.leave(turn, Some(CancelReason::BranchLeft));
    }
    let is_new = |label: &String| !session.labels.iter().any(|(name, node)| name == label && Some(*node) == to);
    if moves || asked.label.as_ref().is_some_and(is_new) {
        writer.go_to(to);
        writer.head_moved(HeadMoved { label: asked.label.clone(), ..HeadMoved::default() });
    }
    let interrupts = match again.filter(|_| moves) {
        Some(suspended) => {
            writer.show_again(suspended);
            suspended.turn.interrupts.clone()
        }
        None => Vec::new(),
    };
    let head_id = session.tree.seen_at(to);
    Ok((writer.records, HeadAnswer { session_id: id.clone(), head_id, cancelled, suspended, interrupts }))
}

/// What waits for the turn that is there.
fn waiting(session: &Session) -> impl Iterator<Item = TurnId> {
    let steering = session.arrivals.iter().filter(|arrival| !arrival.is_event()).map(|arrival| arrival.id.clone());
    steering.chain(session.queue.iter().map(|queued| queued.id.clone()))
}

/// Only an input makes a session.
pub(super) fn must_be_there(session: &Session) -> Result<(), Refusal> {
    if session.seq > 0 { Ok(()) } else { Err(Refusal::new(Code::SessionNotFound, "there is no such session; a submit makes one")) }
}

fn target(session: &Session, to: &HeadTo) -> Result<Option<Ix>, Refusal> {
    match to {
        HeadTo::Stay => Ok(session.head),
        HeadTo::Node(None) => Ok(None),
        HeadTo::Node(Some(id)) => reader_node(session, id).map(Some),
        HeadTo::Label(label) => {
            let named = session.labels.iter().find(|(name, _)| name == label);
            let text = || format!("no node of this session is labelled {label:?}; the session's page lists its checkpoints");
            let unknown = || Refusal::new(Code::LabelNotFound, text()).with("label", label.as_str());
            named.map(|&(_, ix)| Some(ix)).ok_or_else(unknown)
        }
    }
}

/// A node that readers see.
pub(super) fn reader_node(session: &Session, id: &NodeId) -> Result<Ix, Refusal> {
    let tree = &session.tree;
    let Some(ix) = tree.find(id) else {
        let text = format!("{id} isn't a node of this session; its tree lists them");
        return Err(Refusal::new(Code::NodeNotFound, text).with("node_id", id.as_str()));
    };
    must_be_readable(tree, ix, id).map(|()| ix)
}

/// Refuses a node that readers never see, which a client calls `id`.
pub(super) fn must_be_readable(tree: &Tree, ix: Ix, id: &NodeId) -> Result<(), Refusal> {
    let node = tree.node(ix);
    if node.shown && node.kind != NodeKind::Epoch {
        return Ok(());
    }
    let text = format!("{id} is a node that only models read; name one that the reader's tree lists");
    Err(Refusal::new(Code::BadRequest, text).with("node_id", id.as_str()))
}

fn must_be_label(session: &Session, label: &str, to: Option<Ix>) -> Result<(), Refusal> {
    let bad = |text: String| Err(Refusal::new(Code::BadRequest, text).with("at", "label"));
    if label.trim().is_empty() || label.len() > LABEL_BYTES_MAX {
        return bad(format!("a label has between 1 and {LABEL_BYTES_MAX} bytes"));
    }
    if to.is_none() {
        return bad("the empty path has no node that a label could name".to_owned());
    }
    if session.labels.len() >= LABELS_MAX && !session.labels.iter().any(|(name, _)| name == label) {
        return bad(format!("the session has {LABELS_MAX} labels, the most that are allowed; use one again"));
    }
    Ok(())
}

/// Changes a session's title or whether lists leave it out. No records: it is so already.
pub fn update(session: &Session, asked: &SessionUpdate, context: &Context) -> Result<Vec<Record>, Refusal> {
    refuse_newer(session)?;
    must_be_there(session)?;
    if asked.title.iter().flatten().any(|title| title.len() > TITLE_BYTES_MAX) {
        let text = format!("a title has at most {TITLE_BYTES_MAX} bytes");
        return Err(Refusal::new(Code::BadRequest, text).with("at", "title"));
    }
    let title = asked.title.clone().filter(|title| *title != session.title);
    let archived = asked.archived.filter(|archived| *archived != session.archived);
    let mut writer = Writer::new(session, context);
    if title.is_some() || archived.is_some() {
        writer.push(Body::SessionUpdated(SessionUpdated { title, archived }));
    }
    Ok(writer.records)
}
