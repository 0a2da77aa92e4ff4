//! The reference's turns: who runs, who waits, what an input comes to. Everything is in lists and decided from the whole; an input
//! that is refused leaves no trace because it is decided on a copy.

use std::collections::BTreeMap;

use headwater::protocol::{Code, OnBusy, Role};

use super::tree::{Said, Tree};
use crate::talk::{ATTEMPTS, CALLS_MAX};

/// A message as it is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    pub id: Option<String>,
    pub said: Said,
}

impl Sent {
    /// Whether its id is of those that only the engine makes.
    pub fn is_reserved(&self) -> bool {
        self.id.as_ref().is_some_and(|id| id.starts_with("hw_"))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    View(Vec<Sent>),
    Message(Sent),
    Append(Vec<Sent>),
    Result(Sent),
}

/// An input.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    pub turn: String,
    pub agent: String,
    pub run: Option<bool>,
    pub on_busy: OnBusy,
    /// Whether it offers the tool; none: it doesn't say.
    pub tools: Option<bool>,
    /// A view that knows nothing follows the head.
    pub appends: bool,
    pub body: Body,
}

impl Ask {
    /// What must be the same when the turn id comes again.
    pub(super) fn content(&self) -> String {
        format!("{:?}", (&self.agent, self.run, &self.body))
    }
}

/// What an input is answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    pub turn: String,
    pub reply: bool,
    pub duplicate: bool,
    pub position: Option<usize>,
    pub waiting: Vec<String>,
}

/// A refusal: its code, and the turn that it names.
pub type Refused = (Code, Option<String>);
pub(super) type Decided = Result<Answer, Refused>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The model is asked.
    Asking,
    /// It is asked again after a pause.
    Pausing,
    /// Results of the client's tools are awaited.
    Waiting,
}

#[derive(Clone, Debug)]
pub struct Turn {
    pub id: String,
    pub phase: Phase,
    /// What was read where it began.
    pub began: Vec<String>,
    pub tools: Option<bool>,
    calls: u32,
    attempt: u32,
    recoveries: u32,
}

/// A turn that waits for another.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    pub id: String,
    pub agent: String,
    pub open: bool,
    pub run: Option<bool>,
    pub tools: Option<bool>,
    pub messages: Vec<Said>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    content: String,
    /// The turn that this is another name of.
    of: Option<String>,
    replied: bool,
    pub end: Option<&'static str>,
}

/// A conversation.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    pub tree: Tree,
    pub turn: Option<Turn>,
    pub queue: Vec<Waiting>,
    pub turns: BTreeMap<String, Known>,
    pub labels: BTreeMap<String, usize>,
    /// What each id says that was ever seen: ids are an affair of the engine.
    pub ids: BTreeMap<String, String>,
    /// The ids of the running call's attempts.
    pub attempts: Vec<String>,
    /// The ids of all attempts that there ever were.
    pub replies: Vec<String>,
    /// What readers saw of the running reply.
    pub written: Option<String>,
}

pub(super) fn bad<T>(code: Code) -> Result<T, Refused> {
    Err((code, None))
}

/// What several inputs that become one turn say of a reply.
pub(super) fn together(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    if one == Some(true) || other == Some(true) {
        return Some(true);
    }
    one.filter(|_| one == other)
}

impl Reference {
    /// Decides an input; when it is refused nothing has changed.
    pub fn submit(&mut self, ask: &Ask) -> Decided {
        let mut next = self.clone();
        let answer = next.decide(ask)?;
        *self = next;
        Ok(answer)
    }

    pub(super) fn decide(&mut self, ask: &Ask) -> Decided {
        if let Some(known) = self.turns.get(&ask.turn) {
            if known.content != ask.content() {
                return bad(Code::TurnIdReused);
            }
            return Ok(self.duplicate(&ask.turn));
        }
        match &ask.body {
            Body::View(view) => self.view(ask, view),
            Body::Message(sent) => self.message(ask, sent),
            Body::Append(sent) => self.append(ask, sent),
            Body::Result(sent) => self.result(ask, sent),
        }
    }

    // Names.

    pub fn turn_of<'a>(&'a self, name: &'a str) -> &'a str {
        self.turns.get(name).and_then(|known| known.of.as_deref()).unwrap_or(name)
    }

    pub(super) fn says(&self, sent: &Sent) -> Option<String> {
        let id = sent.id.as_ref()?;
        Some(self.ids.get(id).unwrap_or(&sent.said.says).clone())
    }

    pub(super) fn waits(&self, says: &str) -> Option<&Waiting> {
        self.queue.iter().find(|waiting| waiting.messages.iter().any(|said| said.says == says))
    }

    pub fn is_waiting(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.phase == Phase::Waiting)
    }

    pub(super) fn duplicate(&self, name: &str) -> Answer {
        let turn = self.turn_of(name).to_owned();
        let position = self.queue.iter().position(|waiting| waiting.id == turn);
        let here = self.is_waiting() && self.turn.as_ref().is_some_and(|now| now.id == turn);
        let reply = match position {
            Some(at) => asks(self.queue[at].run, &self.queue[at].messages),
            None => self.turns[&turn].replied,
        };
        let waiting = if here { self.tree.open_calls() } else { Vec::new() };
        Answer { reply, duplicate: true, position: position.map(|at| at + 1), waiting, turn }
    }

    pub(super) fn recorded_by(&self, ask: &Ask, turn: Option<&String>) -> Answer {
        let nobody = || Answer { turn: ask.turn.clone(), duplicate: true, ..Answer::default() };
        turn.map_or_else(nobody, |turn| self.duplicate(turn))
    }

    pub(super) fn busy<T>(&self) -> Result<T, Refused> {
        Err((Code::TurnAlreadyActive, self.turn.as_ref().map(|turn| turn.id.clone())))
    }

    // Turns begin and end.

    pub(super) fn names(&mut self, ask: &Ask, of: Option<&str>, end: Option<&'static str>) {
        let known = Known { content: ask.content(), of: of.map(str::to_owned), replied: false, end };
        self.turns.insert(ask.turn.clone(), known);
    }

    pub(super) fn begin(&mut self, id: &str, tools: Option<bool>, reply: bool) {
        let began = self.tree.reads(self.tree.head).into_iter().map(str::to_owned).collect();
        let turn = Turn { id: id.to_owned(), phase: Phase::Asking, began, tools, calls: 0, attempt: 1, recoveries: 0 };
        self.turn = Some(turn);
        if reply {
            self.turns.get_mut(id).expect("the turn is known").replied = true;
            self.next_call();
        } else {
            self.end("completed");
        }
    }

    pub(super) fn next_call(&mut self) {
        let turn = self.turn.as_mut().expect("a turn is there");
        (turn.phase, turn.attempt, turn.calls) = (Phase::Asking, 1, turn.calls + 1);
    }

    pub(super) fn proceed(&mut self) {
        if self.turn.as_ref().is_some_and(|turn| turn.calls < CALLS_MAX) {
            return self.next_call();
        }
        self.end("failed");
        self.go_on();
    }

    pub(super) fn end(&mut self, how: &'static str) {
        let turn = self.turn.take().expect("a turn is there");
        let end = &mut self.turns.get_mut(&turn.id).expect("the turn is known").end;
        assert_eq!(*end, None, "a turn ends once");
        *end = Some(how);
        self.tree.calls.values_mut().for_each(|called| called.open = false);
    }

    pub(super) fn stop(&mut self, aside: bool) {
        let turn = self.turn.as_ref().expect("a turn is there");
        if let Some(text) = self.written.take().filter(|_| turn.phase != Phase::Waiting) {
            let id = turn.id.clone();
            let ix = self.tree.add(Said::new(Role::Assistant, &text), self.tree.head, Some(&id));
            self.tree.nodes[ix].partial = true;
            if !aside {
                self.tree.head = Some(ix);
            }
        }
        self.end("cancelled");
    }

    /// The branch is left: what waited for it is given up.
    pub(super) fn leave(&mut self) {
        self.stop(true);
        for waiting in std::mem::take(&mut self.queue) {
            self.turns.get_mut(&waiting.id).expect("the turn is known").end = Some("cancelled");
        }
    }

    pub(super) fn go_on(&mut self) {
        while self.turn.is_none() && !self.queue.is_empty() {
            let next = self.queue.remove(0);
            let asks = self.write_below_head(&next.messages, &next.id);
            self.begin(&next.id, next.tools, next.run.unwrap_or(asks));
        }
    }

    /// Messages follow the head; whether the last one that was written is a user's.
    pub(super) fn write_below_head(&mut self, messages: &[Said], turn: &str) -> bool {
        let mut asks = false;
        for said in messages {
            let written = match self.tree.first(&said.says) {
                Some(_) => self.tree.copies(&said.says, self.tree.head),
                None => vec![said.clone()],
            };
            asks = if written.is_empty() { asks } else { said.role == Role::User };
            for said in written {
                self.tree.head = Some(self.tree.add(said, self.tree.head, Some(turn)));
            }
        }
        asks
    }

    pub(super) fn write_results(&mut self, answers: &[Said]) {
        let turn = self.turn.as_ref().map(|turn| turn.id.clone());
        for said in answers {
            self.tree.head = Some(self.tree.add(said.clone(), self.tree.head, turn.as_deref()));
        }
    }

    // What isn't submitted.

    /// The model has answered; each call with whether nobody can carry it out.
    pub fn finish(&mut self, said: Said, faulty: &[bool]) {
        let turn = self.turn.as_ref().expect("a turn is there");
        let id = turn.id.clone();
        let calls = said.calls.clone();
        self.tree.head = Some(self.tree.add(said, self.tree.head, Some(&id)));
        if calls.is_empty() {
            self.end("completed");
            return self.go_on();
        }
        for (call, faulty) in calls.iter().zip(faulty) {
            if *faulty {
                self.tree.head = Some(self.tree.add(Said::result(call, "an error"), self.tree.head, Some(&id)));
            } else {
                self.tree.calls.get_mut(call).expect("it was made").open = true;
            }
        }
        if self.tree.open_calls().is_empty() {
            return self.proceed();
        }
        self.turn.as_mut().expect("a turn is there").phase = Phase::Waiting;
    }

    pub fn fail(&mut self, again: bool) {
        let turn = self.turn.as_mut().expect("a turn is there");
        if again && turn.attempt < ATTEMPTS + turn.recoveries {
            turn.phase = Phase::Pausing;
            return;
        }
        self.end("failed");
        self.go_on();
    }

    pub fn wake(&mut self) {
        let turn = self.turn.as_mut().expect("a turn is there");
        (turn.phase, turn.attempt) = (Phase::Asking, turn.attempt + 1);
    }

    /// The process is lost.
    pub fn recover(&mut self) {
        let Some(turn) = self.turn.as_mut().filter(|turn| turn.phase == Phase::Asking) else { return };
        if turn.recoveries < 2 {
            (turn.recoveries, turn.attempt) = (turn.recoveries + 1, turn.attempt + 1);
            return;
        }
        self.end("failed");
        self.go_on();
    }

    pub fn cancel(&mut self, name: Option<&str>) {
        let Some(turn) = &self.turn else { return };
        let id = name.map_or(turn.id.clone(), |name| self.turn_of(name).to_owned());
        if id == turn.id {
            self.stop(false);
            self.go_on();
        } else if let Some(at) = self.queue.iter().position(|waiting| waiting.id == id) {
            self.queue.remove(at);
            self.turns.get_mut(&id).expect("the turn is known").end = Some("cancelled");
        }
    }

    pub fn move_head(&mut self, to: Option<usize>, label: Option<String>) {
        if to != self.tree.head && self.turn.is_some() {
            self.leave();
        }
        self.tree.head = to;
        if let (Some(label), Some(to)) = (label, to) {
            self.labels.insert(label, to);
        }
    }

    /// A conversation of the path to `at`.
    pub fn fork(&self, at: Option<usize>) -> Self {
        let mut fork = Self { ids: self.ids.clone(), ..Self::default() };
        for ix in self.tree.path(at) {
            let node = &self.tree.nodes[ix];
            let parent = fork.tree.nodes.len().checked_sub(1);
            let made = fork.tree.add(node.said.clone(), parent, None);
            fork.tree.nodes[made].partial = node.partial;
            fork.tree.head = Some(made);
        }
        fork
    }
}

/// Whether messages that wait ask for a reply.
pub(super) fn asks(run: Option<bool>, messages: &[Said]) -> bool {
    run.unwrap_or_else(|| messages.last().is_some_and(|said| said.role == Role::User))
}
