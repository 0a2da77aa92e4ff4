//! A session's tree as a person walks it: messages have numbers, in the order in which they were recorded; branches are lists. Makes the
//! views that a front end would submit. May not know how a tree is read or a view is sent.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::cli::tree::Whole;
use crate::draw::{draw_within, in_one_line};
use crate::ids::NodeId;
use crate::protocol::{NodeKind, Role, TreeNode};

/// So many characters of a message are shown in a list.
const LINE_MAX: usize = 60;
/// The most places that a list of branches shows, and the most branches of one place.
const BRANCHES_MAX: usize = 20;
/// What a drawing has beside a message's text, more or less, and the least that it shows of it.
const BESIDE_TEXT: usize = 32;
const TEXT_MIN: usize = 12;
/// The most lines of a drawing.
const DRAWING_MAX: usize = 500;

/// A whole tree with its path.
#[derive(Debug)]
pub struct Conversation {
    tree: Whole,
    places: HashMap<NodeId, usize>,
}

impl Conversation {
    /// Of a tree that was read.
    pub fn new(tree: Whole) -> Self {
        let places = tree.nodes.iter().enumerate().map(|(place, node)| (node.id.clone(), place)).collect();
        Self { tree, places }
    }

    /// The node that a person means: a number, an id, or a label.
    pub fn find(&self, name: &str) -> Option<&TreeNode> {
        let name = name.trim();
        let numbered = name.strip_prefix('#').unwrap_or(name).parse::<usize>().ok();
        let by_number = numbered.and_then(|number| self.tree.nodes.get(number.checked_sub(1)?));
        let by_label = || self.tree.nodes.iter().find(|node| node.labels.iter().any(|label| label == name));
        self.places.get(name).map(|&place| &self.tree.nodes[place]).or(by_number).or_else(by_label)
    }

    /// A node's number.
    pub fn number(&self, id: &NodeId) -> Option<usize> {
        self.places.get(id).map(|place| place + 1)
    }

    /// From the root to `id`.
    fn path(&self, id: Option<&NodeId>) -> Vec<&TreeNode> {
        let node = |id: &NodeId| self.places.get(id).map(|&place| &self.tree.nodes[place]);
        let mut path: Vec<&TreeNode> = std::iter::successors(id.and_then(node), |at| at.parent_id.as_ref().and_then(node)).collect();
        path.reverse();
        path
    }

    /// The last message of the person's on the way to the head.
    pub fn last_own(&self) -> Option<&TreeNode> {
        self.path(self.tree.head.as_ref()).into_iter().rfind(|node| is_own(node))
    }

    /// The messages of the person's on the way to the head.
    pub fn own(&self) -> impl Iterator<Item = String> {
        self.path(self.tree.head.as_ref()).into_iter().filter(|node| is_own(node)).map(|node| node.message.joined_text())
    }

    /// Where the conversation stands.
    pub fn head(&self) -> Option<&TreeNode> {
        self.path(self.tree.head.as_ref()).pop()
    }

    /// The view with `text` under the id `id` in place of `node`.
    pub fn edited(&self, node: &TreeNode, id: &NodeId, text: &str) -> Vec<Value> {
        let mut view = self.view(node.parent_id.as_ref());
        view.push(json!({ "id": id, "role": "user", "content": text }));
        view
    }

    /// The view without its last reply; nothing when there is no message to be answered.
    pub fn without_reply(&self) -> Option<Vec<Value>> {
        let mut path = self.path(self.tree.head.as_ref());
        while path.last().is_some_and(|node| node.kind != NodeKind::Message || node.message.role == Role::Assistant) {
            path.pop();
        }
        path.last().map(|node| self.view(Some(&node.id)))
    }

    /// The view of the branch with `node`: up to its newest end.
    pub fn branch(&self, node: &TreeNode) -> Vec<Value> {
        self.view(Some(&self.newest_below(node).id))
    }

    fn newest_below<'a>(&'a self, node: &'a TreeNode) -> &'a TreeNode {
        let mut below = vec![false; self.tree.nodes.len()];
        let start = self.places[&node.id];
        below[start] = true;
        let mut newest = node;
        for (place, later) in self.tree.nodes.iter().enumerate().skip(start + 1) {
            below[place] = later.parent_id.as_ref().and_then(|parent| self.places.get(parent)).is_some_and(|&parent| below[parent]);
            if below[place] {
                newest = later;
            }
        }
        newest
    }

    fn view(&self, end: Option<&NodeId>) -> Vec<Value> {
        let message = |node: &&TreeNode| {
            let mut message = serde_json::to_value(&*node.message).ok()?;
            message["id"] = json!(node.id);
            Some(message)
        };
        self.path(end).iter().filter_map(message).collect()
    }

    /// The drawing, with numbers for ids, for a terminal with so many columns.
    pub fn drawn(&self, columns: usize) -> Option<String> {
        if self.tree.nodes.is_empty() {
            return None;
        }
        let number = |id: &NodeId| self.number(id).map_or_else(|| id.clone(), |number| NodeId::from(number.to_string()));
        let nodes: Vec<TreeNode> = (self.tree.nodes.iter())
            .map(|node| TreeNode {
                id: number(&node.id),
                parent_id: node.parent_id.as_ref().map(number),
                copied_from: node.copied_from.as_ref().map(number),
                ..node.clone()
            })
            .collect();
        let drawing = draw_within(
            &nodes,
            self.tree.head.as_ref().map(number).as_ref(),
            columns.saturating_sub(BESIDE_TEXT).clamp(TEXT_MIN, LINE_MAX),
        );
        let lines: Vec<&str> = drawing.lines().collect();
        Some(match lines.len().checked_sub(DRAWING_MAX) {
            None | Some(0) => lines.join("\n"),
            Some(left_out) => format!("({left_out} lines before)\n{}", lines[left_out..].join("\n")),
        })
    }

    /// The places along the path where branches begin, and which one is taken.
    pub fn branches(&self) -> String {
        let path = self.path(self.tree.head.as_ref());
        let mut children: HashMap<Option<&NodeId>, Vec<&TreeNode>> = HashMap::new();
        for node in &self.tree.nodes {
            children.entry(node.parent_id.as_ref()).or_default().push(node);
        }
        let starts = std::iter::once(None).chain(path.iter().map(|node| Some(&node.id)));
        let mut places: Vec<String> = Vec::new();
        for (start, taken) in starts.zip(path.iter().map(Some).chain([None])) {
            let branches = children.get(&start).map_or(&[][..], Vec::as_slice);
            if branches.len() > 1 || (taken.is_none() && !branches.is_empty()) {
                places.push(self.place(start, branches, taken.copied()));
            }
        }
        if places.is_empty() {
            return "There are no branches here; /edit and /regenerate make one.".to_owned();
        }
        let skipped = places.len().saturating_sub(BRANCHES_MAX);
        places[skipped..].concat().trim_end().to_owned()
    }

    fn place(&self, start: Option<&NodeId>, branches: &[&TreeNode], taken: Option<&TreeNode>) -> String {
        let number = |id: &NodeId| self.number(id).unwrap_or_default();
        let mut text = start.map_or_else(|| "At the start:\n".to_owned(), |id| format!("After {}:\n", number(id)));
        let skipped = branches.len().saturating_sub(BRANCHES_MAX);
        for branch in &branches[skipped..] {
            let mark = if taken.is_some_and(|taken| taken.id == branch.id) { '*' } else { ' ' };
            let _ = writeln!(text, "{mark} {} {}", number(&branch.id), summary(branch));
        }
        text
    }
}

fn is_own(node: &TreeNode) -> bool {
    node.kind == NodeKind::Message && node.message.role == Role::User
}

/// A message in a line: who, and how it begins.
pub fn summary(node: &TreeNode) -> String {
    let role = match (node.kind, node.message.role) {
        (NodeKind::Message, Role::User) => "user",
        (NodeKind::Message, Role::Assistant) => "assistant",
        (NodeKind::Message, Role::Tool) => "tool",
        (NodeKind::Message, Role::System | Role::Developer | Role::Reasoning | Role::Activity)
        | (NodeKind::Epoch | NodeKind::Custom, _) => "other",
    };
    let text = node.message.joined_text();
    let line = in_one_line(text.trim());
    match line.char_indices().nth(LINE_MAX) {
        Some((end, _)) => format!("{role}: {}…", &line[..end]),
        None => format!("{role}: {line}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::protocol::Message;

    fn node(id: &str, parent: Option<&str>, role: Role) -> TreeNode {
        TreeNode {
            id: id.into(),
            parent_id: parent.map(NodeId::from),
            kind: NodeKind::Message,
            message: Arc::new(Message::text(role, format!("text of {id}"))),
            source: None,
            created_at: 0,
            partial: false,
            copied_from: None,
            hidden: false,
            epoch: None,
            base_id: None,
            reads_as: None,
            labels: Vec::new(),
        }
    }

    /// Two replies to `u1`, one of them went on; and an edit of `u1`.
    fn conversation(head: Option<&str>) -> Conversation {
        let nodes = vec![
            node("u1", None, Role::User),
            node("a1", Some("u1"), Role::Assistant),
            node("a2", Some("u1"), Role::Assistant),
            TreeNode { labels: vec!["here".to_owned()], ..node("u2", Some("a1"), Role::User) },
            node("u3", None, Role::User),
            node("a3", Some("u2"), Role::Assistant),
        ];
        Conversation::new(Whole { head: head.map(NodeId::from), nodes })
    }

    fn ids(view: &[Value]) -> Vec<&str> {
        view.iter().map(|message| message["id"].as_str().unwrap()).collect()
    }

    #[test]
    fn messages_have_numbers_ids_and_labels() {
        let talk = conversation(Some("a3"));
        let found = |name: &str| talk.find(name).map(|node| node.id.as_str().to_owned());
        assert_eq!(["1", "#6", "here", "u3"].map(found), ["u1", "a3", "u2", "u3"].map(|id| Some(id.to_owned())));
        assert_eq!((found("0"), found("7"), found("there")), (None, None, None));
        assert!(
            talk.drawn(80)
                .unwrap()
                .starts_with("├─ 1 user: text of u1\n│  ├─ 2 assistant: text of a1\n│  │  4 user: text of u2  <- \"here\"\n")
        );
        assert!(talk.drawn(80).unwrap().contains("6 assistant: text of a3  <- head"), "{}", talk.drawn(80).unwrap());
    }

    #[test]
    fn views_are_what_a_front_end_sends() {
        let talk = conversation(Some("a3"));
        let edited = talk.edited(talk.last_own().unwrap(), &"new".into(), "other");
        assert_eq!((ids(&edited), &edited[2]), (vec!["u1", "a1", "new"], &json!({ "id": "new", "role": "user", "content": "other" })));
        assert_eq!(ids(&talk.edited(talk.find("1").unwrap(), &"new".into(), "other")), ["new"]);
        assert_eq!(ids(&talk.without_reply().unwrap()), ["u1", "a1", "u2"]);
        assert_eq!(ids(&talk.branch(talk.find("2").unwrap())), ["u1", "a1", "u2", "a3"]);
        assert_eq!(ids(&talk.branch(talk.find("1").unwrap())), ["u1", "a1", "u2", "a3"]);
        assert_eq!(ids(&talk.branch(talk.find("a2").unwrap())), ["u1", "a2"]);
        assert_eq!(conversation(None).without_reply(), None);
        assert_eq!(talk.own().collect::<Vec<_>>(), ["text of u1", "text of u2"]);
    }

    #[test]
    fn branches_are_listed_where_they_begin() {
        let expected =
            "At the start:\n* 1 user: text of u1\n  5 user: text of u3\nAfter 1:\n* 2 assistant: text of a1\n  3 assistant: text of a2";
        assert_eq!(conversation(Some("a3")).branches(), expected);
        let rewound =
            "At the start:\n* 1 user: text of u1\n  5 user: text of u3\nAfter 1:\n  2 assistant: text of a1\n  3 assistant: text of a2";
        assert_eq!(conversation(Some("u1")).branches(), rewound);
        assert_eq!(Conversation::new(Whole::default()).branches(), "There are no branches here; /edit and /regenerate make one.");
    }
}
