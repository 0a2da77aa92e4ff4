//! The runtime over a memory store and a model that the test plays, on one thread without a web server.

mod asking;
mod contents;
mod deciding;
mod encrypted;
mod erasing;
mod events;
mod executing;
mod jobs;
mod lists;
mod queue;
mod readers;
mod relayed;
mod restart;
mod snapshots;
mod stopping;
mod threads;
mod transfers;
mod upstream;

use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{cell::RefCell, rc::Rc};

use futures_util::{StreamExt as _, stream};
use tokio::sync::mpsc;

use super::*;
use crate::draw::draw;
use crate::ids::{SessionId, Tenant};
use crate::protocol::{
    CallError, CallErrorKind, CallRequest, Client, Event, EventBody, Finish, HeadTo, InputBody, Live, Message, OnBusy, Role, SessionStatus,
    TreeQuery, TreeView, ViewOptions,
};
use crate::provider::{Attempt, Chunk, Provider};
use crate::store::faulty::{Fault, Faulty};
use crate::store::memory::Memory;

type Piece = Result<Chunk, CallError>;
type Asked = (CallRequest, mpsc::UnboundedSender<Piece>);

/// A model whose attempts the test plays: each start hands out its request and takes pieces.
#[derive(Clone, Default)]
struct Played(Arc<Mutex<Vec<Asked>>>);

impl Played {
    async fn asked(&self) -> Asked {
        tokio::time::timeout(Duration::from_hours(1), async {
            while self.0.lock().unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await
        .expect("the model is asked");
        self.0.lock().unwrap().remove(0)
    }

    /// Answers the next attempt with all of `words`; what it was asked.
    async fn answers(&self, words: &str) -> CallRequest {
        let (request, model) = self.asked().await;
        model.send(says(words)).unwrap();
        model.send(Ok(Chunk::Finished(Finish::Stop))).unwrap();
        request
    }
}

impl Provider for Played {
    fn start(&self, request: CallRequest) -> Attempt {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.0.lock().unwrap().push((request, sender));
        stream::unfold(receiver, |mut receiver| async move { receiver.recv().await.map(|piece| (piece, receiver)) }).boxed_local()
    }
}

const LIMITS: &str = "readers_max = 4\nsession_requests_max = 3\nreader_batches_max = 64\nreader_bytes_max = 4194304\ncalls_per_turn_max = 3\nqueue_turns_max = 4\nqueue_messages_max = 8\nreply_bytes_max = 1000\nidle_secs = 60\ndrain_secs = 30";

struct Bench {
    runtime: Runtime,
    model: Played,
    store: Arc<Faulty>,
}

impl Bench {
    fn new() -> Self {
        Self::over(Arc::new(Faulty::new(Arc::new(Memory::new()))))
    }

    fn over(store: Arc<Faulty>) -> Self {
        let model = Played::default();
        let runtime = made(&model, store.clone(), LIMITS);
        Self { runtime, model, store }
    }

    async fn say(&self, turn: &str, messages: &[(&str, Role, &str)]) -> Result<Submitted, Refusal> {
        self.runtime.submit(&key(), input(turn, messages)).await
    }

    /// One message at the head.
    async fn add(&self, turn: &str, id: &str, on_busy: OnBusy) -> Result<Submitted, Refusal> {
        let body = InputBody::Append { messages: vec![Message::text(Role::User, format!("says {id}")).with_id(id.into())] };
        self.runtime.submit(&key(), Input { on_busy, body, ..input(turn, &[]) }).await
    }

    async fn tree(&self) -> String {
        let page = self.runtime.tree(&key(), TreeQuery { view: TreeView::Reader, after: None, limit: 100 }).await.unwrap();
        let drawn = draw(&page.nodes, page.head_id.as_ref());
        // Made ids are random; name them by their order.
        let mut names: Vec<&str> = page.nodes.iter().map(|node| node.id.as_str()).filter(|id| id.starts_with("hw_")).collect();
        names.dedup();
        names.iter().enumerate().fold(drawn, |drawn, (n, id)| drawn.replace(id, &format!("r{}", n + 1)))
    }
}

fn input(turn: &str, messages: &[(&str, Role, &str)]) -> Input {
    let messages = messages.iter().map(|(id, role, text)| Message::text(*role, *text).with_id((*id).into())).collect();
    let body = InputBody::Messages { messages, options: ViewOptions::default() };
    Input { agent_id: "bot".into(), turn_id: Some(turn.into()), run: None, client: Client::default(), on_busy: OnBusy::Refuse, body }
}

fn key() -> SessionKey {
    SessionKey { tenant: Tenant::default_tenant(), session: SessionId::from("s") }
}

fn reader(submitted: Submitted) -> Reader {
    match submitted.following {
        Following::Running(reader) => reader,
        Following::Ended(end) => panic!("the turn has ended: {end:?}"),
    }
}

/// All that a reader is told until its turn ends.
async fn rest(mut reader: Reader) -> Vec<Event> {
    let mut events = Vec::new();
    while let Ok(batch) = reader.next().await {
        events.extend(batch.events.iter().cloned());
    }
    events
}

fn texts(snapshot: &Snapshot) -> Vec<String> {
    snapshot.messages.iter().map(|message| message.joined_text()).collect()
}

fn text(events: &[Event]) -> String {
    let delta = |event: &Event| if let EventBody::Live(Live::Text { delta, .. }) = &event.body { Some(delta.clone()) } else { None };
    events.iter().filter_map(delta).collect()
}

#[expect(clippy::unnecessary_wraps, reason = "pieces are results")]
fn says(words: &str) -> Piece {
    Ok(Chunk::Text(words.to_owned()))
}

/// An agent `bot` that asks `model`.
fn options(model: &Played, agent: &str) -> Options {
    let model = model.clone();
    let factory = Arc::new(move || -> Box<dyn Provider> { Box::new(model.clone()) });
    Options {
        agents: BTreeMap::from([(AgentId::from("bot"), toml::from_str(agent).unwrap())]),
        llms: BTreeMap::from([("played".to_owned(), Llm { factory, attempts: 2, abilities: Abilities::default() })]),
        workers: BTreeMap::new(),
        dialling: Hub::default(),
        limits: toml::from_str(LIMITS).unwrap(),
    }
}

/// A runtime whose agent `bot` asks `model`, entered by this thread.
fn made(model: &Played, store: Arc<Faulty>, limits: &str) -> Runtime {
    let options = options(model, "llm = \"played\"\nsystem = \"Be kind.\"");
    let runtime = Runtime::new(Options { limits: toml::from_str(limits).unwrap(), ..options }, store);
    runtime.enter();
    runtime
}

/// Runs on a paused clock, on one thread, with local tasks.
fn run<F: Future<Output = ()>>(test: F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(tokio::task::LocalSet::new().run_until(test));
}

#[test]
fn a_turn_is_two_appends_and_its_text_comes_once() {
    run(async {
        let bench = Bench::new();
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        assert_eq!(submitted.accepted.recorded, ["u1".into()]);
        let (request, model) = bench.model.asked().await;
        assert_eq!(request.system.as_deref(), Some("Be kind."));
        assert_eq!(request.messages.iter().map(|message| message.joined_text()).collect::<Vec<_>>(), ["hello"]);
        model.send(says("Hi ")).unwrap();
        model.send(says("there.")).unwrap();
        model.send(Ok(Chunk::Finished(Finish::Stop))).unwrap();
        let events = rest(reader(submitted)).await;
        assert_eq!(text(&events), "Hi there.");
        assert!(matches!(events.last().unwrap().body, EventBody::TurnCompleted { .. }));
        assert_eq!(bench.tree().await, "u1 user: hello\nr1 assistant: Hi there.  <- head\n");
        assert_eq!(bench.store.appends(), 2);
    });
}

#[test]
fn nothing_is_told_before_it_is_durable() {
    run(async {
        let bench = Bench::new();
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let (_, model) = bench.model.asked().await;
        bench.store.plan([Fault::HangBefore]);
        model.send(says("All of it.")).unwrap();
        model.send(Ok(Chunk::Finished(Finish::Stop))).unwrap();
        let mut reader = reader(submitted);
        let mut seen = Vec::new();
        while let Ok(Ok(batch)) = tokio::time::timeout(Duration::from_secs(1), reader.next()).await {
            seen.extend(batch.events.iter().cloned());
        }
        assert_eq!(text(&seen), "All of it.");
        assert!(!seen.iter().any(|event| matches!(event.body, EventBody::Live(Live::ReplyEnded { .. }) | EventBody::TurnCompleted { .. })));
        bench.store.release();
        let events = rest(reader).await;
        assert!(matches!(events.last().unwrap().body, EventBody::TurnCompleted { .. }));
    });
}

#[test]
fn a_second_submit_is_refused_and_names_the_turn() {
    run(async {
        let bench = Bench::new();
        let _first = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let refusal = bench.say("t2", &[("u1", Role::User, "hello"), ("u2", Role::User, "more")]).await.err().unwrap();
        assert_eq!(refusal.code, Code::TurnAlreadyActive);
        assert_eq!(refusal.details["turn_id"], "t1");
        assert!(refusal.details["started_at"].is_u64());
    });
}

#[test]
fn cancelling_keeps_what_was_said_and_closes_the_call() {
    run(async {
        let bench = Bench::new();
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let (_, model) = bench.model.asked().await;
        model.send(says("Half a ")).unwrap();
        let mut reader = reader(submitted);
        let batch = reader.next().await.unwrap();
        assert_eq!(text(&batch.events), "Half a ");
        assert!(bench.runtime.cancel(&key(), Some("t1".into())).await.unwrap());
        assert!(!bench.runtime.cancel(&key(), None).await.unwrap());
        let events = rest(reader).await;
        assert!(matches!(events.last().unwrap().body, EventBody::TurnCancelled { .. }));
        assert!(model.is_closed(), "nobody waits for the model");
        assert_eq!(bench.tree().await, "u1 user: hello\nr1 assistant (partial): Half a  <- head\n");
        let again = bench.say("t2", &[("u1", Role::User, "hello")]).await.unwrap();
        assert!(again.accepted.reply);
    });
}

#[test]
fn a_failed_attempt_is_tried_again_under_a_new_id_and_leaves_nothing() {
    run(async {
        let bench = Bench::new();
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let (_, model) = bench.model.asked().await;
        model.send(says("Half")).unwrap();
        model.send(Err(CallError::new(CallErrorKind::Cut, "cut"))).unwrap();
        bench.model.answers("Whole").await;
        let events = rest(reader(submitted)).await;
        let resync =
            events.iter().find_map(|event| if let EventBody::Resync(snapshot) = &event.body { Some(snapshot.clone()) } else { None });
        assert_eq!(resync.unwrap().messages.iter().map(|message| message.joined_text()).collect::<Vec<_>>(), ["hello"]);
        assert_eq!(bench.tree().await, "u1 user: hello\nr1 assistant: Whole  <- head\n");
    });
}

#[test]
fn a_call_that_keeps_failing_fails_the_turn_with_its_code() {
    run(async {
        let bench = Bench::new();
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        for _ in 0..2 {
            let (_, model) = bench.model.asked().await;
            model.send(Err(CallError::new(CallErrorKind::Unavailable, "503"))).unwrap();
        }
        let events = rest(reader(submitted)).await;
        assert!(matches!(events.last().unwrap().body, EventBody::TurnFailed { code: Code::LlmUnavailable, .. }));
        assert_eq!(bench.tree().await, "u1 user: hello  <- head\n");
        assert_eq!(bench.runtime.session(&key()).await.unwrap().status, SessionStatus::Idle);
    });
}

#[test]
fn who_joins_in_the_middle_gets_the_rest() {
    run(async {
        let bench = Bench::new();
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let (_, model) = bench.model.asked().await;
        model.send(says("He")).unwrap();
        let mut first = reader(submitted);
        first.next().await.unwrap();
        let joined = bench.runtime.join(&key()).await.unwrap();
        assert_eq!(joined.snapshot.messages.last().unwrap().joined_text(), "He");
        assert!(joined.snapshot.writing.as_ref().unwrap().text);
        model.send(says("llo")).unwrap();
        model.send(Ok(Chunk::Finished(Finish::Stop))).unwrap();
        assert_eq!(text(&rest(joined.running.unwrap().1).await), "llo");
        assert_eq!(text(&rest(first).await), "llo");
    });
}

#[test]
fn a_lost_turn_goes_on_in_another_process() {
    run(async {
        let bench = Bench::new();
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let (_, model) = bench.model.asked().await;
        model.send(says("Half")).unwrap();
        let mut lost = reader(submitted);
        lost.next().await.unwrap();
        let next = Bench::over(bench.store.clone());
        assert_eq!(next.runtime.recover().await.unwrap(), 1);
        next.model.answers("Whole").await;
        let joined = next.runtime.join(&key()).await.unwrap();
        if let Some((_, reader)) = joined.running {
            rest(reader).await;
        }
        assert_eq!(next.tree().await, "u1 user: hello\nr1 assistant: Whole  <- head\n");
        // What the lost process still wants to write is refused by the log.
        drop(bench.runtime.cancel(&key(), None).await);
        assert_eq!(next.tree().await, "u1 user: hello\nr1 assistant: Whole  <- head\n");
    });
}

#[test]
fn an_unused_session_leaves_memory_and_comes_back() {
    run(async {
        let bench = Bench::new();
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        bench.model.answers("Hi").await;
        rest(reader(submitted)).await;
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(*bench.runtime.0.living.borrow(), 0);
        assert_eq!(bench.tree().await, "u1 user: hello\nr1 assistant: Hi  <- head\n");
    });
}

#[test]
fn what_inactive_branches_say_is_read_from_the_store_when_named() {
    run(async {
        let bench = Bench::new();
        let mut first_reply = None;
        // Long enough that not all of them stay.
        let question = |n: usize| format!("question {n:>8000}");
        for n in 0..200 {
            let (turn, user) = (format!("t{n}"), format!("u{n}"));
            let submitted = bench.say(&turn, &[(&user, Role::User, &question(n))]).await.unwrap();
            bench.model.answers("answer").await;
            rest(reader(submitted)).await;
            if n == 0 {
                first_reply = bench.runtime.session(&key()).await.unwrap().head_id;
            }
        }
        let (reads, reply) = (bench.store.reads(), first_reply.unwrap());
        let back = [("u0", Role::User, ""), (reply.as_str(), Role::Assistant, ""), ("more", Role::User, "and more")];
        let submitted = bench.say("back", &back).await.unwrap();
        let request = bench.model.answers("answer").await;
        rest(reader(submitted)).await;
        let read: Vec<String> = request.messages.iter().map(|message| message.joined_text()).collect();
        assert_eq!(read, [question(0).as_str(), "answer", "and more"]);
        assert_eq!(bench.store.reads(), reads + 1, "one look for all that had left memory");
    });
}

#[test]
fn draining_lets_turns_end_and_takes_no_more() {
    run(async {
        let bench = Bench::new();
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let (_, model) = bench.model.asked().await;
        let runtime = bench.runtime.clone();
        let drained = Rc::new(RefCell::new(false));
        let seen = drained.clone();
        let drain = tokio::task::spawn_local(async move {
            runtime.drain().await;
            *seen.borrow_mut() = true;
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!*drained.borrow());
        model.send(says("Hi")).unwrap();
        model.send(Ok(Chunk::Finished(Finish::Stop))).unwrap();
        let events = rest(reader(submitted)).await;
        assert!(matches!(events.last().unwrap().body, EventBody::TurnCompleted { .. }));
        drain.await.unwrap();
        let refusal = bench.say("t2", &[("u9", Role::User, "again")]).await.err().unwrap();
        assert_eq!(refusal.code, Code::ShuttingDown);
    });
}

#[test]
fn an_append_whose_answer_was_lost_is_in_the_log_once() {
    run(async {
        let bench = Bench::new();
        bench.store.plan([Fault::FailAfter]);
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        bench.model.answers("Hi").await;
        rest(reader(submitted)).await;
        assert_eq!(bench.tree().await, "u1 user: hello\nr1 assistant: Hi  <- head\n");
    });
}

#[test]
fn a_full_store_refuses_and_the_next_request_works() {
    run(async {
        let bench = Bench::new();
        bench.store.plan([Fault::Full]);
        let refusal = bench.say("t1", &[("u1", Role::User, "hello")]).await.err().unwrap();
        assert_eq!(refusal.code, Code::StoreFull);
        assert_eq!(bench.runtime.session(&key()).await.err().unwrap().code, Code::SessionNotFound);
        let (_, abandoned) = bench.model.asked().await;
        assert!(abandoned.is_closed(), "the call that was begun for it is given up");
        assert!(bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap().accepted.reply);
    });
}

#[test]
fn a_store_that_is_down_at_a_turns_end_ends_the_stream_and_the_turn_goes_on_later() {
    run(async {
        let bench = Bench::new();
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let (_, model) = bench.model.asked().await;
        bench.store.set_down(true);
        model.send(says("Hi")).unwrap();
        model.send(Ok(Chunk::Finished(Finish::Stop))).unwrap();
        let events = rest(reader(submitted)).await;
        assert!(!events.iter().any(|event| matches!(event.body, EventBody::TurnCompleted { .. })));
        bench.store.set_down(false);
        assert_eq!(bench.runtime.session(&key()).await.unwrap().status, SessionStatus::Running);
        bench.model.answers("Hi again").await;
        let joined = bench.runtime.join(&key()).await.unwrap();
        if let Some((_, reader)) = joined.running {
            rest(reader).await;
        }
        assert_eq!(bench.tree().await, "u1 user: hello\nr1 assistant: Hi again  <- head\n");
    });
}

#[test]
fn a_view_that_leaves_the_running_turn_stops_it_and_starts_its_own() {
    run(async {
        let bench = Bench::new();
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        bench.model.answers("Hi").await;
        rest(reader(submitted)).await;
        let first_reply = bench.runtime.session(&key()).await.unwrap().head_id.unwrap();
        let second = bench
            .say("t2", &[("u1", Role::User, "hello"), (first_reply.as_str(), Role::Assistant, "Hi"), ("u2", Role::User, "more")])
            .await;
        let (_, model) = bench.model.asked().await;
        model.send(says("Half")).unwrap();
        let mut left = reader(second.unwrap());
        left.next().await.unwrap();
        let third = bench.say("t3", &[("u1", Role::User, "hello")]).await.unwrap();
        assert!(matches!(rest(left).await.last().unwrap().body, EventBody::TurnCancelled { .. }));
        let request = bench.model.answers("Hello").await;
        assert_eq!(request.messages.len(), 1);
        rest(reader(third)).await;
        let drawn =
            "u1 user: hello\n├─ r1 assistant: Hi\n│  u2 user: more\n│  r2 assistant (partial): Half\n└─ r3 assistant: Hello  <- head\n";
        assert_eq!(bench.tree().await, drawn);
    });
}

#[test]
fn a_resent_submit_joins_its_turn_and_one_with_other_content_is_refused() {
    run(async {
        let bench = Bench::new();
        let first = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let again = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        assert!(again.accepted.duplicate);
        let refusal = bench.say("t1", &[("u1", Role::User, "other")]).await.err().unwrap();
        assert_eq!(refusal.code, Code::TurnIdReused);
        bench.model.answers("Hi").await;
        assert_eq!(text(&rest(reader(again)).await), "Hi");
        assert_eq!(text(&rest(reader(first)).await), "Hi");
        let late = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        assert!(matches!(late.following, Following::Ended(TurnEnd::Completed)));
    });
}
