//! Answers about a session: its page, its tree, its conversation as readers see them. Contents that aren't in memory are asked
//! for first (`Session::missing`).

use std::sync::Arc;

use super::reading::Ix;
use super::session::Session;
use crate::ids::{NodeId, SessionId};
use crate::protocol::{Code, Message, Refusal, Running, SessionPage, SessionStatus, TreeNode, TreePage};

/// The nodes that a reader sees at the head, first one first.
pub fn reader_nodes(session: &Session) -> Vec<Ix> {
    let mut nodes: Vec<Ix> = session.tree.reader_up(session.head).collect();
    nodes.reverse();
    nodes
}

/// Their messages, under the ids that readers see; those whose content isn't in memory are left out.
pub fn snapshot_messages(session: &Session) -> Vec<Arc<Message>> {
    reader_nodes(session).into_iter().filter_map(|ix| shown(session, ix, session.tree.shown_id(ix))).collect()
}

fn shown(session: &Session, ix: Ix, id: &NodeId) -> Option<Arc<Message>> {
    let content = session.content(ix)?;
    if content.id.as_ref() == Some(id) {
        return Some(content.clone());
    }
    Some(Arc::new(Message { id: Some(id.clone()), ..Message::clone(content) }))
}

/// The session's page.
pub fn page(session: &Session, id: &SessionId) -> Option<SessionPage> {
    let running = session.turn.as_ref();
    Some(SessionPage {
        session_id: id.clone(),
        agent_id: session.agent_id.clone()?,
        title: None,
        status: if running.is_some() { SessionStatus::Running } else { SessionStatus::Idle },
        head_id: session.head.map(|head| session.tree.node(head).id.clone()),
        running_turn: running.map(|turn| Running { turn_id: turn.id.clone(), started_at: turn.started_at }),
        queue: Vec::new(),
        interrupts: Vec::new(),
        messages: snapshot_messages(session),
    })
}

/// The nodes of a page of the tree, and what comes `after` it.
pub fn tree_page(session: &Session, id: &SessionId, after: Option<&NodeId>, limit: usize) -> Result<(Vec<Ix>, TreePage), Refusal> {
    let tree = &session.tree;
    let from = match after {
        None => 0,
        Some(after) => tree.find(after).map(|ix| ix + 1).ok_or_else(|| {
            Refusal::new(Code::NodeNotFound, format!("after names {after}, which isn't a node of this session"))
                .with("node_id", after.as_str())
        })?,
    };
    let mut seen = (from..u32::try_from(tree.len()).unwrap_or(u32::MAX)).filter(|&ix| tree.node(ix).shown);
    let nodes: Vec<Ix> = seen.by_ref().take(limit).collect();
    let next = seen.next().and(nodes.last()).map(|&ix| tree.node(ix).id.clone());
    let head_id = tree.reader_up(session.head).next().map(|ix| tree.node(ix).id.clone());
    let listed = nodes.iter().filter_map(|&ix| listed(session, ix)).collect();
    Ok((nodes, TreePage { session_id: id.clone(), head_id, nodes: listed, next }))
}

fn listed(session: &Session, ix: Ix) -> Option<TreeNode> {
    let tree = &session.tree;
    let node = tree.node(ix);
    let original = &tree.node(node.original).id;
    Some(TreeNode {
        id: node.id.clone(),
        parent_id: tree.reader_up(tree.parent(ix)).next().map(|parent| tree.node(parent).id.clone()),
        kind: node.kind,
        message: shown(session, ix, &node.id)?,
        created_at: node.at,
        partial: node.partial,
        copied_from: (node.original != ix).then(|| original.clone()),
    })
}
