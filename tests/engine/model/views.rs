//! The reference's views and results: what they come to while nothing is there, while a turn runs, while one waits.

use headwater::protocol::{Code, OnBusy, Role};

use super::rules::{Answer, Ask, Decided, Reference, Sent, bad};
use super::tree::{Found, Item, News, Said, result_name};

impl Reference {
    // Results.

    pub(super) fn result(&mut self, ask: &Ask, sent: &Sent) -> Decided {
        let said = &sent.said;
        let call = said.answers.as_ref().expect("a result names its call");
        let Some(called) = self.tree.calls.get(call) else { return bad(Code::CallNotOpen) };
        match &called.result {
            Some(text) if *text == said.text => {
                let ix = self.tree.first(&result_name(call)).expect("it was recorded");
                Ok(self.recorded_by(ask, self.tree.nodes[ix].turn.as_ref()))
            }
            None if called.open => self.results(ask, std::slice::from_ref(said)),
            Some(_) | None => bad(Code::CallNotOpen),
        }
    }

    pub(super) fn results(&mut self, ask: &Ask, answers: &[Said]) -> Decided {
        self.write_results(answers);
        let left = self.tree.open_calls();
        if !left.is_empty() && ask.run == Some(true) {
            return bad(Code::CallsOpen);
        }
        let turn = self.turn.as_mut().expect("calls are open while a turn is there");
        turn.tools = ask.tools.or(turn.tools);
        let id = turn.id.clone();
        self.names(ask, Some(&id), None);
        let reply = left.is_empty() && ask.run != Some(false);
        if reply {
            self.proceed();
        } else if left.is_empty() {
            self.end("completed");
            self.go_on();
        }
        Ok(Answer { turn: id, reply, waiting: left, ..Answer::default() })
    }

    // Views.

    pub(super) fn items(&self, view: &[Sent], given_up: bool) -> Vec<Item> {
        let item = |sent: &Sent| {
            let says = self.says(sent).filter(|says| self.tree.first(says).is_some());
            match sent.said.role {
                Role::User => match (says, &sent.id) {
                    (Some(says), _) => Item::Known(says),
                    (None, Some(_)) if !given_up && self.says(sent).is_some_and(|says| self.waits(&says).is_some()) => Item::Passed,
                    (None, _) => Item::New(sent.said.clone()),
                },
                Role::Tool => {
                    let call = sent.said.answers.as_ref().expect("a result names its call");
                    match self.tree.calls.get(call) {
                        Some(called) if called.open => Item::Answer(called.reply.clone(), sent.said.clone()),
                        Some(called) if called.result.is_some() => Item::Known(sent.said.says.clone()),
                        Some(_) | None => Item::Passed,
                    }
                }
                Role::Assistant => says.map_or(Item::Passed, Item::Known),
                Role::System | Role::Developer | Role::Reasoning | Role::Activity => Item::Passed,
            }
        };
        view.iter().map(item).collect()
    }

    /// Whether a view's front end takes it as messages that follow the head: nothing in it is known.
    fn may_follow(&self, ask: &Ask, view: &[Sent], given_up: bool) -> bool {
        let known = |sent: &Sent| {
            // Of a result this asks for its own id, not for its call.
            let by_id = |id: &String| self.ids.get(id).cloned();
            let says = if sent.said.role == Role::Tool { sent.id.as_ref().and_then(by_id) } else { self.says(sent) };
            let Some(says) = says else { return false };
            let waits = !given_up && self.waits(&says).is_some();
            waits || self.tree.first(&says).is_some() || sent.id.as_ref().is_some_and(|id| self.replies.contains(id))
        };
        let called = |sent: &Sent| sent.said.answers.as_ref().and_then(|call| self.tree.calls.get(call));
        let answers = view.iter().filter_map(called).any(|called| called.open);
        ask.appends && !view.iter().any(known) && (answers || !view.iter().any(|sent| called(sent).is_some()))
    }

    pub(super) fn view(&mut self, ask: &Ask, view: &[Sent]) -> Decided {
        let twice = |index: usize| view[index].id.is_some() && view[..index].iter().any(|other| other.id == view[index].id);
        if (0..view.len()).any(twice) {
            return bad(Code::DuplicateMessageId);
        }
        let found = self.tree.reconcile(&self.items(view, false), self.may_follow(ask, view, false));
        if view.iter().any(|sent| sent.is_reserved() && found.writes(&sent.said.says)) {
            return bad(Code::ReservedId);
        }
        match (&self.turn, found.news.is_empty()) {
            (None, _) => self.land(ask, &found, found.landing),
            (Some(_), true) => self.without_news(ask, view, &found),
            (Some(_), false) if self.is_waiting() => self.at_waiting(ask, view, found),
            (Some(_), false) => self.at_running(ask, view, &found),
        }
    }

    pub(super) fn without_news(&mut self, ask: &Ask, view: &[Sent], found: &Found) -> Decided {
        let spoken = |sent: &&Sent| matches!(sent.said.role, Role::User | Role::Assistant | Role::Tool);
        let last = view.iter().rfind(spoken).and_then(|sent| self.says(sent)).filter(|says| self.tree.first(says).is_none());
        if let Some(waiting) = last.and_then(|says| self.waits(&says)) {
            return Ok(self.duplicate(&waiting.id));
        }
        let at = self.tree.reads(found.landing);
        let turn = self.turn.as_ref().expect("a turn is there");
        if self.is_waiting() && self.tree.only_results_below(&at) {
            if ask.run == Some(true) {
                return bad(Code::CallsOpen);
            }
            return Ok(Answer { turn: turn.id.clone(), waiting: self.tree.open_calls(), ..Answer::default() });
        }
        let own = at.len() >= turn.began.len() && self.tree.reads(self.tree.head).starts_with(&at);
        if !self.is_waiting() && own && turn.began.iter().map(String::as_str).eq(at[..turn.began.len()].iter().copied()) {
            return self.busy();
        }
        self.leave();
        self.land(ask, found, found.landing)
    }

    pub(super) fn at_running(&mut self, ask: &Ask, view: &[Sent], found: &Found) -> Decided {
        let said = found.said().filter(|_| self.tree.is_above(found.landing, self.tree.head) || ask.on_busy == OnBusy::Cancel);
        let is_at_head = self.tree.reads(found.landing) == self.tree.reads(self.tree.head);
        match (ask.on_busy, said) {
            (OnBusy::Queue | OnBusy::Merge | OnBusy::Steer, Some(said)) => self.follow(ask, &said, &[]),
            (OnBusy::Refuse | OnBusy::Queue | OnBusy::Merge | OnBusy::Steer, _) => self.busy(),
            (OnBusy::Cancel, _) if !is_at_head => self.go_elsewhere(ask, view),
            (OnBusy::Cancel, Some(said)) if !self.queue.is_empty() => self.follow(ask, &said, &[]),
            (OnBusy::Cancel, _) if !self.queue.is_empty() => self.busy(),
            (OnBusy::Cancel, _) => {
                let names_reply = view.iter().any(|sent| sent.id.as_ref().is_some_and(|id| self.attempts.contains(id)));
                let (below, before) = (found.appended || names_reply, self.tree.head);
                self.stop(!below);
                let at = if self.tree.head == before { found.landing } else { self.tree.head };
                self.land(ask, found, at)
            }
        }
    }

    /// The branch is left for where the view lands; what waited and is in the view is new again.
    pub(super) fn go_elsewhere(&mut self, ask: &Ask, view: &[Sent]) -> Decided {
        let found = self.tree.reconcile(&self.items(view, true), self.may_follow(ask, view, true));
        self.leave();
        self.land(ask, &found, found.landing)
    }

    pub(super) fn at_waiting(&mut self, ask: &Ask, view: &[Sent], mut found: Found) -> Decided {
        let answers = found.answers();
        if answers.len() == found.news.len() {
            return self.results(ask, &answers);
        }
        let is_here = self.tree.only_results_below(&self.tree.reads(found.landing));
        let queues = matches!(ask.on_busy, OnBusy::Queue | OnBusy::Merge | OnBusy::Steer);
        match found.said() {
            Some(said) if queues && self.tree.is_above(found.landing, self.tree.head) => self.follow(ask, &said, &answers),
            _ if queues => self.busy(),
            _ if !is_here => self.go_elsewhere(ask, view),
            Some(said) => self.follow(ask, &said, &answers),
            None if !self.queue.is_empty() => self.busy(),
            None if answers.is_empty() => {
                self.stop(false);
                self.land(ask, &found, found.landing)
            }
            None => {
                self.write_results(&answers);
                self.stop(false);
                found.news.retain(|news| !matches!(news, News::Result(_)));
                self.land(ask, &found, self.tree.head)
            }
        }
    }

    pub(super) fn land(&mut self, ask: &Ask, found: &Found, at: Option<usize>) -> Decided {
        let reply = match (ask.run, found.news.last()) {
            (Some(true), None) if found.landing.is_none() => return bad(Code::BadRequest),
            (Some(run), _) => run,
            (None, None) => self.tree.reply_due_at(found.landing),
            (None, Some(News::Result(said) | News::New(said))) => said.role != Role::Assistant,
            (None, Some(News::Copy(says))) => self.tree.nodes[self.tree.first(says).expect("it was said")].said.role != Role::Assistant,
        };
        let answer = Answer { turn: ask.turn.clone(), reply, ..Answer::default() };
        if found.news.is_empty() && !reply {
            if self.tree.reads(at) != self.tree.reads(self.tree.head) {
                self.tree.head = at;
                self.names(ask, None, Some("completed"));
            }
            return Ok(answer);
        }
        self.tree.head = at;
        for news in &found.news {
            let said = match news {
                News::Result(said) | News::New(said) => said.clone(),
                News::Copy(says) => self.tree.nodes[self.tree.first(says).expect("it was said")].said.clone(),
            };
            self.tree.head = Some(self.tree.add(said, self.tree.head, Some(&ask.turn)));
        }
        self.names(ask, None, None);
        self.begin(&ask.turn, ask.tools, reply);
        Ok(answer)
    }
}
