//! What happens to the turns of made-up front ends: replies, failures, lost processes, tools, custom nodes, compactions.

use headwater::engine::Effect;
use headwater::engine::record::Body;
use headwater::ids::{NodeId, ToolCallId};
use headwater::protocol::{CallErrorKind, Message, NodeKind, Role, ToolCall};

use crate::front_ends::{Held, World};
use crate::talk::{Asked, Talk};

impl World {
    pub fn call_waits(&self) -> bool {
        matches!(self.talk.call(), Some(Effect::Wake { .. }))
    }

    pub fn finish(&mut self) {
        if self.talk.call().is_none() {
            return self.answer();
        }
        if self.call_waits() {
            return self.both(Talk::wake);
        }
        let calls: Vec<String> = if self.chance(3) { (0..=self.number(2)).map(|_| self.fresh("call")).collect() } else { Vec::new() };
        // Of a tool of the front end's, or of one that nobody has.
        let tools: Vec<&str> = calls.iter().map(|_| ["pick", "nothing"][self.number(2)]).collect();
        let text = self.fresh("answer ");
        let text = self.long(&text);
        let make = || calls.iter().zip(&tools).map(|(id, tool)| ToolCall::new(id.as_str().into(), *tool, "{}")).collect::<Vec<_>>();
        let (reply, records) = self.talk.finish(&text, make());
        self.twin.finish(&text, make());
        let adopted = self.number(self.abandoned.len() + 1);
        let id = self.abandoned.get(adopted).unwrap_or(&reply).clone();
        self.abandoned.clear();
        let message = Message { tool_calls: make(), ..Message::text(Role::Assistant, text) };
        let acting = self.acting;
        self.tabs[acting].list.push(Held { message: message.with_id(id), real: Some(reply) });
        for record in records {
            if let Body::MessageNew(new) = record.body
                && let Some(call) = new.message.as_ref().and_then(|message| message.tool_call_id.clone())
            {
                self.hold_result(&call, &new.id);
            }
        }
    }

    /// The acting tab holds a result, under the id that it gives it.
    pub fn hold_result(&mut self, call: &ToolCallId, real: &NodeId) {
        let id = match self.tabs[self.acting].result_ids {
            0 => real.clone(),
            1 => format!("{call}:tool").as_str().into(),
            _ => self.fresh("result").as_str().into(),
        };
        let message = Message { tool_call_id: Some(call.clone()), ..Message::text(Role::Tool, "result") };
        let acting = self.acting;
        self.tabs[acting].list.push(Held { message: message.with_id(id), real: Some(real.clone()) });
    }

    pub fn fail(&mut self) {
        if !matches!(self.talk.call(), Some(Effect::Call { .. })) {
            return;
        }
        let kind = [CallErrorKind::Cut, CallErrorKind::RateLimited, CallErrorKind::Refused][self.number(3)];
        self.abandoned.extend(self.talk.reply_id());
        self.both(|talk| talk.fail(kind, None));
    }

    pub fn cancel(&mut self) {
        let seen = self.chance(2) && !self.call_waits() && self.shows_a_reply();
        let written = seen.then(|| Message::text(Role::Assistant, "half of it"));
        let reply = self.shown_reply();
        (self.talk.written, self.twin.written) = (written.clone(), written.clone());
        self.both(|talk| talk.cancel(None));
        self.learn();
        if let (Some(message), Some(reply)) = (written, reply) {
            let acting = self.acting;
            self.tabs[acting].list.push(Held { message: message.with_id(reply.clone()), real: Some(reply) });
            if self.others.is_some() {
                // The twin's call gave up no attempt: it has one id for all of them.
                self.abandoned.clear();
            }
        }
    }

    /// The turn of the acting tab has ended, and the tab saw it.
    pub fn reply_is_over(&mut self) {
        let acting = self.acting;
        if let Some(given_up) = self.abandoned.pop().filter(|_| self.chance(2)) {
            let message = Message::text(Role::Assistant, "nothing came of it").with_id(given_up);
            self.tabs[acting].list.push(Held { message, real: None });
        }
        self.abandoned.clear();
    }

    pub fn custom(&mut self) {
        let id = self.fresh("chart");
        let tree = &self.twin.session.tree;
        let finished = self.twin.session.head.is_some_and(|head| {
            let last = tree.reader_up(Some(head)).find(|&ix| tree.node(ix).kind == NodeKind::Message);
            last.is_some_and(|ix| tree.node(ix).role == Role::Assistant && !tree.node(ix).partial)
        });
        if finished || self.talk.session.turn.is_some() {
            self.both(|talk| talk.custom(&id));
        }
    }

    pub fn compact(&mut self) {
        let id = self.fresh("epoch");
        let open = !self.talk.session.tree.open_calls().is_empty();
        let keep = self.number(5) + usize::from(open);
        let summary = [Some("a summary"), None][self.number(2)];
        let pinned = self.chance(2);
        self.talk.compact(&id, keep, summary, pinned);
    }

    // Tools of the client's: the turn waits for their results.

    /// The acting tab's view again, with nothing new: it only says that the turn waits.
    pub fn look_again(&mut self) {
        let before = (self.talk.session.seq, self.twin.session.seq);
        let list = self.tabs[self.acting].list.clone();
        assert!(self.submit(self.acting, &list, None), "a view without news isn't refused");
        assert_eq!((self.talk.session.seq, self.twin.session.seq), before, "nothing is written");
    }

    /// Some of the open calls are answered, in a view as the front end sends it or alone; when all are, the turn goes on.
    pub fn answer(&mut self) {
        let open = self.talk.session.tree.open_calls().to_vec();
        let (alone, all) = (self.chance(3), self.chance(2));
        let answered: Vec<ToolCallId> = open.iter().filter(|_| all || self.chance(2)).cloned().collect();
        if answered.is_empty() {
            return self.look_again();
        }
        let mut results: Vec<Message> = Vec::new();
        for call in &answered {
            let id = if self.chance(2) { format!("{call}:tool") } else { self.fresh("result") };
            let text = self.long("done");
            results.push(Message { tool_call_id: Some(call.clone()), ..Message::text(Role::Tool, text) }.with_id(id.as_str().into()));
        }
        if let Some(again) = results.first().filter(|_| self.chance(4)).cloned() {
            let id = self.fresh("again");
            results.push(again.with_id(id.as_str().into()));
        }
        let list = if alone { Vec::new() } else { self.quirky(&self.tabs[self.acting].list.clone()).0 };
        let asked = Asked { options: self.tabs[self.acting].options, ..Asked::view([list, results].concat()) };
        let mut recorded = Vec::new();
        let for_twin = self.for_twin(&asked);
        for (talk, asked) in [(&mut self.twin, &for_twin), (&mut self.talk, &asked)] {
            let head = talk.session.head;
            let (_, accepted) = talk.submit(asked).unwrap();
            assert_eq!(accepted.recorded.len(), answered.len(), "each open call is answered once");
            assert_eq!(accepted.waiting.len(), open.len() - answered.len(), "the turn waits for the others");
            assert_eq!(accepted.reply, accepted.waiting.is_empty(), "with the last the turn goes on");
            let tree = &talk.session.tree;
            assert_eq!(tree.find(&accepted.recorded[0]).and_then(|ix| tree.parent(ix)), head, "results stand where the turn waits");
            recorded = accepted.recorded;
        }
        for (call, id) in answered.iter().zip(recorded) {
            self.hold_result(call, &id);
        }
    }
}
