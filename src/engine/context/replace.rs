//! `context.replace`: a shorter history. A new branch at the root begins with an epoch, which stands for what is left out; then come
//! copies of what is kept, and messages for the model only. Each node of it says what a person reads there, so that nobody but the
//! model notices.

use super::need::Load;
use super::strategy::Kept;
use crate::engine::prompt::path;
use crate::engine::reading::Ix;
use crate::engine::record::{Body, ContextReplaced, MessageNew};
use crate::engine::session::Session;
use crate::engine::turn::Turn;
use crate::engine::write::Writer;
use crate::ids::{CallId, NodeId};
use crate::protocol::{Message, NodeKind, Role, Size};

/// What a history is replaced by.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Replacement {
    /// Of what is left out; none: it is forgotten.
    pub summary: Option<String>,
    /// What follows.
    pub messages: Vec<Kept>,
}

impl Replacement {
    /// Whether a model reads less of it than of the history as it is: than its provider reported, or by characters alone, which is
    /// another measure.
    pub(in crate::engine) fn gains(&self, writer: &Writer<'_>, turn: &Turn) -> bool {
        let session = writer.session();
        let tokens = |load: Load| load.tokens(writer.agent(&turn.agent_id), &turn.client);
        let then = self.size(session);
        let now: Size = session.tree.up(session.head).map(|ix| session.tree.node(ix).size).sum();
        then < now || tokens(Load { read: then, reported: false }) < tokens(writer.load())
    }

    /// How much a model reads of it.
    fn size(&self, session: &Session) -> Size {
        let of = |kept: &Kept| match kept {
            Kept::Copy(ix) => session.tree.node(*ix).size,
            Kept::New(message) => Size::of_message(message),
        };
        let summary = self.summary.as_ref().map(|text| Message::text(Role::User, text.as_str()));
        summary.map_or(Size::ZERO, |summary| crate::engine::prompt::size_of_summary(&summary)) + self.messages.iter().map(of).sum()
    }
}

/// Writes the epoch and what follows it. Nothing at the empty path.
pub(in crate::engine) fn replace(writer: &mut Writer<'_>, turn: &Turn, call_id: Option<CallId>, with: Replacement, background: bool) {
    let session = writer.session();
    let Some(base) = session.head else { return };
    let no_gain = !with.gains(writer, turn);
    let path = path(session);
    let tail = tail(session, &path, &with.messages);
    let news = news(writer, session, &path, base, tail, with);
    writer.start_over();
    let epoch = news.first().map(|new| new.id.clone());
    for new in news {
        let parent = writer.parent.clone();
        writer.node(MessageNew { parent, ..new });
    }
    let Some(node_id) = epoch else { return };
    let tokens = writer.load().tokens(writer.agent(&turn.agent_id), &turn.client);
    let epoch = session.tree.epoch(Some(base)) + 1;
    writer.push(Body::ContextReplaced(ContextReplaced { turn_id: turn.id.clone(), call_id, node_id, epoch, tokens, no_gain, background }));
}

/// The longest end of the path that the messages repeat unbroken: where it begins on the path, and among the messages.
fn tail(session: &Session, path: &[Ix], messages: &[Kept]) -> (usize, usize) {
    let (mut on_path, mut among) = (path.len(), messages.len());
    for (at, &ix) in path.iter().enumerate().rev() {
        match session.tree.node(ix).kind {
            NodeKind::Custom => {}
            NodeKind::Epoch => break,
            NodeKind::Message => match among.checked_sub(1).map(|last| &messages[last]) {
                Some(Kept::Copy(kept)) if *kept == ix => {
                    among -= 1;
                    on_path = at;
                }
                Some(Kept::Copy(_) | Kept::New(_)) | None => break,
            },
        }
    }
    (on_path, among)
}

fn news(writer: &mut Writer<'_>, session: &Session, path: &[Ix], base: Ix, tail: (usize, usize), with: Replacement) -> Vec<MessageNew> {
    let tree = &session.tree;
    let (on_path, among) = tail;
    let to = on_path.checked_sub(1).map(|at| tree.id(path[at]));
    let summary = with.summary.map_or(Message::empty(Role::User), |text| Message::text(Role::User, text));
    let epoch = MessageNew {
        kind: NodeKind::Epoch,
        base: Some(tree.id(base)),
        reads_as: Some(to.clone()),
        ..MessageNew::plain(writer.fresh().into(), None, summary)
    };
    let mut news = vec![epoch];
    for (n, kept) in with.messages.into_iter().enumerate() {
        let id = NodeId::from(writer.fresh());
        news.push(match kept {
            Kept::New(message) => MessageNew { hidden: true, reads_as: Some(to.clone()), ..MessageNew::plain(id, None, *message) },
            Kept::Copy(ix) => {
                let reads_as = if n < among { to.clone() } else { Some(tree.id(with_customs(session, path, ix))) };
                MessageNew { reads_as: Some(reads_as), ..MessageNew::copy(id, None, tree.id(tree.node(ix).original), None) }
            }
        });
    }
    if let Some(last) = news.last_mut() {
        last.reads_as = Some(Some(tree.id(base)));
    }
    news
}

/// A node of the path; of a finished reply the last one of the custom nodes after it.
fn with_customs(session: &Session, path: &[Ix], ix: Ix) -> Ix {
    let node = session.tree.node(ix);
    let Some(at) = path.iter().rposition(|&on_path| on_path == ix).filter(|_| node.role == Role::Assistant && !node.partial) else {
        return ix;
    };
    let customs = path[at + 1..].iter().take_while(|&&ix| session.tree.node(ix).kind == NodeKind::Custom);
    customs.last().copied().unwrap_or(ix)
}
