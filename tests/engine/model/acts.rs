//! What happens: inputs, the model's outcomes, stops, moves of the head, forks, crashes.

use headwater::protocol::{CallErrorKind, HeadMove, HeadTo, Role, ToolCall};

use super::rules::Phase;
use super::tree::Said;
use super::world::World;

impl World {
    pub fn act(&mut self, what: u8) {
        match what % 32 {
            0..=2 => self.view(),
            3 => self.edit(),
            4 => self.shorter(),
            5 => self.switch(),
            6 => self.view_with_waiting(),
            7 => self.reload(),
            8 | 9 => self.message(),
            10..=12 => self.append(),
            13 | 14 => self.results_in_a_view(),
            15 => self.result(),
            16 => self.again(),
            17 => self.twice(),
            18 => self.lone(),
            19..=23 => self.model(),
            24 => self.cancel(),
            25 => self.cancel_by_name(),
            26 | 27 => self.move_head(),
            28 => self.fork(),
            29 | 30 => self.crash(),
            _ => self.keeps_calling(),
        }
    }

    /// The model does something.
    fn model(&mut self) {
        match self.reference.turn.as_ref().map(|turn| turn.phase) {
            None => self.view(),
            Some(Phase::Waiting) => self.results_in_a_view(),
            Some(Phase::Pausing) => {
                self.tell(|| "the pause is over".to_owned());
                let records = self.talk.wake();
                self.reference.wake();
                self.learn(&records);
            }
            Some(Phase::Asking) => match self.number(6) {
                0 => self.fail(),
                1 => self.says_nothing(),
                _ => self.finish(),
            },
        }
    }

    /// The model calls and calls, tools that nobody has, until it is stopped.
    fn keeps_calling(&mut self) {
        for _ in 0..self.number(6) {
            if self.reference.turn.as_ref().is_none_or(|turn| turn.phase != Phase::Asking) {
                return;
            }
            let (text, call) = (self.fresh("a"), self.fresh("call"));
            self.tell(|| format!("the model says {text}, calls {call} of nobody"));
            let (_, records) = self.talk.finish(&text, vec![ToolCall::new(call.as_str().into(), "nothing", "{}")]);
            self.reference.finish(Said { calls: vec![call], ..Said::new(Role::Assistant, &text) }, &[true]);
            self.learn(&records);
            self.same();
        }
    }

    fn fail(&mut self) {
        let kind = [CallErrorKind::Cut, CallErrorKind::RateLimited, CallErrorKind::Refused][self.number(3)];
        self.tell(|| format!("the model fails: {kind:?}"));
        let records = self.talk.fail(kind, None);
        self.reference.fail(kind != CallErrorKind::Refused);
        self.learn(&records);
    }

    fn says_nothing(&mut self) {
        self.tell(|| "the model says nothing".to_owned());
        let (_, records) = self.talk.finish("", Vec::new());
        self.reference.fail(false);
        self.learn(&records);
    }

    fn finish(&mut self) {
        let text = self.fresh("a");
        let (mut calls, mut faulty) = (Vec::new(), Vec::new());
        let declared = self.reference.turn.as_ref().is_some_and(|turn| turn.tools == Some(true));
        if self.chance(2) {
            for _ in 0..=self.number(3) {
                let id = self.fresh("call");
                let tool = ["pick", "pick", "nothing"][self.number(3)];
                let arguments = ["{}", "", "[1", "{\"n\":1}", "[1]"][self.number(5)];
                faulty.push(tool == "nothing" || !declared || arguments.starts_with('['));
                calls.push(ToolCall::new(id.as_str().into(), tool, arguments));
            }
        }
        self.tell(|| format!("the model says {text}, calls {calls:?}"));
        let said = Said { calls: calls.iter().map(|call| call.id.to_string()).collect(), ..Said::new(Role::Assistant, &text) };
        let (_, records) = self.talk.finish(&text, calls);
        self.reference.finish(said, &faulty);
        self.learn(&records);
    }

    fn cancel(&mut self) {
        self.tell(|| "cancel".to_owned());
        self.see_a_reply();
        let records = self.talk.cancel(None);
        self.reference.cancel(None);
        self.reference.written = None;
        self.learn(&records);
    }

    fn cancel_by_name(&mut self) {
        let names: Vec<String> = self.reference.turns.keys().cloned().chain(["nobody".to_owned()]).collect();
        let alive: Vec<String> = names
            .iter()
            .filter(|name| self.reference.turns.get(self.reference.turn_of(name)).is_some_and(|known| known.end.is_none()))
            .cloned()
            .collect();
        let name = if self.chance(4) { self.one(&names) } else { self.one(&alive) };
        let Some(name) = name else { return };
        self.tell(|| format!("cancel {name}"));
        self.see_a_reply();
        let records = self.talk.cancel(Some(&name.as_str().into()));
        self.reference.cancel(Some(&name));
        self.reference.written = None;
        self.learn(&records);
    }

    fn move_head(&mut self) {
        let nodes = self.reference.tree.nodes.len();
        if nodes == 0 {
            return;
        }
        let (mut at, label) = (self.number(nodes + 1).checked_sub(1), self.chance(2).then(|| format!("label{}", self.number(3))));
        let mut to = HeadTo::Node(at.map(|ix| self.talk.session.tree.id(u32::try_from(ix).expect("few nodes"))));
        if self.chance(3) {
            (at, to) = (self.reference.tree.head, HeadTo::Stay);
        } else if let Some((named, ix)) = self.one(&Vec::from_iter(self.reference.labels.clone())).filter(|_| self.chance(3)) {
            (at, to) = (Some(ix), HeadTo::Label(named));
        }
        let label = label.filter(|_| at.is_some());
        self.tell(|| format!("the head moves to {at:?}, label {label:?}"));
        self.see_a_reply();
        let here: Vec<String> = self
            .reference
            .turn
            .iter()
            .map(|turn| turn.id.clone())
            .chain(self.reference.queue.iter().map(|waiting| waiting.id.clone()))
            .collect();
        let left = if at == self.reference.tree.head { Vec::new() } else { here };
        let (records, answer) = self.talk.move_head(&HeadMove { to, label: label.clone() }).unwrap();
        assert_eq!(answer.cancelled.iter().map(ToString::to_string).collect::<Vec<_>>(), left, "what was left");
        self.reference.move_head(at, label);
        self.reference.written = None;
        self.learn(&records);
    }

    fn fork(&mut self) {
        let nodes = self.reference.tree.nodes.len();
        if nodes == 0 {
            return;
        }
        let at = if self.chance(2) { self.reference.tree.head } else { Some(self.number(nodes)) };
        let id = at.map(|ix| self.talk.session.tree.id(u32::try_from(ix).expect("few nodes")));
        self.tell(|| format!("fork at {at:?}"));
        let (fork, records) = self.talk.fork(id.as_ref()).unwrap();
        let at = at.or(self.reference.tree.head);
        let reference = self.reference.fork(at);
        if self.chance(2) {
            self.go_on_in(fork, reference, &records);
            (0..3).for_each(|tab| {
                if tab > 0 {
                    self.adopt(tab);
                }
            });
        }
    }
}
