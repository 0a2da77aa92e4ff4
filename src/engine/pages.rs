//! Answers about a session: its page, its tree, its conversation as readers see them. Contents that aren't in memory are asked
//! for first (`Session::missing`).

use std::sync::Arc;

use super::arrivals::Arrival;
use super::interrupt::Suspended;
use super::job::Job;
use super::queue::Queued;
use super::reading::Ix;
use super::session::Session;
use super::turn::Held;
use crate::ids::{NodeId, SessionId, ToolCallId};
use crate::protocol::{
    Arriving, BackgroundJob, Checkpoint, Code, HeldCall, Message, NodeKind, OpenCall, QueuedTurn, Refusal, Running, SessionPage,
    SessionStatus, Source, SuspendedTurn, TreeNode, TreePage, TreeQuery, TreeView,
};

/// The nodes that a reader sees at the head, first one first.
pub fn reader_nodes(session: &Session) -> Vec<Ix> {
    reader_nodes_at(session, session.head)
}

/// The nodes that a reader sees at a node, first one first.
pub fn reader_nodes_at(session: &Session, at: Option<Ix>) -> Vec<Ix> {
    let mut nodes: Vec<Ix> = session.tree.reader_up(at).collect();
    nodes.reverse();
    nodes
}

/// The messages that a reader sees at the head, under the ids that readers see; those whose content isn't in memory are left out.
pub fn snapshot_messages(session: &Session) -> Vec<Arc<Message>> {
    messages_of(session, reader_nodes(session))
}

/// The messages of these nodes, likewise.
pub fn messages_of(session: &Session, nodes: Vec<Ix>) -> Vec<Arc<Message>> {
    nodes.into_iter().filter_map(|ix| shown(session, ix, &session.tree.shown_id(ix))).collect()
}

fn shown(session: &Session, ix: Ix, id: &NodeId) -> Option<Arc<Message>> {
    let content = session.content(ix)?;
    if content.id.as_ref() == Some(id) && !content.has_encrypted() {
        return Some(content.clone());
    }
    Some(Arc::new(Message { id: Some(id.clone()), ..Message::clone(content).without_encrypted() }))
}

/// The session's page.
pub fn page(session: &Session, id: &SessionId) -> Option<SessionPage> {
    let running = session.turn.as_ref();
    Some(SessionPage {
        session_id: id.clone(),
        agent_id: session.agent_id.clone()?,
        title: session.title.clone(),
        archived: session.archived,
        forked_from: session.forked_from.clone(),
        checkpoints: checkpoints(session),
        open_calls: open_calls(session),
        status: match running {
            None => SessionStatus::Idle,
            Some(_) if session.is_waiting() => SessionStatus::Waiting,
            Some(_) => SessionStatus::Running,
        },
        head_id: session.tree.seen_at(session.head),
        held_call: running.and_then(|turn| turn.held.as_ref()).map(held),
        job: session.job.as_ref().map(job),
        epoch: session.tree.epoch(session.head),
        running_turn: running.map(|turn| Running { turn_id: turn.id.clone(), started_at: turn.started_at }),
        arrivals: session.arrivals.iter().map(|arrival| arriving(arrival)).collect(),
        queue: (1..).zip(session.queue.iter()).map(|(position, queued)| waiting(position, queued)).collect(),
        interrupts: session.open_interrupts().to_vec(),
        suspended: session.suspended().iter().map(|suspended| paused(session, suspended)).collect(),
        state: session.state().ok().flatten().cloned(),
        messages: snapshot_messages(session),
    })
}

fn held(held: &Held) -> HeldCall {
    let strategy = held.strategy.as_ref().map(|strategy| strategy.name.clone());
    HeldCall { call_id: held.id.clone(), reason: held.reason, strategy, tokens: held.tokens }
}

fn job(job: &Job) -> BackgroundJob {
    let Job { id, turn_id, strategy, attempt, text, .. } = job;
    let (job_id, turn_id, strategy) = (id.clone(), turn_id.clone(), strategy.name.clone());
    BackgroundJob { job_id, turn_id, strategy, attempt: *attempt, written: text.is_some() }
}

fn checkpoints(session: &Session) -> Vec<Checkpoint> {
    labels(session, TreeView::Reader).map(|(label, ix)| Checkpoint { label: label.to_owned(), node_id: session.tree.id(ix) }).collect()
}

/// Labels, and the nodes that have them. A reader finds that of a node that it never sees on the last one that it sees there.
fn labels(session: &Session, view: TreeView) -> impl Iterator<Item = (&str, Ix)> {
    session.labels.iter().filter_map(move |(label, ix)| {
        let ix = match view {
            TreeView::Reader => session.tree.reader_up(Some(*ix)).next()?,
            TreeView::Raw => *ix,
        };
        Some((label.as_str(), ix))
    })
}

fn waiting(position: usize, queued: &Queued) -> QueuedTurn {
    let Queued { id, agent_id, at, messages, .. } = queued;
    QueuedTurn { turn_id: id.clone(), position, agent_id: agent_id.clone(), queued_at: *at, messages: messages.iter().map(read).collect() }
}

fn paused(session: &Session, suspended: &Suspended) -> SuspendedTurn {
    let Suspended { turn, at, .. } = suspended;
    SuspendedTurn { turn_id: turn.id.clone(), node_id: session.tree.seen_at(*at), interrupts: turn.interrupts.clone() }
}

fn arriving(arrival: &Arrival) -> Arriving {
    let Arrival { id, joins, agent_id, at, messages, .. } = arrival;
    let messages = messages.iter().filter(|_| arrival.is_shown()).map(read).collect();
    Arriving { turn_id: id.clone(), joins: joins.clone(), agent_id: agent_id.clone(), queued_at: *at, messages }
}

/// A message that waits, as readers see it.
fn read(message: &Arc<Message>) -> Arc<Message> {
    if message.has_encrypted() { Arc::new(Message::clone(message).without_encrypted()) } else { message.clone() }
}

/// The calls whose results the turn waits for: those of its reply that are open.
fn open_calls(session: &Session) -> Vec<OpenCall> {
    let tree = &session.tree;
    let of = |id: &ToolCallId| {
        let reply = session.content(tree.call(id)?.reply)?;
        let asked = reply.tool_calls.iter().find(|asked| asked.id == *id)?;
        Some(OpenCall { id: id.clone(), name: asked.function.name.clone() })
    };
    if session.is_waiting() { tree.open_calls().iter().filter_map(of).collect() } else { Vec::new() }
}

/// The nodes of a page of the tree, and its last one when there are more.
fn page_of(session: &Session, query: &TreeQuery) -> Result<(Vec<Ix>, Option<Ix>), Refusal> {
    let tree = &session.tree;
    let view = query.view;
    let from = match &query.after {
        None => 0,
        Some(after) => tree.find(after).map(|ix| ix + 1).ok_or_else(|| {
            Refusal::new(Code::NodeNotFound, format!("after names {after}, which isn't a node of this session"))
                .with("node_id", after.as_str())
        })?,
    };
    let mut seen = (from..u32::try_from(tree.len()).unwrap_or(u32::MAX)).filter(|&ix| view == TreeView::Raw || tree.node(ix).shown);
    let nodes: Vec<Ix> = seen.by_ref().take(query.limit).collect();
    let next = seen.next().and(nodes.last().copied());
    Ok((nodes, next))
}

/// The nodes of a page of the tree.
pub fn tree_nodes(session: &Session, query: &TreeQuery) -> Result<Vec<Ix>, Refusal> {
    page_of(session, query).map(|(nodes, _)| nodes)
}

/// A page of the tree; nodes whose content isn't in memory are left out.
pub fn tree_page(session: &Session, id: &SessionId, query: &TreeQuery) -> Result<TreePage, Refusal> {
    let (nodes, next) = page_of(session, query)?;
    let (tree, view) = (&session.tree, query.view);
    let head_id = match view {
        TreeView::Reader => tree.seen_at(session.head),
        TreeView::Raw => session.head.map(|head| tree.id(head)),
    };
    let labels: Vec<(&str, Ix)> = labels(session, view).collect();
    let nodes = nodes.into_iter().filter_map(|ix| listed(session, ix, view, &labels)).collect();
    Ok(TreePage { session_id: id.clone(), head_id, nodes, next: next.map(|ix| tree.id(ix)) })
}

fn listed(session: &Session, ix: Ix, view: TreeView, labels: &[(&str, Ix)]) -> Option<TreeNode> {
    let tree = &session.tree;
    let node = tree.node(ix);
    let parent = match view {
        TreeView::Reader => tree.reader_up(tree.parent(ix)).next(),
        TreeView::Raw => tree.parent(ix),
    };
    let id = tree.id(ix);
    Some(TreeNode {
        parent_id: parent.map(|parent| tree.id(parent)),
        kind: node.kind,
        message: shown(session, ix, &id)?,
        source: Source::of(node.is_event, node.by_worker),
        created_at: node.at,
        partial: node.partial,
        copied_from: (node.original != ix).then(|| tree.id(node.original)),
        epoch: (node.kind == NodeKind::Epoch).then(|| tree.epoch(Some(ix))),
        base_id: tree.base(ix).map(|base| tree.id(base)),
        reads_as: tree.reads_as(ix).filter(|_| view == TreeView::Raw).map(|to| to.map(|to| tree.id(to))),
        id,
        hidden: !node.shown && node.kind != NodeKind::Epoch,
        labels: labels.iter().filter(|&&(_, of)| of == ix).map(|&(label, _)| label.to_owned()).collect(),
    })
}
