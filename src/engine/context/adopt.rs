//! A background summary becomes the next epoch, right before a call begins: the summary, then everything since, unchanged. What was
//! written just now, in the same append, stands there too.

use std::collections::HashMap;

use super::need::Load;
use crate::engine::job::Job;
use crate::engine::prompt::size_of_summary;
use crate::engine::reading::Ix;
use crate::engine::record::{Body, ContextReplaced, DropReason, JobDropped, MessageNew};
use crate::engine::write::Writer;
use crate::ids::{AgentId, NodeId, TurnId};
use crate::protocol::{Client, Message, NodeKind, Role, Size};

/// The turn whose call is to begin.
pub(in crate::engine) struct Caller<'a> {
    pub(in crate::engine) turn_id: &'a TurnId,
    pub(in crate::engine) agent_id: &'a AgentId,
    pub(in crate::engine) client: &'a Client,
}

/// A node of the path as it will be.
struct Step {
    id: NodeId,
    original: NodeId,
    kind: NodeKind,
    /// Whether it is a reply that is whole: custom nodes come along with it.
    is_whole_reply: bool,
    size: Size,
}

/// Adopts a summary that is there. A job whose range isn't on the path any more is dropped, and so is a summary that is of no use.
pub(in crate::engine) fn adopt(writer: &mut Writer<'_>, caller: &Caller<'_>) {
    let Some(job) = writer.job() else { return };
    let tree = &writer.session().tree;
    let to = tree.find(&job.summary.to).filter(|&to| recorded(writer).is_some_and(|at| tree.is_above(to, at)));
    match (to, &job.text) {
        (None, _) => drop_job(writer, job, DropReason::Left),
        (Some(_), None) => {}
        (Some(to), Some(text)) => replace(writer, caller, job, to, text),
    }
}

fn drop_job(writer: &mut Writer<'_>, job: &Job, reason: DropReason) {
    writer.push(Body::JobDropped(JobDropped { job_id: job.id.clone(), reason }));
}

fn replace(writer: &mut Writer<'_>, caller: &Caller<'_>, job: &Job, to: Ix, text: &str) {
    let session = writer.session();
    let to = session.tree.id(to);
    let path = path(writer);
    let since = path.iter().rposition(|step| step.id == to).map_or(path.len(), |at| at + 1);
    // Custom nodes stay where they are, right before what is kept.
    let kept = path[since..].iter().position(|step| step.kind == NodeKind::Message).map(|at| since + at);
    let (Some(kept), Some(base)) = (kept, path.last()) else { return drop_job(writer, job, DropReason::Left) };
    let agent = writer.agent(caller.agent_id);
    let summary = Message::text(Role::User, text);
    let size = size_of_summary(&summary) + path[kept..].iter().map(|step| step.size).sum();
    let needs = Load { read: size, reported: false }.tokens(agent, caller.client);
    if needs >= writer.load().tokens(agent, caller.client) {
        return drop_job(writer, job, DropReason::NoGain);
    }
    let epoch = session.tree.epoch(recorded(writer)) + 1;
    let node_id = NodeId::from(writer.fresh());
    let reads_as = |at: usize| Some(Some(path[at].id.clone()));
    writer.start_over();
    writer.node(MessageNew {
        kind: NodeKind::Epoch,
        base: Some(base.id.clone()),
        reads_as: reads_as(kept - 1),
        ..MessageNew::plain(node_id.clone(), None, summary)
    });
    let last = path.iter().rposition(|step| step.kind == NodeKind::Message);
    for (at, step) in path.iter().enumerate().skip(kept).filter(|(_, step)| step.kind == NodeKind::Message) {
        let customs = path[at + 1..].iter().take_while(|after| step.is_whole_reply && after.kind == NodeKind::Custom).count();
        let end = if Some(at) == last { path.len() - 1 } else { at + customs };
        let id = NodeId::from(writer.fresh());
        let copy = MessageNew::copy(id, writer.parent.clone(), step.original.clone(), None);
        writer.copy_of(MessageNew { reads_as: reads_as(end), ..copy }, step.size);
    }
    let tokens = writer.load().tokens(agent, caller.client);
    let (turn_id, call_id) = (caller.turn_id.clone(), None);
    writer.push(Body::ContextReplaced(ContextReplaced { turn_id, call_id, node_id, epoch, tokens, no_gain: false, background: true }));
}

/// The nodes that were written just now, by their ids.
fn written<'w>(writer: &'w Writer<'_>) -> HashMap<&'w NodeId, &'w MessageNew> {
    let news = writer.records.iter().filter_map(|record| if let Body::MessageNew(new) = &record.body { Some(&**new) } else { None });
    news.map(|new| (&new.id, new)).collect()
}

/// The last node of the path that was recorded before.
fn recorded(writer: &Writer<'_>) -> Option<Ix> {
    let news = written(writer);
    let mut at = writer.parent.as_ref();
    while let Some(new) = at.and_then(|id| news.get(id)) {
        at = new.parent.as_ref();
    }
    at.and_then(|id| writer.session().tree.find(id))
}

/// The path to where the next node attaches, root first.
fn path(writer: &Writer<'_>) -> Vec<Step> {
    let tree = &writer.session().tree;
    let news = written(writer);
    let mut path = Vec::new();
    let mut at = writer.parent.as_ref();
    while let Some(new) = at.and_then(|id| news.get(id)) {
        path.push(step(writer, new));
        at = new.parent.as_ref();
    }
    path.extend(tree.up(recorded(writer)).map(|ix| {
        let node = tree.node(ix);
        let is_whole_reply = node.role == Role::Assistant && !node.partial;
        Step { id: tree.id(ix), original: tree.id(node.original), kind: node.kind, is_whole_reply, size: node.size }
    }));
    path.reverse();
    path
}

fn step(writer: &Writer<'_>, new: &MessageNew) -> Step {
    let tree = &writer.session().tree;
    let original = new.copied_from.as_ref().and_then(|id| tree.find(id)).map(|ix| tree.node(tree.node(ix).original));
    let role = new.message.as_ref().map(|message| message.role).or(original.map(|original| original.role));
    let partial = new.partial || original.is_some_and(|original| original.partial);
    Step {
        id: new.id.clone(),
        original: original.map_or_else(|| new.id.clone(), |original| tree.name_id(original.name)),
        kind: new.kind,
        is_whole_reply: role == Some(Role::Assistant) && !partial,
        size: writer.size(new),
    }
}
