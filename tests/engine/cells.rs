//! Every state of a session's turn against every input: what becomes of it stands in `cells.txt`, one row an input, one column a
//! state. A cell says in order what happens: `take` results are recorded · `stop`, `over`, `leave` the turn that was there ends, for it
//! was stopped, superseded, or its branch was left · `drop` turns that waited are given up · `next` one that waited begins · `go` the turn
//! goes on · `end` it ends well · `start`, `write`, `queue`, `join` the input begins a turn, is recorded without a reply, waits, joins one that waits · `steer`, `event` it waits for a call · `move` the
//! head moves · `name` a node gets a name · `dup` it is known · `wait` the turn goes on waiting · `none` nothing. A refusal is `busy` (409, it names the turn), `open` or `closed` (409, calls),
//! `full` (429), `bad` (400) or `404`.

use std::collections::BTreeMap;

use headwater::engine::record::{Body, Record};
use headwater::ids::{NodeId, TurnId};
use headwater::protocol::{
    Accepted, CallErrorKind, CancelReason, Code, HeadMove, HeadTo, Message, OnBusy, PartialView, Refusal, Role, SessionUpdate, ToolCall,
    ViewOptions,
};

use crate::talk::{Asked, Kind, Talk};

const TABLE: &str = include_str!("cells.txt");

/// What the turn does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Does {
    Nothing,
    Runs,
    RunsSeen,
    Retries,
    /// Its call waits for room.
    Held,
    Waits,
    WaitsForOne,
}

/// What waits for it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Queue {
    Empty,
    Closed,
    Open,
    Full,
    /// A message that joins the turn.
    Steered,
    /// Something that happened.
    Happened,
    /// Something that happened, a message that joins the turn, a turn.
    Mixed,
}

/// A session in one of the states: two branches, `u1 a1 x2 b2` and `u1 a1 u2 …`, the second active; turn T answers u2.
struct Case {
    talk: Talk,
    does: Does,
    queue: Queue,
    /// The conversation as the front end holds it, without a reply that is being written.
    held: Vec<Message>,
}

fn user(id: &str) -> Message {
    Message::text(Role::User, id).with_id(id.into())
}

fn result(id: &str, call: &str) -> Message {
    Message { tool_call_id: Some(call.into()), ..Message::text(Role::Tool, id) }.with_id(id.into())
}

fn named(turn: &str, asked: Asked) -> Asked {
    Asked { turn_id: Some(turn.into()), ..asked }
}

impl Case {
    fn new(does: Does, queue: Queue) -> Self {
        let mut case = Self { talk: Talk::default(), does, queue, held: Vec::new() };
        for (said, id) in [("u1", "T1"), ("x2", "T2")] {
            case.held.truncate(2);
            case.say(said, id);
            case.finish("a reply", &[]);
        }
        case.held.truncate(2);
        if does == Does::Held {
            let options = r#"{"strategy":[{"use":"summarize","over_tokens":1}]}"#;
            case.talk.configure("bot", None, &serde_json::from_str(options).unwrap());
        }
        case.say("u2", "T");
        match does {
            Does::Nothing => case.finish("a reply", &[]),
            Does::Runs => {}
            Does::Held => assert!(case.talk.session.turn.as_ref().unwrap().held.is_some()),
            Does::RunsSeen => case.talk.written = Some(Message::text(Role::Assistant, "half")),
            Does::Retries => drop(case.talk.fail(CallErrorKind::Cut, None)),
            Does::Waits | Does::WaitsForOne => case.finish("calls", &["c1", "c2"]),
        }
        if does == Does::WaitsForOne {
            let answer = Asked { kind: Kind::Result, ..named("R1", Asked::view(vec![result("t1", "c1")])) };
            case.talk.submit(&answer).unwrap();
            case.held.push(result("t1", "c1"));
        }
        let written = case.talk.written.take();
        for (kind, on_busy, ids) in queue.inputs() {
            for id in *ids {
                let asked = Asked { kind: *kind, on_busy: *on_busy, ..Asked::view(vec![user(id)]) };
                case.talk.submit(&named(&id.to_uppercase(), asked)).unwrap();
            }
        }
        case.talk.written = written;
        case
    }

    fn say(&mut self, id: &str, turn: &str) {
        self.held.push(user(id));
        self.talk.submit(&named(turn, Asked::view(self.held.clone()).with_tools(&["pick"]))).unwrap();
    }

    fn finish(&mut self, text: &str, calls: &[&str]) {
        let calls: Vec<ToolCall> = calls.iter().map(|&id| ToolCall::new(id.into(), "pick", "{}")).collect();
        let (id, _) = self.talk.finish(text, calls);
        self.held.push(Message::text(Role::Assistant, text).with_id(id));
    }

    fn with(&self, more: &[Message]) -> Vec<Message> {
        [&self.held[..], more].concat()
    }

    /// The last message that waits; a new one where none does.
    fn waiting(&self) -> Message {
        user(self.queue.inputs().last().and_then(|(.., ids)| ids.last()).unwrap_or(&"w"))
    }

    fn reply(&self) -> Vec<Message> {
        self.talk.reply_id().map(|id| Message::text(Role::Assistant, "ha").with_id(id)).into_iter().collect()
    }

    fn other_branch(&self) -> Vec<Message> {
        let tree = &self.talk.session.tree;
        let x2 = tree.find(&"x2".into());
        let b2 = (0..u32::try_from(tree.len()).unwrap()).find(|&ix| tree.parent(ix) == x2 && x2.is_some()).unwrap();
        [&self.held[..2], &[user("x2"), Message::text(Role::Assistant, "b2").with_id(tree.id(b2))]].concat()
    }

    /// The submit of a row; none: it is no submit.
    fn asked(&self, input: &str) -> Option<Asked> {
        let view = |messages: Vec<Message>| Asked::view(messages);
        let only_new = ViewOptions { partial_view: PartialView::Append, ..ViewOptions::default() };
        let of = |kind: Kind, messages: Vec<Message>| Asked { kind, ..Asked::view(messages) };
        let answers = match self.does {
            Does::WaitsForOne => vec![result("t2", "c2")],
            Does::Nothing | Does::Runs | Does::RunsSeen | Does::Retries | Does::Held | Does::Waits => {
                vec![result("t1", "c1"), result("t2", "c2")]
            }
        };
        Some(match input {
            "view.says-more" => view(self.with(&[user("n")])),
            "view.says-more-to-reply" => view([self.held.clone(), self.reply(), vec![user("n")]].concat()),
            "view.says-more-after-what-waits" => view(self.with(&[self.waiting(), user("n")])),
            "view.again" => view(self.held.clone()),
            "view.again,run" => Asked { run: Some(true), ..view(self.held.clone()) },
            "view.again-with-reply" => view([self.held.clone(), self.reply()].concat()),
            "view.of-what-waits" => view(self.with(&[self.waiting()])),
            "view.empty" => view(Vec::new()),
            "view.regenerates" => view(self.held[..3].to_vec()),
            "view.regenerates-above" => view(self.held[..1].to_vec()),
            "view.switches" => view(self.other_branch()),
            "view.edits" => view([&self.held[..2], &[user("n")]].concat()),
            "view.begins-anew" => view(vec![user("n")]),
            "view.keeps-a-tail" => view([&[user("n")], &self.held[1..3]].concat()),
            "view.answers-all" => view(self.with(&answers)),
            "view.answers-all,norun" => Asked { run: Some(false), ..view(self.with(&answers)) },
            "view.answers-one" => view(self.with(&answers[..1])),
            "view.answers-and-says" => view(self.with(&[answers[..1].to_vec(), vec![user("n")]].concat())),
            "view.only-new" => Asked { options: only_new, ..view(vec![user("n")]) },
            "view.only-answers" => Asked { options: only_new, ..view(answers) },
            "view.twice" => view(self.with(&[user("n"), user("n")])),
            "view.forges" => view(self.with(&[result("t9", "c9")])),
            "message.new" => of(Kind::Message, vec![user("n")]),
            "message.new,norun" => Asked { run: Some(false), ..of(Kind::Message, vec![user("n")]) },
            "message.known" => of(Kind::Message, vec![user("u1")]),
            "message.last" => of(Kind::Message, vec![user("u2")]),
            "message.waits" => of(Kind::Message, vec![self.waiting()]),
            "message.forged" => of(Kind::Message, vec![user("hw_0")]),
            "append.new" => of(Kind::Append, vec![user("n"), user("m")]),
            "append.known" => of(Kind::Append, vec![user("u1"), user("u2")]),
            "append.elsewhere" => of(Kind::Append, vec![user("x2")]),
            "append.empty" => of(Kind::Append, Vec::new()),
            "append.system" => of(Kind::Append, vec![Message::text(Role::System, "rules").with_id("s".into())]),
            "append.answers" => of(Kind::Append, answers),
            "event.new" => of(Kind::Event, vec![user("n")]),
            "event.new,run" => Asked { run: Some(true), ..of(Kind::Event, vec![user("n")]) },
            "event.new,shown" => Asked { show: true, ..of(Kind::Event, vec![user("n")]) },
            "event.known" => of(Kind::Event, vec![user("u1")]),
            "event.waits" => of(Kind::Event, vec![self.waiting()]),
            "event.forged" => of(Kind::Event, vec![user("hw_0")]),
            "result.c1" => of(Kind::Result, vec![result("r1", "c1")]),
            "result.c2" => of(Kind::Result, vec![result("r2", "c2")]),
            "result.c1-again" => of(Kind::Result, vec![Message { id: None, ..result("t1", "c1") }]),
            "result.unknown" => of(Kind::Result, vec![result("r9", "c9")]),
            _ => return None,
        })
    }

    fn play(&mut self, input: &str, on_busy: OnBusy) -> String {
        let before = Before::of(&self.talk);
        let played = match self.asked(input) {
            Some(asked) => self.submit(&before, &named("N", Asked { on_busy, ..asked })),
            None => self.act(input),
        };
        match played {
            Err(refusal) => {
                assert_eq!(self.talk.session.seq, before.seq, "{input}: a refusal writes nothing");
                before.must_name_the_turn(&refusal);
                short(refusal.code)
            }
            Ok(Played { records, accepted }) => {
                let keeps = records.iter().any(|record| matches!(&record.body, Body::MessageNew(new) if new.partial));
                let voids = records.iter().any(|record| matches!(record.body, Body::CallVoided(_)));
                assert_eq!(keeps, voids && self.does == Does::RunsSeen, "what was seen of a stopped reply is kept");
                told(&before, &records, accepted.as_ref())
            }
        }
    }

    fn submit(&mut self, before: &Before, asked: &Asked) -> Result<Played, Refusal> {
        let (records, accepted) = self.talk.submit(asked)?;
        assert_eq!(accepted.queued, self.talk.session.queue.position(&accepted.turn_id).is_some(), "queued means that it waits");
        assert_eq!(accepted.position, self.talk.session.queue.position(&accepted.turn_id));
        let waits = self.talk.session.turn.as_ref().is_some_and(|turn| turn.id == accepted.turn_id) && self.talk.session.is_waiting();
        assert_eq!(!accepted.waiting.is_empty(), waits, "it says what it waits for");
        if records.is_empty() {
            assert!(self.talk.session.seq == before.seq);
        } else {
            // The same again is known, whatever was written.
            let (again, known) = self.talk.submit(asked).expect("the same again is no mistake");
            assert!(again.is_empty() && known.duplicate, "{known:?}");
            assert_eq!(known.turn_id, accepted.turn_id, "it has the same turn");
        }
        Ok(Played { records, accepted: Some(accepted) })
    }

    fn act(&mut self, input: &str) -> Result<Played, Refusal> {
        let turn = |id: &str| Some(TurnId::from(id));
        let to = |to: HeadTo, label: Option<&str>| HeadMove { to, label: label.map(str::to_owned) };
        let node = |id: NodeId| HeadTo::Node(Some(id));
        let waits = self.waiting().id.map_or_else(String::new, |id| id.as_str().to_uppercase());
        let b2 = self.other_branch()[3].id.clone().unwrap();
        let same = self.talk.head_id().unwrap();
        let records = match input {
            "cancel" => self.talk.cancel(None),
            "cancel.there" => self.talk.cancel(turn("T").as_ref()),
            "cancel.waits" => self.talk.cancel(turn(&waits).as_ref()),
            "cancel.ended" => self.talk.cancel(turn("T1").as_ref()),
            "cancel.unknown" => self.talk.cancel(turn("nobody").as_ref()),
            "head.same" => self.talk.move_head(&to(node(same), None))?.0,
            "head.elsewhere" => self.talk.move_head(&to(node(b2), None))?.0,
            "head.u2" => self.talk.move_head(&to(node("u2".into()), None))?.0,
            "head.nowhere" => self.talk.move_head(&to(HeadTo::Node(None), None))?.0,
            "head.unknown" => self.talk.move_head(&to(node("nobody".into()), None))?.0,
            "head.names" => self.talk.move_head(&to(HeadTo::Stay, Some("here")))?.0,
            "head.names-nothing" => self.talk.move_head(&to(HeadTo::Node(None), Some("here")))?.0,
            "head.by-no-name" => self.talk.move_head(&to(HeadTo::Label("nowhere".to_owned()), None))?.0,
            "update" => {
                let asked = SessionUpdate { title: Some(Some("title".to_owned())), archived: Some(true) };
                let records = self.talk.update(&asked)?;
                assert!(self.talk.update(&asked)?.is_empty(), "it is so already");
                records
            }
            "fork" => {
                let seq = self.talk.session.seq;
                let (fork, _) = self.talk.fork(None)?;
                assert_eq!(self.talk.session.seq, seq, "a fork leaves its source alone");
                assert_eq!(fork.reader_view().len(), self.talk.reader_view().len());
                Vec::new()
            }
            "recover" if self.does == Does::Nothing => Vec::new(),
            "recover" => {
                let records = self.talk.recover();
                assert!(records.iter().all(|record| matches!(record.body, Body::TurnRecovered(_) | Body::CallStarted(_))));
                Vec::new()
            }
            input => panic!("no such input: {input}"),
        };
        Ok(Played { records, accepted: None })
    }
}

impl Queue {
    /// What was submitted.
    fn inputs(self) -> &'static [(Kind, OnBusy, &'static [&'static str])] {
        const SAID: Kind = Kind::Message;
        match self {
            Self::Empty => &[],
            Self::Closed => &[(SAID, OnBusy::Queue, &["q1"])],
            Self::Open => &[(SAID, OnBusy::Queue, &["q1"]), (SAID, OnBusy::Merge, &["m1", "m2"])],
            Self::Full => &[(SAID, OnBusy::Queue, &["q1", "q2", "q3", "q4"])],
            Self::Steered => &[(SAID, OnBusy::Steer, &["s1"])],
            Self::Happened => &[(Kind::Event, OnBusy::Refuse, &["e1"])],
            Self::Mixed => &[(Kind::Event, OnBusy::Refuse, &["e1"]), (SAID, OnBusy::Queue, &["q1"]), (SAID, OnBusy::Steer, &["s1"])],
        }
    }
}

struct Played {
    records: Vec<Record>,
    accepted: Option<Accepted>,
}

/// What a refusal must say, and what the records are compared with.
struct Before {
    seq: u64,
    turn: Option<(TurnId, u64)>,
    queue: Vec<TurnId>,
    arrivals: Vec<TurnId>,
}

impl Before {
    fn of(talk: &Talk) -> Self {
        let session = &talk.session;
        let turn = session.turn.as_ref().map(|turn| (turn.id.clone(), turn.started_at));
        let queue = session.queue.iter().map(|queued| queued.id.clone()).collect();
        let arrivals = session.arrivals.iter().map(|arrival| arrival.id.clone()).collect();
        Self { seq: session.seq, turn, queue, arrivals }
    }

    fn must_name_the_turn(&self, refusal: &Refusal) {
        if refusal.code != Code::TurnAlreadyActive {
            return;
        }
        let (turn, at) = self.turn.as_ref().expect("a 409 names a turn that is there");
        let details = &refusal.details;
        assert_eq!((details["turn_id"].as_str(), details["started_at"].as_u64()), (Some(turn.as_str()), Some(*at)));
        assert_eq!(details["queue_depth"].as_u64(), Some(self.queue.len() as u64));
    }
}

/// A refusal in a word.
fn short(code: Code) -> String {
    match code {
        Code::TurnAlreadyActive => "busy",
        Code::CallNotOpen => "closed",
        Code::CallsOpen => "open",
        Code::QueueFull => "full",
        Code::BadRequest | Code::ReservedId | Code::DuplicateMessageId => "bad",
        Code::NodeNotFound | Code::LabelNotFound => "404",
        code => panic!("{code} isn't expected"),
    }
    .to_owned()
}

/// What happened, in words.
fn told(before: &Before, records: &[Record], accepted: Option<&Accepted>) -> String {
    let was = before.turn.as_ref().map(|(id, _)| id);
    let mut said: Vec<&str> = Vec::new();
    let mut started: Option<&TurnId> = None;
    for record in records {
        let word = match &record.body {
            Body::MessageNew(new) if new.message.as_ref().is_some_and(|message| message.role == Role::Tool) => "take",
            Body::TurnCancelled(cancelled) if Some(&cancelled.turn_id) == was => match cancelled.reason {
                None => "stop",
                Some(CancelReason::Superseded) => "over",
                Some(CancelReason::BranchLeft) => "leave",
                Some(CancelReason::Imported) => "imported",
            },
            Body::TurnCancelled(_) => "drop",
            Body::TurnStarted(turn) => {
                started = Some(&turn.turn_id);
                if before.queue.contains(&turn.turn_id) || before.arrivals.contains(&turn.turn_id) { "next" } else { "start" }
            }
            Body::TurnCompleted(ended) if Some(&ended.turn_id) == was => "end",
            Body::TurnCompleted(ended) if !before.queue.contains(&ended.turn_id) => {
                said.pop();
                "write"
            }
            Body::TurnQueued(queued) => {
                if queued.into.is_some() {
                    "join"
                } else {
                    "queue"
                }
            }
            Body::ArrivalQueued(queued) => {
                if queued.joins.is_some() {
                    "steer"
                } else {
                    "event"
                }
            }
            Body::CallStarted(_) | Body::ContextLimited(_) if started.is_none() => "go",
            Body::SessionUpdated(_) => "update",
            Body::HeadMoved(moved) => {
                if moved.label.is_some() {
                    "name"
                } else {
                    "move"
                }
            }
            _ => continue,
        };
        if said.last() != Some(&word) {
            said.push(word);
        }
    }
    match (said.is_empty(), accepted) {
        (true, Some(accepted)) if accepted.duplicate => "dup".to_owned(),
        (_, Some(accepted)) if !accepted.waiting.is_empty() => [&said[..], &["wait"]].concat().join("+"),
        (true, _) => "none".to_owned(),
        (false, _) => said.join("+"),
    }
}

/// The columns, and the states that each stands for.
fn columns() -> Vec<(String, Vec<(Does, Queue)>)> {
    let mut columns = vec![("idle".to_owned(), vec![(Does::Nothing, Queue::Empty)])];
    columns.push(("idle,event".to_owned(), vec![(Does::Nothing, Queue::Happened)]));
    let runs: &[Does] = &[Does::Runs, Does::RunsSeen, Does::Retries, Does::Held];
    let kinds: [(&str, &[Does]); 3] = [("runs", runs), ("waits", &[Does::Waits]), ("waits-for-one", &[Does::WaitsForOne])];
    let beside = [
        ("", Queue::Empty),
        (",closed", Queue::Closed),
        (",open", Queue::Open),
        (",full", Queue::Full),
        (",steered", Queue::Steered),
        (",mixed", Queue::Mixed),
    ];
    for (name, does) in kinds {
        for (queue, with) in beside {
            columns.push((format!("{name}{queue}"), does.iter().map(|&does| (does, with)).collect()));
        }
    }
    columns
}

fn flags(word: &str) -> Vec<OnBusy> {
    match word {
        "refuse" | "-" => vec![OnBusy::Refuse],
        "queue" => vec![OnBusy::Queue],
        "merge" => vec![OnBusy::Merge],
        "steer" => vec![OnBusy::Steer],
        "cancel" => vec![OnBusy::Cancel],
        "waits" => vec![OnBusy::Queue, OnBusy::Merge],
        "behind" => vec![OnBusy::Queue, OnBusy::Merge, OnBusy::Steer],
        "any" => vec![OnBusy::Refuse, OnBusy::Queue, OnBusy::Merge, OnBusy::Steer, OnBusy::Cancel],
        _ => panic!("{word} is no flag"),
    }
}

#[test]
fn every_state_has_an_answer_to_every_input() {
    let mut lines = TABLE.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let columns = columns();
    let head: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(head[2..], names[..], "the columns");
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for line in lines {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let (input, flag, cells) = (cells[0], cells[1], &cells[2..]);
        assert_eq!(cells.len(), columns.len(), "{input} {flag} has a cell for each state");
        for ((name, states), cell) in columns.iter().zip(cells) {
            for &(does, queue) in states {
                for on_busy in flags(flag) {
                    let came = Case::new(does, queue).play(input, on_busy);
                    if came != *cell {
                        wrong.push(format!("{input} {on_busy:?} while it {name} ({does:?}): {came}, not {cell}"));
                    }
                }
            }
        }
        *seen.entry(input).or_default() += if flag == "-" { 5 } else { flags(flag).len() };
    }
    assert!(seen.values().all(|&flags| flags == 5), "each input with each flag: {seen:?}");
    assert!(wrong.is_empty(), "{} cells:\n{}", wrong.len(), wrong.join("\n"));
}
