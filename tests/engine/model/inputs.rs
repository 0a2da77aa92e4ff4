//! What front ends and native clients send: views in any shape, messages at the head, results, the same again.

use headwater::protocol::{OnBusy, Role};

use super::rules::{Ask, Body, Sent};
use super::tree::Said;
use super::world::{World, name_of};

impl World {
    fn ask(&mut self, body: Body) -> Ask {
        let on_busy = [OnBusy::Refuse, OnBusy::Queue, OnBusy::Merge, OnBusy::Cancel, OnBusy::Queue, OnBusy::Merge][self.number(6)];
        let run = if self.chance(5) { Some(self.chance(2)) } else { None };
        let tools = [Some(true), Some(true), None, Some(true), Some(false)][self.number(5)];
        let agent = if self.chance(6) { "other" } else { "bot" };
        Ask { turn: self.fresh("t"), agent: agent.to_owned(), run, on_busy, tools, appends: false, body }
    }

    fn user(&mut self) -> Sent {
        let says = self.fresh("u");
        let id = (!self.chance(8)).then(|| says.clone());
        Sent { id, said: Said::new(Role::User, &says) }
    }

    fn send(&mut self, tab: usize, list: Vec<Sent>) {
        let view = self.quirky(list);
        let ask = Ask { appends: self.tabs[tab].appends, ..self.ask(Body::View(view.clone())) };
        if self.submit(&ask).is_none() {
            return;
        }
        let named = view.iter().all(|sent| sent.id.is_some());
        self.tabs[tab].list = view;
        if !named || self.chance(3) {
            self.adopt(tab);
        }
    }

    /// The list as a front end may send it.
    fn quirky(&mut self, mut list: Vec<Sent>) -> Vec<Sent> {
        if self.chance(4) && list.len() > 2 {
            let forgotten = self.number(list.len() - 1);
            list.remove(forgotten);
        }
        if self.chance(6) && list.len() > 1 {
            let at = self.number(list.len() - 1);
            list.swap(at, at + 1);
        }
        if self.chance(6) {
            let at = self.number(list.len() + 1);
            let role = [Role::Assistant, Role::System, Role::Reasoning][self.number(3)];
            let says = self.fresh("extra");
            list.insert(at, Sent { id: Some(says.clone()), said: Said::new(role, &says) });
        }
        list
    }

    pub fn view(&mut self) {
        let tab = self.number(3);
        let mut list = self.tabs[tab].list.clone();
        if self.chance(3)
            && let Some(reply) = self.talk.reply_id()
        {
            list.push(Sent { id: Some(reply.to_string()), said: Said::new(Role::Assistant, "so far") });
        }
        list.push(self.user());
        if self.chance(4) {
            list.push(self.user());
        }
        self.send(tab, list);
    }

    /// The view with messages that wait, and perhaps one more.
    pub fn view_with_waiting(&mut self) {
        let tab = self.number(3);
        let mut list = self.tabs[tab].list.clone();
        let waiting = self.waiting();
        list.retain(|sent| !waiting.contains(sent));
        list.extend(waiting);
        if self.chance(2) {
            list.push(self.user());
        }
        self.send(tab, list);
    }

    /// The messages that wait, as they are sent again.
    fn waiting(&self) -> Vec<Sent> {
        let all = self.talk.session.queue.iter().flat_map(|queued| &queued.messages);
        let own = all.filter(|message| message.role == Role::User && message.content.is_some());
        own.map(|message| Sent { id: message.id.as_ref().map(ToString::to_string), said: Said::new(message.role, &name_of(message)) })
            .collect()
    }

    pub fn edit(&mut self) {
        let tab = self.number(3);
        let mut list = self.tabs[tab].list.clone();
        let users: Vec<usize> = (0..list.len()).filter(|&at| list[at].said.role == Role::User).collect();
        let Some(at) = self.one(&users) else { return };
        let tail = list.split_off(at);
        list.push(self.user());
        if self.chance(2) {
            list.extend(tail.into_iter().skip(1));
        }
        self.send(tab, list);
    }

    /// Regenerate, rewind, a resend: a beginning of the list.
    pub fn shorter(&mut self) {
        let tab = self.number(3);
        let mut list = self.tabs[tab].list.clone();
        let keep = if self.chance(2) { list.len() } else { self.number(list.len() + 1) };
        list.truncate(keep);
        self.send(tab, list);
    }

    /// A branch as the tree lists it.
    pub fn switch(&mut self) {
        let tab = self.number(3);
        let at = self.number(self.reference.tree.nodes.len());
        if self.reference.tree.nodes.is_empty() {
            return;
        }
        let mut list: Vec<Sent> = self.reference.tree.path(Some(at)).into_iter().map(|ix| self.recorded(ix)).collect();
        if self.chance(3) {
            list.push(self.user());
        }
        self.send(tab, list);
    }

    /// A recorded message under the id that readers see.
    pub fn recorded(&self, ix: usize) -> Sent {
        let said = self.reference.tree.nodes[ix].said.clone();
        let first = self.reference.tree.first(&said.says).expect("it was said");
        let id = self.talk.session.tree.id(u32::try_from(first).expect("few nodes")).to_string();
        Sent { id: Some(id), said: Said { calls: Vec::new(), ..said } }
    }

    pub fn lone(&mut self) {
        let tab = self.number(3);
        let list = vec![self.user()];
        self.send(tab, list);
    }

    pub fn reload(&mut self) {
        let tab = self.number(3);
        self.tell(|| format!("tab {tab} reloads"));
        self.adopt(tab);
    }

    // Native clients.

    pub fn message(&mut self) {
        let users: Vec<usize> =
            (0..self.reference.tree.nodes.len()).filter(|&ix| self.reference.tree.nodes[ix].said.role == Role::User).collect();
        let waiting = self.waiting();
        let sent = match self.number(4) {
            0 => self.one(&users).map(|ix| self.recorded(ix)),
            1 => self.one(&waiting),
            2 => self.reference.tree.head.filter(|&ix| self.reference.tree.nodes[ix].said.role == Role::User).map(|ix| self.recorded(ix)),
            _ => None,
        };
        let sent = match sent {
            Some(sent) => sent,
            None => self.user(),
        };
        let ask = self.ask(Body::Message(sent));
        self.submit(&ask);
    }

    pub fn append(&mut self) {
        let mut sent = Vec::new();
        for _ in 0..=self.number(3) {
            match self.number(6) {
                0 if !self.reference.tree.nodes.is_empty() => {
                    let at = self.number(self.reference.tree.nodes.len());
                    sent.push(self.recorded(at));
                }
                1 => {
                    let waiting = self.waiting();
                    sent.extend(self.one(&waiting));
                }
                2 => sent.extend(self.imported()),
                3 => sent.extend(self.results()),
                _ => sent.push(self.user()),
            }
        }
        let mut given: Vec<Option<String>> = Vec::new();
        sent.retain(|sent| {
            let first = sent.said.answers.is_none() || !given.contains(&sent.said.answers);
            given.push(sent.said.answers.clone());
            first
        });
        if sent.is_empty() {
            return;
        }
        let ask = self.ask(Body::Append(sent));
        self.submit(&ask);
    }

    /// A reply from elsewhere, perhaps with a call and its result.
    fn imported(&mut self) -> Vec<Sent> {
        let says = self.fresh("import");
        let mut reply = Sent { id: Some(says.clone()), said: Said::new(Role::Assistant, &says) };
        if self.chance(2) {
            return vec![reply];
        }
        let call = self.fresh("call");
        reply.said.calls.push(call.clone());
        let id = self.fresh("r");
        vec![reply, Sent { id: Some(id), said: Said::result(&call, "imported") }]
    }

    // Results.

    /// Results of some calls: mostly of those that are open.
    fn results(&mut self) -> Vec<Sent> {
        let open = self.reference.tree.open_calls();
        let calls = if open.is_empty() || self.chance(6) { self.reference.tree.asked.clone() } else { open };
        let mut results = Vec::new();
        let all = self.chance(2);
        for call in calls.into_iter().rev().take(3) {
            if all || self.chance(2) {
                results.push(self.result_of(&call));
            }
        }
        results
    }

    fn result_of(&mut self, call: &str) -> Sent {
        let text = if self.chance(3) { "other".to_owned() } else { "done".to_owned() };
        let id = (!self.chance(4)).then(|| self.fresh("r"));
        Sent { id, said: Said::result(call, &text) }
    }

    /// In a view: after the list, alone, in between, with more said after them.
    pub fn results_in_a_view(&mut self) {
        let tab = self.number(3);
        let mut results = self.results();
        if self.chance(4)
            && let Some(call) = results.first().and_then(|sent| sent.said.answers.clone())
        {
            results.push(self.result_of(&call));
        }
        if self.chance(3) {
            self.adopt(tab);
        }
        let mut list = self.tabs[tab].list.clone();
        match self.number(5) {
            0 => list = results,
            1 => {
                let at = self.number(list.len() + 1);
                list.splice(at..at, results);
            }
            2 => {
                list.extend(results);
                list.push(self.user());
            }
            3 => {
                list.push(self.user());
                list.extend(results);
            }
            _ => list.extend(results),
        }
        self.send(tab, list);
    }

    pub fn result(&mut self) {
        if self.talk.log.is_empty() {
            return;
        }
        let results = self.results();
        let sent = match self.one(&results) {
            Some(sent) => sent,
            None => self.result_of("nobody"),
        };
        let ask = self.ask(Body::Result(sent));
        self.submit(&ask);
    }

    // The same again.

    pub fn again(&mut self) {
        let asked = self.asked.clone();
        let Some(mut ask) = self.one(&asked) else { return };
        if self.chance(3) {
            let sent = self.user();
            ask.body = Body::Message(sent);
        }
        self.submit(&ask);
    }

    /// One id twice.
    pub fn twice(&mut self) {
        let sent = self.user();
        let mut list = self.tabs[0].list.clone();
        list.extend([sent.clone(), sent]);
        if list.last().is_some_and(|sent| sent.id.is_none()) {
            return;
        }
        let body = if self.chance(2) { Body::View(list) } else { Body::Append(list.split_off(list.len() - 2)) };
        let ask = self.ask(body);
        assert!(self.submit(&ask).is_none(), "one id twice is refused");
    }
}
