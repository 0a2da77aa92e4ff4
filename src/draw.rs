//! A tree as text: one line a node, children indented below their parent, the head marked. Over protocol nodes, so that tests and
//! the command line draw the same. May not know the engine.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::ids::NodeId;
use crate::protocol::{NodeKind, Role, TreeNode};

/// How much of a message a line shows, in characters.
const TEXT_MAX: usize = 60;

/// A node that is still to be drawn.
struct Due<'a> {
    node: &'a TreeNode,
    /// What stands before it, and before what is below it.
    mark: &'static str,
    deeper: &'static str,
    indent: usize,
}

/// Draws `nodes` (parents before children). A branch point indents its children; a chain stays in its column.
///
/// ```text
/// u1 user: hello
/// a1 assistant: hi
/// ├─ u2 user: more
/// └─ e1 user: less  <- head
/// ```
pub fn draw(nodes: &[TreeNode], head: Option<&NodeId>) -> String {
    let mut children: HashMap<Option<&NodeId>, Vec<&TreeNode>> = HashMap::new();
    for node in nodes {
        children.entry(node.parent_id.as_ref()).or_default().push(node);
    }
    let mut out = String::new();
    if head.is_none() {
        out.push_str("(empty path)  <- head\n");
    }
    // The indent of the node that is drawn; those of its ancestors are the beginnings of it.
    let mut indent = String::new();
    let mut due: Vec<Due<'_>> = Vec::new();
    add(&mut due, children.get(&None), 0);
    while let Some(Due { node, mark, deeper, indent: before }) = due.pop() {
        indent.truncate(before);
        let head = if head == Some(&node.id) { "  <- head" } else { "" };
        let _ = writeln!(out, "{indent}{mark}{}{head}", line(node));
        indent.push_str(deeper);
        add(&mut due, children.get(&Some(&node.id)), indent.len());
    }
    out
}

/// Adds a level, so that its first node is drawn next.
fn add<'a>(due: &mut Vec<Due<'a>>, level: Option<&Vec<&'a TreeNode>>, indent: usize) {
    let level = level.map_or(&[][..], Vec::as_slice);
    let branching = level.len() > 1;
    for (n, &node) in level.iter().enumerate().rev() {
        let (mark, deeper) = match (branching, n + 1 == level.len()) {
            (false, _) => ("", ""),
            (true, false) => ("├─ ", "│  "),
            (true, true) => ("└─ ", "   "),
        };
        due.push(Due { node, mark, deeper, indent });
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
    let copy = node.copied_from.as_ref().map(|id| format!(" (copy of {id})")).unwrap_or_default();
    let mut line = format!("{} {role}{copy}{}: {text}", node.id, if node.partial { " (partial)" } else { "" });
    for call in &node.message.tool_calls {
        let _ = write!(line, " [{} {}]", call.id, call.function.name);
    }
    line.truncate(line.trim_end().len());
    line
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::protocol::Message;

    fn node(id: &str, parent: Option<&str>) -> TreeNode {
        TreeNode {
            id: id.into(),
            parent_id: parent.map(NodeId::from),
            kind: NodeKind::Message,
            message: Arc::new(Message::text(Role::User, "x")),
            created_at: 0,
            partial: false,
            copied_from: None,
        }
    }

    #[test]
    fn indents_where_it_branches() {
        let nodes = [node("a", None), node("b", Some("a")), node("c", Some("a")), node("d", Some("b")), node("e", Some("b"))];
        let drawing = "a user: x\n├─ b user: x\n│  ├─ d user: x\n│  └─ e user: x\n└─ c user: x  <- head\n";
        assert_eq!(draw(&nodes, Some(&"c".into())), drawing);
    }

    #[test]
    fn draws_deep_trees() {
        let ids: Vec<String> = (0..100_000).map(|n| n.to_string()).collect();
        let parents = std::iter::once(None).chain(ids.iter().map(|id| Some(id.as_str())));
        let nodes: Vec<TreeNode> = ids.iter().zip(parents).map(|(id, parent)| node(id, parent)).collect();
        assert_eq!(draw(&nodes, None).lines().count(), 100_001);
    }
}
