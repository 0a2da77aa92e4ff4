//! A tree as text: one line a node, children indented below their parent, the head marked. Over protocol nodes, so that tests and
//! the command line draw the same. Also: text of others made fit for a terminal. May not know the engine.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::ids::NodeId;
use crate::protocol::{
    Arriving, BackgroundJob, Interrupt, LimitReason, Message, NodeKind, QueuedTurn, Role, SessionPage, Source, SuspendedTurn, TreeNode,
};

/// How much of a message a line shows, in characters.
const TEXT_MAX: usize = 60;

/// `text` with what a terminal would obey instead of show (control characters, marks that turn the reading direction) in its escaped
/// form, as `\u{1b}`. Line feeds and tabs stay.
pub fn printable(text: &str) -> Cow<'_, str> {
    let obeyed = |c: char| (c.is_control() && c != '\n' && c != '\t') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if !text.contains(obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if obeyed(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// [`printable`], in one line.
pub fn in_one_line(text: &str) -> Cow<'_, str> {
    let text = printable(text);
    if text.contains(['\n', '\t']) { Cow::Owned(text.replace(['\n', '\t'], " ")) } else { text }
}

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
    draw_within(nodes, head, TEXT_MAX)
}

/// [`draw`] with at most so many characters of each message.
pub fn draw_within(nodes: &[TreeNode], head: Option<&NodeId>, text_max: usize) -> String {
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
        let _ = writeln!(out, "{indent}{mark}{}{head}", line(node, text_max));
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

/// What somebody is asked.
fn asks(interrupts: &[Interrupt]) -> String {
    let asks = |open: &Interrupt| in_one_line(open.message.as_deref().unwrap_or(&open.reason)).into_owned();
    interrupts.iter().map(asks).collect::<Vec<_>>().join("; ")
}

/// What a session does and what waits there, a line each: the turn that runs, the call that waits for room, the summary that is
/// written meanwhile, what waits for the next call, the turns that wait. Nothing of one at rest.
pub fn draw_waiting(page: &SessionPage) -> String {
    let mut lines = Vec::new();
    if let Some(turn) = &page.running_turn {
        let (id, agent) = (&turn.turn_id, &page.agent_id);
        lines.push(match page.open_calls.iter().map(|call| format!("{} {}", call.id, call.name)).collect::<Vec<_>>() {
            _ if !page.interrupts.is_empty() => format!("turn {id} of {agent} pauses: {}", asks(&page.interrupts)),
            calls if calls.is_empty() => format!("turn {id} of {agent} is running"),
            calls => format!("turn {id} of {agent} is waiting for the results of {}", calls.join(", ")),
        });
    }
    for SuspendedTurn { turn_id, node_id, interrupts } in &page.suspended {
        let at = node_id.as_ref().map_or("the beginning", NodeId::as_str);
        lines.push(format!("turn {turn_id} pauses at {at}: {}", asks(interrupts)));
    }
    if let Some(held) = &page.held_call {
        let reason = match held.reason {
            LimitReason::Idle => "there was a pause",
            LimitReason::Full => "the context window is full",
            LimitReason::Overflow => "the provider found it too long",
        };
        let strategy = held.strategy.as_ref().map(|strategy| format!(" ({strategy})")).unwrap_or_default();
        lines.push(format!("call {} waits for room: {reason}, {} tokens{strategy}", held.call_id, held.tokens));
    }
    if let Some(BackgroundJob { job_id, strategy, attempt, written, .. }) = &page.job {
        let how = if *written { "is written, for the next call".to_owned() } else { format!("is being written, attempt {attempt}") };
        lines.push(format!("summary {job_id} {how} ({strategy}, in the background)"));
    }
    for Arriving { turn_id, joins, messages, .. } in &page.arrivals {
        let what = joins.as_ref().map_or_else(|| format!("event {turn_id}"), |turn| format!("message {turn_id} to turn {turn}"));
        lines.push(format!("{what} waits for the next call{}", brought(messages)));
    }
    for QueuedTurn { turn_id, position, agent_id, messages, .. } in &page.queue {
        lines.push(format!("turn {turn_id} of {agent_id} waits, place {position}{}", brought(messages)));
    }
    lines.iter().fold(String::new(), |drawn, line| drawn + &in_one_line(line) + "\n")
}

/// The messages that something brings, as the end of its line.
fn brought(messages: &[Arc<Message>]) -> String {
    messages.iter().fold(String::new(), |mut out, message| {
        let name = message.id.as_ref().map(|id| format!("{id}: ")).unwrap_or_default();
        let text: String = message.joined_text().chars().take(TEXT_MAX).collect();
        let _ = write!(out, "; {name}{text}");
        out
    })
}

fn line(node: &TreeNode, text_max: usize) -> String {
    if let Some(number) = node.epoch {
        return epoch(node, number, text_max);
    }
    let role = match (node.kind, node.message.role) {
        (NodeKind::Epoch, _) => "epoch",
        (NodeKind::Custom, _) => "custom",
        (NodeKind::Message, _) if node.source == Some(Source::Event) => "event",
        (NodeKind::Message, Role::User) => "user",
        (NodeKind::Message, Role::Assistant) => "assistant",
        (NodeKind::Message, Role::Tool) => "tool",
        (NodeKind::Message, Role::System | Role::Developer | Role::Reasoning | Role::Activity) => "other",
    };
    let text: String = node.message.joined_text().chars().take(text_max).collect();
    let copy = node.copied_from.as_ref().map(|id| format!(" (copy of {id})")).unwrap_or_default();
    let partial = if node.partial { " (partial)" } else { "" };
    let hidden = if node.hidden { " (hidden)" } else { "" };
    let mut line = format!("{} {role}{copy}{partial}{hidden}: {text}", node.id);
    for call in &node.message.tool_calls {
        let _ = write!(line, " [{} {}]", call.id, call.function.name);
    }
    line.truncate(line.trim_end().len());
    for label in &node.labels {
        let _ = write!(line, "  <- {label:?}");
    }
    in_one_line(&line).into_owned()
}

/// Where a shorter history begins: what it stands for, what it replaced, and the summary, when there is one.
fn epoch(node: &TreeNode, number: u32, text_max: usize) -> String {
    let end = match &node.reads_as {
        Some(Some(last)) => format!(" (instead of all up to {last})"),
        Some(None) | None => " (instead of nothing)".to_owned(),
    };
    let base = node.base_id.as_ref().map(|base| format!(" (replaced {base})")).unwrap_or_default();
    let text: String = node.message.joined_text().chars().take(text_max).collect();
    in_one_line(format!("{} epoch {number}{end}{base}: {text}", node.id).trim_end()).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(id: &str, parent: Option<&str>) -> TreeNode {
        TreeNode {
            id: id.into(),
            parent_id: parent.map(NodeId::from),
            kind: NodeKind::Message,
            message: Arc::new(Message::text(Role::User, "x")),
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

    #[test]
    fn indents_where_it_branches() {
        let nodes = [node("a", None), node("b", Some("a")), node("c", Some("a")), node("d", Some("b")), node("e", Some("b"))];
        let drawing = "a user: x\n├─ b user: x\n│  ├─ d user: x\n│  └─ e user: x\n└─ c user: x  <- head\n";
        assert_eq!(draw(&nodes, Some(&"c".into())), drawing);
    }

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        assert_eq!(printable("plain ä\n\ttext"), "plain ä\n\ttext");
        assert_eq!(printable("\u{1b}[31mred\r\u{9b}2J\u{7f}\u{202e}"), "\\u{1b}[31mred\\u{d}\\u{9b}2J\\u{7f}\\u{202e}");
        let mut evil = node("a\nb user: forged", None);
        evil.message = Arc::new(Message::text(Role::User, "one\n\u{1b}]0;two\u{7}"));
        assert_eq!(draw(&[evil], None), "(empty path)  <- head\na b user: forged user: one \\u{1b}]0;two\\u{7}\n");
    }

    #[test]
    fn names_nodes_and_says_what_is_hidden() {
        let (labelled, hidden) = (node("a", None), node("b", Some("a")));
        let event = TreeNode { source: Some(Source::Event), ..node("c", Some("b")) };
        let nodes = [TreeNode { labels: vec!["start".to_owned()], ..labelled }, TreeNode { hidden: true, ..hidden }, event];
        assert_eq!(draw(&nodes, Some(&"b".into())), "a user: x  <- \"start\"\nb user (hidden): x  <- head\nc event: x\n");
    }

    #[test]
    fn says_what_waits() {
        let page = json!({
            "session_id": "s", "agent_id": "bot", "title": null, "status": "running", "head_id": "u1", "archived": false,
            "interrupts": [], "messages": [], "running_turn": { "turn_id": "t1", "started_at": 0 },
            "held_call": { "call_id": "c1", "reason": "full", "strategy": "summarize", "tokens": 186_400 },
            "job": { "job_id": "j1", "turn_id": "t1", "strategy": "summarize", "attempt": 2 },
            "arrivals": [
                { "turn_id": "t2", "joins": "t1", "agent_id": "bot", "queued_at": 0, "messages": [{ "id": "u2", "role": "user", "content": "stop\nthat" }] },
                { "turn_id": "t3", "agent_id": "bot", "queued_at": 0, "messages": [] },
            ],
            "queue": [{ "turn_id": "t4", "position": 1, "agent_id": "critic", "queued_at": 0, "messages": [{ "id": "u4", "role": "user", "content": "and then?" }] }],
        });
        let mut page: SessionPage = serde_json::from_value(page).unwrap();
        let drawn = "turn t1 of bot is running\n\
            call c1 waits for room: the context window is full, 186400 tokens (summarize)\n\
            summary j1 is being written, attempt 2 (summarize, in the background)\n\
            message t2 to turn t1 waits for the next call; u2: stop that\n\
            event t3 waits for the next call\n\
            turn t4 of critic waits, place 1; u4: and then?\n";
        assert_eq!(draw_waiting(&page), drawn);
        page.open_calls = vec![serde_json::from_value(json!({ "id": "call_1", "name": "weather" })).unwrap()];
        (page.held_call, page.arrivals, page.queue) = (None, Vec::new(), Vec::new());
        page.job.as_mut().unwrap().written = true;
        let drawn = "turn t1 of bot is waiting for the results of call_1 weather\n\
            summary j1 is written, for the next call (summarize, in the background)\n";
        assert_eq!(draw_waiting(&page), drawn);
        let ask = |json| -> Interrupt { serde_json::from_value(json).unwrap() };
        page.interrupts =
            vec![ask(json!({ "id": "i1", "reason": "approval", "message": "Shall\nI?" })), ask(json!({ "id": "i2", "reason": "confirm" }))];
        page.job = None;
        assert_eq!(draw_waiting(&page), "turn t1 of bot pauses: Shall I?; confirm\n");
        let interrupts = std::mem::take(&mut page.interrupts);
        page.suspended = vec![SuspendedTurn { turn_id: "t0".into(), node_id: Some("u1".into()), interrupts }];
        (page.running_turn, page.open_calls) = (None, Vec::new());
        assert_eq!(draw_waiting(&page), "turn t0 pauses at u1: Shall I?; confirm\n");
        page.suspended.clear();
        assert_eq!(draw_waiting(&page), "");
    }

    #[test]
    fn draws_deep_trees() {
        let ids: Vec<String> = (0..100_000).map(|n| n.to_string()).collect();
        let parents = std::iter::once(None).chain(ids.iter().map(|id| Some(id.as_str())));
        let nodes: Vec<TreeNode> = ids.iter().zip(parents).map(|(id, parent)| node(id, parent)).collect();
        assert_eq!(draw(&nodes, None).lines().count(), 100_001);
    }
}
