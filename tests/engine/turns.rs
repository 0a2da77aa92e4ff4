//! What happens to the turns of made-up front ends: replies, failures, lost processes, tools, custom nodes, compactions.

use headwater::engine::record::{Body, CallStarted, TurnCompleted, TurnStarted};
use headwater::engine::{self, Effect, MessageNew, News, View};
use headwater::ids::{NodeId, ToolCallId};
use headwater::protocol::{CallErrorKind, Client, Digest, Message, NodeKind, Role, ToolCall};

use crate::front_ends::{Held, World};
use crate::talk::Talk;

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
        let asked = |id: &String| ToolCall::new(id.as_str().into(), "nothing", "{}");
        let text = self.fresh("answer ");
        let make = || calls.iter().map(asked).collect::<Vec<_>>();
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
        let seen = self.chance(2) && !self.call_waits();
        let written = seen.then(|| Message::text(Role::Assistant, "half of it"));
        let reply = self.talk.reply_id();
        (self.talk.written, self.twin.written) = (written.clone(), written.clone());
        self.both(|talk| talk.cancel(None));
        if let (Some(message), Some(reply)) = (written, reply) {
            let acting = self.acting;
            self.tabs[acting].list.push(Held { message: message.with_id(reply.clone()), real: Some(reply) });
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

    // Tools of the client's, by hand: a turn that waits for results.

    pub fn client_tools(&mut self) {
        let tab = self.number(3);
        self.adopt(tab);
        self.acting = tab;
        let calls: Vec<ToolCall> = (0..=self.number(3)).map(|_| ToolCall::new(self.fresh("tool").as_str().into(), "pick", "{}")).collect();
        let (turn, user, reply) = (self.fresh("turn"), self.fresh("u"), self.fresh("hand"));
        let asks = Message::text(Role::User, format!("says {user}"));
        let answer = Message { tool_calls: calls, ..Message::text(Role::Assistant, "pick") };
        for (message, id) in [(&asks, &user), (&answer, &reply)] {
            let held = Held { message: message.clone().with_id(id.as_str().into()), real: Some(id.as_str().into()) };
            self.tabs[tab].list.push(held);
        }
        self.both(|talk| {
            let started =
                TurnStarted { turn_id: turn.as_str().into(), agent_id: "bot".into(), digest: Digest::default(), client: Client::default() };
            let ask = MessageNew::plain(user.as_str().into(), talk.head_id(), asks.clone());
            let reply = MessageNew::plain(reply.as_str().into(), Some(user.as_str().into()), answer.clone());
            let bodies = [Body::MessageNew(Box::new(ask)), Body::TurnStarted(Box::new(started)), Body::MessageNew(Box::new(reply))];
            talk.write(bodies.to_vec());
        });
    }

    /// Some of the open calls are answered, in a view as the front end sends it or alone; when all are, the turn goes on.
    pub fn answer(&mut self) {
        let open = self.talk.session.tree.open_calls().to_vec();
        let (alone, all) = (self.chance(3), self.chance(2));
        let answered: Vec<ToolCallId> = open.iter().filter(|_| all || self.chance(2)).cloned().collect();
        let mut results: Vec<Message> = Vec::new();
        for call in &answered {
            let id = if self.chance(2) { format!("{call}:tool") } else { self.fresh("result") };
            results.push(Message { tool_call_id: Some(call.clone()), ..Message::text(Role::Tool, "done") }.with_id(id.as_str().into()));
        }
        if let Some(again) = results.first().filter(|_| self.chance(4)).cloned() {
            let id = self.fresh("again");
            results.push(again.with_id(id.as_str().into()));
        }
        let list = if alone { Vec::new() } else { self.quirky(&self.tabs[self.acting].list.clone()).0 };
        let view = View::new([list, results].concat());
        let options = self.tabs[self.acting].options;
        let mut written = Vec::new();
        for talk in [&mut self.talk, &mut self.twin] {
            let found = engine::reconcile(&talk.session.tree, talk.session.head, &view, options).unwrap();
            assert_eq!(found.news.len(), answered.len(), "each open call is answered once: {found:?}");
            if !answered.is_empty() {
                assert_eq!(found.landing, talk.session.head, "results stand where the turn waits");
            }
            let mut parent = talk.head_id();
            written.clear();
            for news in &found.news {
                let News::Result(index) = *news else { panic!("{news:?} isn't a result") };
                let message = view.messages[index].clone();
                let id = message.id.clone().unwrap();
                written.push((message.tool_call_id.clone().unwrap(), id.clone()));
                let new = MessageNew::plain(id.clone(), parent.replace(id), message);
                talk.write(vec![Body::MessageNew(Box::new(new))]);
            }
        }
        for (call, id) in written {
            self.hold_result(&call, &id);
        }
        if self.talk.session.tree.open_calls().is_empty() {
            let (call, reply) = (self.fresh("made"), self.fresh("hw_made"));
            self.both(|talk| {
                let turn = talk.session.turn.as_ref().unwrap().id.clone();
                if talk.session.turn.as_ref().unwrap().calls > 2 {
                    talk.write(vec![Body::TurnCompleted(TurnCompleted { turn_id: turn })]);
                } else {
                    let started = CallStarted {
                        turn_id: turn,
                        call_id: call.as_str().into(),
                        attempt: 1,
                        reply_id: reply.as_str().into(),
                        hidden: false,
                    };
                    talk.write(vec![Body::CallStarted(started)]);
                }
            });
        }
    }
}
