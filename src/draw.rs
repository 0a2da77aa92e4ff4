//! A tree as text: one line a node, children indented below their parent, the head marked. Over protocol nodes, so that tests and
//! the command line draw the same. May not know the engine.

use std::fmt::Write as _;

use crate::ids::NodeId;
use crate::protocol::{NodeKind, Role, TreeNode};

/// How much of a message a line shows, in characters.
const TEXT_MAX: usize = 60;

/// Draws `nodes` (parents before children). A branch point indents its children; a chain stays in its column.
///
/// ```text
/// u1 user: hello
/// a1 assistant: hi
/// ├─ u2 user: more
/// └─ e1 user: less  <- head
/// ```
pub fn draw(nodes: &[TreeNode], head: Option<&NodeId>) -> String {
    let mut out = String::new();
    let roots = children(nodes, None);
    if head.is_none() {
        out.push_str("(empty path)  <- head\n");
    }
    below(nodes, &roots, head, "", &mut out);
    out
}

fn children<'a>(nodes: &'a [TreeNode], parent: Option<&NodeId>) -> Vec<&'a TreeNode> {
    nodes.iter().filter(|node| node.parent_id.as_ref() == parent).collect()
}

fn below(nodes: &[TreeNode], level: &[&TreeNode], head: Option<&NodeId>, indent: &str, out: &mut String) {
    let branching = level.len() > 1;
    for (n, node) in level.iter().enumerate() {
        let last = n + 1 == level.len();
        let (mark, deeper) = match (branching, last) {
            (false, _) => ("", ""),
            (true, false) => ("├─ ", "│  "),
            (true, true) => ("└─ ", "   "),
        };
        let _ = writeln!(out, "{indent}{mark}{}{}", line(node), if head == Some(&node.id) { "  <- head" } else { "" });
        below(nodes, &children(nodes, Some(&node.id)), head, &format!("{indent}{deeper}"), out);
    }
}

fn line(node: &TreeNode) -> String {
    let role = match (node.kind, node.message.role) {
        (NodeKind::Epoch, _) => "epoch",
        (NodeKind::Custom, _) => "custom",
        (NodeKind::Message, Role::User) => "user",
        (NodeKind::Message, Role::Assistant) => "assistant",
        (NodeKind::Message, Role::Tool) => "tool",
        (NodeKind::Message, Role::System | Role::Developer | Role::Reasoning | Role::Activity) => "other",
    };
    let text: String = node.message.joined_text().replace('\n', " ").chars().take(TEXT_MAX).collect();
    let calls: String = node.message.tool_calls.iter().map(|call| format!(" [{} {}]", call.id, call.function.name)).collect();
    let copy = node.copied_from.as_ref().map(|id| format!(" (copy of {id})")).unwrap_or_default();
    format!("{} {role}{copy}{}: {text}{calls}", node.id, if node.partial { " (partial)" } else { "" }).trim_end().to_owned()
}
