//! The world of a case: the session, its reference, its ledger, front ends that hold lists. How an input is sent to both.

use headwater::engine::record::{Body, Record};
use headwater::engine::{self, Session};
use headwater::ids::NodeId;
use headwater::protocol::{Accepted, Client, Code, Content, Message, PartialView, Refusal, Role, Tool, ToolCall, ViewOptions};

use super::ledger::Ledger;
use super::rules::{Answer, Ask, Body as AskBody, Reference, Refused, Sent};
use super::tree::{Said, result_name};
use crate::talk::{Asked, Kind, Talk};

/// A front end.
#[derive(Clone, Debug, Default)]
pub struct Tab {
    pub list: Vec<Sent>,
    pub appends: bool,
}

pub struct World {
    pub talk: Talk,
    pub reference: Reference,
    ledger: Ledger,
    pub tabs: Vec<Tab>,
    /// What was asked before.
    pub asked: Vec<Ask>,
    /// Where appends ended.
    pub appends: Vec<usize>,
    made: u32,
    numbers: [u8; 8],
    taken: usize,
    aloud: bool,
}

impl World {
    pub fn new(aloud: bool) -> Self {
        let tabs = vec![Tab::default(), Tab { appends: true, ..Tab::default() }, Tab::default()];
        Self {
            talk: Talk::default(),
            reference: Reference::default(),
            ledger: Ledger::default(),
            tabs,
            asked: Vec::new(),
            appends: Vec::new(),
            made: 0,
            numbers: [0; 8],
            taken: 0,
            aloud,
        }
    }

    pub fn step(&mut self, what: u8, numbers: [u8; 8]) {
        (self.numbers, self.taken) = (numbers, 0);
        self.act(what);
        self.same();
        if self.aloud {
            self.show();
        }
    }

    /// The next number below `below`.
    pub fn number(&mut self, below: usize) -> usize {
        self.taken += 1;
        let n = usize::from(self.numbers[self.taken % 8]) + 7 * (self.taken / 8);
        n % below.max(1)
    }

    pub fn chance(&mut self, of: usize) -> bool {
        self.number(of) == 0
    }

    pub fn one<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        let at = self.number(of.len());
        of.get(at).cloned()
    }

    pub fn fresh(&mut self, stem: &str) -> String {
        self.made += 1;
        format!("{stem}{}", self.made)
    }

    pub fn tell(&self, what: impl FnOnce() -> String) {
        if self.aloud {
            eprintln!("{}", what());
        }
    }

    fn show(&self) {
        let reference = &self.reference;
        eprintln!("    conversation {:?}", reference.tree.reads(reference.tree.head));
        if let Some(turn) = &reference.turn {
            let queue: Vec<_> = reference.queue.iter().map(|waiting| &waiting.id).collect();
            eprintln!("    {} {:?}, behind it {queue:?}, open {:?}", turn.id, turn.phase, reference.tree.open_calls());
        }
    }

    /// Records that the engine wrote: what their ids say is learned, the ledger is kept.
    pub fn learn(&mut self, records: &[Record]) {
        for record in records {
            match &record.body {
                Body::MessageNew(new) => {
                    let says = match (&new.copied_from, &new.message) {
                        (Some(original), _) => self.reference.ids[original.as_str()].clone(),
                        (None, Some(message)) => name_of(message),
                        (None, None) => panic!("{} says nothing", new.id),
                    };
                    if new.call_id.is_some() {
                        for attempt in self.reference.attempts.clone() {
                            self.reference.ids.insert(attempt, says.clone());
                        }
                    }
                    self.reference.ids.insert(new.id.to_string(), says.clone());
                    for id in &new.known_as {
                        self.reference.ids.insert(id.to_string(), says.clone());
                    }
                }
                Body::TurnQueued(queued) => {
                    for message in &queued.messages {
                        let id = message.id.as_ref().expect("an id").to_string();
                        self.reference.ids.entry(id).or_insert_with(|| name_of(message));
                    }
                }
                Body::CallStarted(call) => {
                    if call.attempt == 1 {
                        self.reference.attempts.clear();
                    }
                    self.reference.attempts.push(call.reply_id.to_string());
                    self.reference.replies.push(call.reply_id.to_string());
                }
                _ => {}
            }
        }
        if self.talk.session.turn.as_ref().is_none_or(|turn| turn.call.is_none()) {
            self.reference.attempts.clear();
        }
        self.ledger.take(records);
        self.appends.push(self.talk.log.len());
    }

    /// Sends an input to the engine and to the reference: the same comes of it. Whether it was taken.
    pub fn submit(&mut self, ask: &Ask) -> Option<Answer> {
        self.see_a_reply();
        let before = self.talk.log.len();
        let depth = self.reference.queue.len();
        self.tell(|| brief(ask));
        let came = self.talk.submit(&asked(ask));
        let expected = self.reference.submit(ask);
        self.reference.written = None;
        self.tell(|| format!("    {}", told(&came, &expected)));
        match (came, expected) {
            (Ok((records, accepted)), Ok(answer)) => {
                self.learn(&records);
                self.ledger.promise(&accepted);
                assert_eq!(answered(&accepted), answer, "the answer");
                assert_eq!(accepted.queued, accepted.position.is_some());
                self.asked.push(ask.clone());
                Some(answer)
            }
            (Err(refusal), Err((code, turn))) => {
                assert_eq!(refusal.code, code, "{refusal}");
                assert_eq!(self.talk.log.len(), before, "a refusal writes nothing");
                if code == Code::TurnAlreadyActive {
                    assert_eq!(refusal.details["turn_id"].as_str(), turn.as_deref(), "the turn that is there");
                    assert_eq!(refusal.details["queue_depth"].as_u64(), Some(depth as u64));
                }
                None
            }
            (came, expected) => panic!("the engine: {came:?}, the reference: {expected:?}"),
        }
    }

    /// Perhaps readers saw something of the running reply.
    pub fn see_a_reply(&mut self) {
        let calls = self.talk.session.turn.as_ref().is_some_and(|turn| turn.call.is_some());
        if calls && self.chance(2) {
            let text = self.fresh("half");
            self.reference.written = Some(text.clone());
            self.talk.written = Some(Message::text(Role::Assistant, text));
        }
    }

    /// The tab shows what is recorded.
    pub fn adopt(&mut self, tab: usize) {
        let sent = |message: &Message| {
            let said = Said {
                says: name_of(message),
                text: text_of(message),
                answers: message.tool_call_id.as_ref().map(ToString::to_string),
                ..Said::new(message.role, "")
            };
            Sent { id: message.id.as_ref().map(ToString::to_string), said }
        };
        self.tabs[tab].list = self.talk.snapshot().iter().map(sent).collect();
    }

    /// The process dies after an append; another folds the log and takes over.
    pub fn crash(&mut self) {
        self.tell(|| "the process dies".to_owned());
        let mut again = Session::default();
        for stored in &self.talk.log {
            again.evolve(Record::decode(stored).unwrap()).unwrap();
        }
        assert_eq!(engine::wanted(&again), engine::wanted(&self.talk.session), "the same is to be done");
        assert_eq!(again.queue, self.talk.session.queue);
        self.talk.session = again;
        self.talk.written = None;
        let records = self.talk.recover();
        self.reference.recover();
        self.learn(&records);
        assert!(self.talk.session.turn.is_none() || self.talk.session.is_waiting() || self.talk.call().is_some());
    }

    /// The conversation goes on in another session, with a log of its own.
    pub fn go_on_in(&mut self, talk: Talk, reference: Reference, records: &[Record]) {
        (self.talk, self.reference) = (talk, reference);
        (self.ledger, self.asked, self.appends) = (Ledger::default(), Vec::new(), Vec::new());
        self.learn(records);
    }
}

pub fn name_of(message: &Message) -> String {
    message.tool_call_id.as_ref().map_or_else(|| text_of(message), |call| result_name(call.as_str()))
}

fn text_of(message: &Message) -> String {
    match &message.content {
        Some(Content::Text(text)) => text.clone(),
        Some(Content::Parts(_) | Content::Object(_)) | None => String::new(),
    }
}

fn message_of(sent: &Sent) -> Message {
    let said = &sent.said;
    let calls = said.calls.iter().map(|call| ToolCall::new(call.as_str().into(), "pick", "{}")).collect();
    Message {
        id: sent.id.as_ref().map(|id| NodeId::from(id.as_str())),
        tool_calls: calls,
        tool_call_id: said.answers.as_ref().map(|call| call.as_str().into()),
        ..Message::text(said.role, said.text.as_str())
    }
}

/// The input as the engine takes it.
fn asked(ask: &Ask) -> Asked {
    let (kind, sent) = match &ask.body {
        AskBody::View(view) => (Kind::View, view.as_slice()),
        AskBody::Message(sent) => (Kind::Message, std::slice::from_ref(sent)),
        AskBody::Append(sent) => (Kind::Append, sent.as_slice()),
        AskBody::Result(sent) => (Kind::Result, std::slice::from_ref(sent)),
    };
    let tool = Tool { name: "pick".to_owned(), description: String::new(), parameters: None, metadata: None };
    let tools = ask.tools.map(|offered| if offered { vec![tool] } else { Vec::new() });
    Asked {
        kind,
        agent: ask.agent.as_str().into(),
        messages: sent.iter().map(message_of).collect(),
        options: ViewOptions { partial_view: if ask.appends { PartialView::Append } else { PartialView::Root }, ..ViewOptions::default() },
        turn_id: Some(ask.turn.as_str().into()),
        run: ask.run,
        on_busy: ask.on_busy,
        client: Client { tools, ..Client::default() },
        show: false,
    }
}

fn answered(accepted: &Accepted) -> Answer {
    Answer {
        turn: accepted.turn_id.to_string(),
        reply: accepted.reply,
        duplicate: accepted.duplicate,
        position: accepted.position,
        waiting: accepted.waiting.iter().map(ToString::to_string).collect(),
    }
}

/// An input in short.
fn brief(ask: &Ask) -> String {
    let one = |sent: &Sent| format!("{}({})", sent.id.as_deref().unwrap_or("_"), sent.said.says);
    let all = |sent: &[Sent]| sent.iter().map(one).collect::<Vec<_>>().join(" ");
    let body = match &ask.body {
        AskBody::View(view) => format!("view [{}]", all(view)),
        AskBody::Message(sent) => format!("message {}", one(sent)),
        AskBody::Append(sent) => format!("append [{}]", all(sent)),
        AskBody::Result(sent) => format!("result {}", one(sent)),
    };
    let Ask { turn, agent, run, on_busy, tools, appends, .. } = ask;
    format!("{turn} of {agent}: {body} run {run:?} busy {on_busy:?} tools {tools:?} appends {appends}")
}

fn told(came: &Result<(Vec<Record>, Accepted), Refusal>, expected: &Result<Answer, Refused>) -> String {
    let came = match came {
        Ok((records, accepted)) => {
            let kinds: Vec<String> =
                records.iter().map(|record| format!("{:?}", record.body).split(['(', ' ']).next().unwrap_or_default().to_owned()).collect();
            format!("{:?} {}", answered(accepted), kinds.join(" "))
        }
        Err(refusal) => format!("{:?}: {}", refusal.code, refusal.message),
    };
    format!("engine {came}\n    reference {expected:?}")
}
