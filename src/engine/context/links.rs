//! The links of epochs: each one names the head that it replaced and the last node that it stands for, so that the originals are
//! found again through every round.

use crate::engine::reading::Ix;
use crate::engine::tree::Tree;
use crate::protocol::NodeKind;

/// One step back from a shorter history to what it was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The epoch's node.
    pub epoch: Ix,
    /// The head that it replaced.
    pub base: Option<Ix>,
    /// The last node that it stands for, on the way to `base`.
    pub to: Option<Ix>,
}

/// The links that lead from a node back to the history that was never shortened, the newest first.
pub fn links(tree: &Tree, at: Option<Ix>) -> Vec<Link> {
    let mut links = Vec::new();
    let mut at = at;
    while let Some(link) = link(tree, at) {
        links.push(link);
        at = link.to;
    }
    links
}

/// The original messages that the path to a node stands for, through all of its epochs, first to last. What is told to models alone is
/// among them.
pub fn originals(tree: &Tree, at: Option<Ix>) -> Vec<Ix> {
    let ends = std::iter::once(at).chain(links(tree, at).into_iter().map(|link| link.to));
    let mut originals: Vec<Ix> =
        ends.flat_map(|end| tree.up(end)).filter(|&ix| tree.node(ix).kind == NodeKind::Message).map(|ix| tree.node(ix).original).collect();
    originals.reverse();
    // A message that was kept apart from its place stands for itself twice.
    let mut seen = std::collections::HashSet::new();
    originals.retain(|&ix| seen.insert(ix));
    originals
}

/// The link of the epoch that a path begins with.
fn link(tree: &Tree, at: Option<Ix>) -> Option<Link> {
    let epoch = tree.root(at?);
    let is_epoch = tree.node(epoch).kind == NodeKind::Epoch;
    is_epoch.then(|| Link { epoch, base: tree.base(epoch), to: tree.reads_as(epoch).flatten() })
}
