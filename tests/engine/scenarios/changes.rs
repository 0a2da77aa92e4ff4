//! The steps of scenarios that change a session other than by what is said in it.

use headwater::engine;
use headwater::ids::{NodeId, TurnId};
use headwater::protocol::{HeadMove, HeadTo, SessionUpdate};

use super::Play;

impl Play {
    pub(super) fn head(&mut self, rest: &[&str]) {
        let to = match rest[0] {
            "-" => HeadTo::Node(None),
            "stay" => HeadTo::Stay,
            name => match name.strip_prefix("to:") {
                Some(label) => HeadTo::Label(label.to_owned()),
                None => HeadTo::Node(Some(self.id(name))),
            },
        };
        let label = rest.get(1).map(|word| word.strip_prefix("as:").expect("as:LABEL").to_owned());
        match self.talk.move_head(&HeadMove { to, label }) {
            Err(refusal) => self.refused(&refusal),
            Ok((records, answer)) => {
                let cancelled: Vec<&str> = answer.cancelled.iter().map(TurnId::as_str).collect();
                let cancelled = if cancelled.is_empty() { String::new() } else { format!(", cancelled {}", cancelled.join(" ")) };
                let suspended = answer.suspended.map_or(String::new(), |turn| format!(", suspended {turn}"));
                let open: Vec<&str> = answer.interrupts.iter().map(|open| open.id.as_str()).collect();
                let open = if open.is_empty() { String::new() } else { format!(", pauses for {}", open.join(" ")) };
                let text = self.short(&format!("head {}{cancelled}{suspended}{open}", answer.head_id.as_ref().map_or("-", NodeId::as_str)));
                self.line(&text);
                self.wrote(&records);
            }
        }
    }

    pub(super) fn update(&mut self, rest: &[&str]) {
        let mut asked = SessionUpdate::default();
        for &word in rest {
            match word.split_once(':').unwrap_or((word, "")) {
                ("title", title) => asked.title = Some(Some(title.to_owned())),
                ("untitled", _) => asked.title = Some(None),
                ("archived", _) => asked.archived = Some(true),
                ("unarchived", _) => asked.archived = Some(false),
                _ => panic!("unknown change {word}"),
            }
        }
        match self.talk.update(&asked) {
            Err(refusal) => self.refused(&refusal),
            Ok(records) => self.wrote(&records),
        }
    }

    /// Goes on in a fork. Its nodes are called as their sources with a `~`.
    pub(super) fn fork(&mut self, at: Option<&str>) {
        let at = at.map(|name| self.id(name));
        let carried = engine::fork_nodes(&self.talk.session, at.as_ref());
        let (fork, records) = match self.talk.fork(at.as_ref()) {
            Ok(forked) => forked,
            Err(refusal) => return self.refused(&refusal),
        };
        let tree = &self.talk.session.tree;
        let names: Vec<_> = carried.unwrap().into_iter().map(|ix| (tree.id(ix), tree.node(ix).role)).collect();
        for (ix, (source, role)) in (0..).zip(names) {
            let short = self.shorts.get(&source).cloned().unwrap_or_else(|| source.to_string());
            self.call_it(&format!("{short}~"), fork.session.tree.id(ix), role);
        }
        self.source = Some(std::mem::replace(&mut self.talk, fork));
        self.wrote(&records);
    }
}
