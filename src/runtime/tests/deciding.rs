//! An agent whose worker decides: asked on the session's task, answered by the test.

mod state;

use tokio::sync::oneshot;

use super::*;
use crate::protocol::{Action, ContextReplace, DecisionAnswer, DecisionRequest, LlmCall, Trigger};
use crate::worker::{Error, InProcess};

pub(super) type Answered = Result<DecisionAnswer, Error>;
pub(super) type Question = (DecisionRequest, oneshot::Sender<Answered>);

const AGENT: &str = "llm = \"played\"\nsystem = \"Be kind.\"\n[context]\nwindow = 2000000\n[[context.strategy]]\nuse = \"summarize\"\n\
                     over_tokens = 50\nkeep_turns = 1\n";

/// A worker whose answers the test gives.
#[derive(Clone, Default)]
pub(super) struct Decider(Arc<Mutex<Vec<Question>>>);

impl Decider {
    pub(super) fn worker(&self) -> InProcess {
        let questions = self.0.clone();
        InProcess::new(move |request| {
            let (sender, receiver) = oneshot::channel();
            questions.lock().unwrap().push((request, sender));
            async move { receiver.await.unwrap_or_else(|_| Err(Error::Failed("it hung up".to_owned()))) }
        })
    }

    /// Whether it isn't asked anything now.
    pub(super) fn is_idle(&self) -> bool {
        self.0.lock().unwrap().is_empty()
    }

    pub(super) async fn asked(&self) -> Question {
        tokio::time::timeout(Duration::from_hours(1), async {
            while self.0.lock().unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await
        .expect("the worker is asked");
        self.0.lock().unwrap().remove(0)
    }

    /// Does what is proposed; what it was asked.
    async fn accepts(&self) -> DecisionRequest {
        let (request, answer) = self.asked().await;
        answer.send(Ok(request.proposed.clone())).unwrap();
        request
    }
}

struct Desk {
    bench: Bench,
    worker: Decider,
}

impl Desk {
    fn new() -> Self {
        let worker = Decider::default();
        Self::with(worker.worker(), worker, Arc::new(Faulty::new(Arc::new(Memory::new()))))
    }

    fn with(decides: InProcess, worker: Decider, store: Arc<Faulty>) -> Self {
        let model = Played::default();
        let workers = BTreeMap::from([(AgentId::from("bot"), decides.into())]);
        let options = Options { workers, ..options(&model, AGENT) };
        let runtime = Runtime::new(options, store.clone());
        runtime.enter();
        Self { bench: Bench { runtime, model, store }, worker }
    }

    /// The next process over the same store.
    async fn next(self) -> Self {
        self.bench.runtime.0.stop_all();
        self.bench.runtime.0.living.subscribe().wait_for(|&tasks| tasks == 0).await.unwrap();
        let worker = Decider::default();
        let next = Self::with(worker.worker(), worker, self.bench.store.clone());
        next.bench.runtime.recover().await.unwrap();
        next
    }

    async fn say(&self, turn: &str, id: &str) -> Reader {
        reader(self.bench.add(turn, id, OnBusy::Refuse).await.unwrap())
    }

    /// A turn in which the worker does what is proposed.
    async fn turn(&self, n: usize) {
        let reader = self.say(&format!("t{n}"), &format!("u{n}")).await;
        self.worker.accepts().await;
        self.bench.model.answers(&format!("answer {n:>60}")).await;
        self.worker.accepts().await;
        assert!(matches!(rest(reader).await.last().unwrap().body, EventBody::TurnCompleted { .. }));
    }
}

fn ends_with(events: &[Event], code: Code) {
    let EventBody::TurnFailed { code: came, message, .. } = &events.last().unwrap().body else { panic!("{events:?}") };
    assert!(*came == code && message.contains("worker"), "{came}: {message}");
}

fn names(messages: &[Arc<Message>]) -> Vec<String> {
    messages.iter().map(|message| message.id.as_ref().map_or_else(String::new, ToString::to_string)).collect()
}

#[test]
fn a_worker_decides_each_step_and_costs_no_append_of_its_own() {
    run(async {
        let desk = Desk::new();
        let reader = desk.say("t1", "u1").await;
        let request = desk.worker.accepts().await;
        assert_eq!((request.session_id.as_str(), request.turn_id.as_str(), request.attempt), ("s", "t1", 1));
        assert!(matches!(request.trigger, Trigger::ClientMessages { new_from: 0, .. }), "{:?}", request.trigger);
        assert_eq!(names(&request.messages), ["u1"]);
        assert_eq!(desk.bench.model.answers("Hi there.").await.system.as_deref(), Some("Be kind."));
        let request = desk.worker.accepts().await;
        let Trigger::LlmFinished { ok: true, message: Some(message), hidden: false, .. } = &request.trigger else { panic!() };
        assert_eq!(message.joined_text(), "Hi there.");
        let events = rest(reader).await;
        assert_eq!(text(&events), "Hi there.");
        assert!(matches!(events.last().unwrap().body, EventBody::TurnCompleted { .. }));
        // What came and the question; its answer and the call; the reply and the question; its answer and the end.
        assert_eq!(desk.bench.store.appends(), 4);
        assert_eq!(desk.bench.tree().await, "u1 user: says u1\nr1 assistant: Hi there.  <- head\n");
    });
}

#[test]
fn a_worker_makes_room_in_its_own_way() {
    run(async {
        let desk = Desk::new();
        desk.turn(1).await;
        desk.turn(2).await;
        desk.turn(3).await;
        let reader = desk.say("t4", "u4").await;
        desk.worker.accepts().await;
        let (request, answer) = desk.worker.asked().await;
        let Trigger::ContextLimit { strategy, tokens, call, .. } = &request.trigger else { panic!("{:?}", request.trigger) };
        assert!(strategy.as_deref() == Some("summarize") && *tokens > 50 && call.llm == "played");
        // Its own summary, at once; one message by its id, one of its own; the held call.
        let note = Message::text(Role::User, "CANARY note");
        let last = Message::clone(request.messages.last().unwrap());
        let replace = ContextReplace { summary: Some("CANARY summary".to_owned()), messages: vec![note, last] };
        let call = LlmCall { id: Some(call.id.clone()), ..LlmCall::default() };
        answer.send(Ok(vec![Action::ContextReplace(replace), Action::LlmCall(call)].into())).unwrap();
        let asked = desk.bench.model.answers("Fine.").await;
        let read: Vec<String> = asked.messages.iter().map(|message| message.joined_text()).collect();
        assert!(read.len() == 3 && read[0].ends_with("CANARY summary") && read[1..] == ["CANARY note", "says u4"], "{read:?}");
        desk.worker.accepts().await;
        let told = rest(reader).await;
        assert!(told.iter().any(|event| matches!(event.body, EventBody::ContextLimited { .. })));
        assert!(told.iter().any(|event| matches!(event.body, EventBody::ContextReplaced { .. })));
        assert!(!format!("{told:?}").contains("CANARY"), "nobody but the model reads it");
        let page = desk.bench.runtime.session(&key()).await.unwrap();
        assert_eq!(page.messages.len(), 8, "people read on as before");
        assert!(!page.messages.iter().any(|message| message.joined_text().contains("CANARY")));
        assert!(!desk.bench.tree().await.contains("CANARY"));
        // The next turn goes on with the short history.
        let reader = desk.say("t5", "u5").await;
        assert_eq!(desk.worker.accepts().await.messages.len(), 5);
        assert_eq!(desk.bench.model.answers("Good.").await.messages.len(), 5);
        desk.worker.accepts().await;
        rest(reader).await;
    });
}

#[test]
fn a_worker_that_does_what_is_proposed_makes_room_as_without_one() {
    run(async {
        let desk = Desk::new();
        for n in 1..4 {
            desk.turn(n).await;
        }
        let reader = desk.say("t4", "u4").await;
        desk.worker.accepts().await;
        desk.worker.accepts().await;
        let summary = desk.bench.model.answers("CANARY they talked.").await;
        assert!(summary.hidden && summary.tools.is_empty());
        let request = desk.worker.accepts().await;
        assert!(matches!(request.trigger, Trigger::LlmFinished { ok: true, hidden: true, held: Some(_), .. }));
        let read = desk.bench.model.answers("Fine.").await;
        assert!(read.messages[0].joined_text().ends_with("CANARY they talked.") && read.messages.len() == 4);
        desk.worker.accepts().await;
        let events = rest(reader).await;
        assert_eq!(text(&events), "Fine.");
        let page = desk.bench.runtime.session(&key()).await.unwrap();
        assert!(page.messages.len() == 8 && !page.messages.iter().any(|message| message.joined_text().contains("CANARY")));
    });
}

#[test]
fn an_answer_that_cannot_be_carried_out_is_asked_for_again_and_then_the_turn_fails() {
    run(async {
        let desk = Desk::new();
        let asks = desk.say("t1", "u1").await;
        let (first, answer) = desk.worker.asked().await;
        answer.send(Ok(vec![Action::ToolCall { id: "nobody".into() }].into())).unwrap();
        let (again, answer) = desk.worker.asked().await;
        assert_eq!((again.attempt, &again.decision_id), (2, &first.decision_id));
        assert_eq!(again.messages, first.messages);
        answer.send(Ok(again.proposed.clone())).unwrap();
        desk.bench.model.answers("Hi.").await;
        desk.worker.accepts().await;
        assert_eq!(text(&rest(asks).await), "Hi.");
        let asks = desk.say("t2", "u2").await;
        for attempt in 1..=10 {
            let (request, answer) = desk.worker.asked().await;
            assert_eq!(request.attempt, attempt);
            let nowhere = ContextReplace { summary: Some(" ".to_owned()), messages: Vec::new() };
            answer.send(Ok(vec![Action::ContextReplace(nowhere)].into())).unwrap();
        }
        ends_with(&rest(asks).await, Code::WorkerBadAnswer);
        // The session goes on.
        desk.turn(3).await;
    });
}

#[test]
fn a_worker_that_fails_or_never_answers_is_given_up() {
    run(async {
        let desk = Desk::new();
        let asks = desk.say("t1", "u1").await;
        let began = crate::clock::now();
        for _ in 0..10 {
            let (request, answer) = desk.worker.asked().await;
            answer.send(Err(Error::Failed(format!("attempt {} broke", request.attempt)))).unwrap();
        }
        ends_with(&rest(asks).await, Code::WorkerFailed);
        assert!(crate::clock::now() - began > 60_000, "pauses grow");
        let asks = desk.say("t2", "u2").await;
        let mut never = Vec::new();
        let events = {
            let asked = async {
                loop {
                    never.push(desk.worker.asked().await);
                }
            };
            tokio::select! {
                events = rest(asks) => events,
                () = asked => unreachable!("it asks for ever"),
            }
        };
        ends_with(&events, Code::WorkerTimedOut);
        assert!((5..=10).contains(&never.len()), "{}", never.len());
        assert!(never.iter().all(|(_, answer)| answer.is_closed()), "nobody waits for it any more");
        desk.turn(3).await;
    });
}

#[test]
fn a_worker_that_panics_has_failed() {
    run(async {
        for at_once in [true, false] {
            let panics = InProcess::new(move |_| {
                assert!(!at_once, "it panics");
                async { panic!("it panics, later") }
            });
            let desk = Desk::with(panics, Decider::default(), Arc::new(Faulty::new(Arc::new(Memory::new()))));
            let asks = desk.say("t1", "u1").await;
            ends_with(&rest(asks).await, Code::WorkerFailed);
        }
    });
}

#[test]
fn an_answer_that_comes_by_itself_ends_the_attempt() {
    run(async {
        let desk = Desk::new();
        let asks = desk.say("t1", "u1").await;
        let (request, answer) = desk.worker.asked().await;
        let bad = desk.bench.runtime.answer(&key(), request.decision_id.clone(), vec![Action::ToolCall { id: "x".into() }].into()).await;
        let bad = bad.unwrap_err();
        assert_eq!(
            (bad.code, &bad.details["at"], &bad.details["because"]),
            (Code::BadAnswer, &"actions[0].id".into(), &"call_not_open".into())
        );
        assert!(!answer.is_closed(), "it is still waited for");
        let here = key();
        let given = || desk.bench.runtime.answer(&here, request.decision_id.clone(), request.proposed.clone());
        assert_eq!(given().await, Ok(true));
        assert!(answer.is_closed(), "nobody waits for it any more");
        assert_eq!(given().await, Ok(false), "it was answered");
        desk.bench.model.answers("Hi.").await;
        desk.worker.accepts().await;
        assert_eq!(text(&rest(asks).await), "Hi.");
        assert_eq!(given().await, Ok(false));
        let nowhere = SessionKey { session: "nowhere".into(), ..key() };
        let refused = desk.bench.runtime.answer(&nowhere, "d".into(), DecisionAnswer::default()).await.unwrap_err();
        assert_eq!(refused.code, Code::SessionNotFound);
        let refused = desk.bench.runtime.answer(&key(), "d".into(), DecisionAnswer::default()).await.unwrap_err();
        assert_eq!(refused.code, Code::DecisionClosed);
    });
}

#[test]
fn a_decision_that_is_given_up_is_no_longer_asked() {
    run(async {
        let desk = Desk::new();
        let asks = desk.say("t1", "u1").await;
        let (_, answer) = desk.worker.asked().await;
        assert!(desk.bench.runtime.cancel(&key(), Some("t1".into())).await.unwrap());
        assert!(matches!(rest(asks).await.last().unwrap().body, EventBody::TurnCancelled { .. }));
        assert!(answer.is_closed(), "nobody waits for it");
        assert_eq!(desk.bench.tree().await, "u1 user: says u1  <- head\n");
        desk.turn(2).await;
    });
}

#[test]
fn a_process_that_is_lost_asks_again_and_its_answers_count_once() {
    run(async {
        let mut desk = Desk::new();
        let mut reader = desk.say("t1", "u1").await;
        // At each step the process is lost once, and the next one goes on.
        let (first, lost) = desk.worker.asked().await;
        desk = desk.next().await;
        assert!(lost.is_closed() && reader.next().await.is_err());
        let (again, answer) = desk.worker.asked().await;
        assert_eq!((&again.decision_id, again.attempt), (&first.decision_id, 2));
        assert_eq!((&again.proposed, &again.messages), (&first.proposed, &first.messages));
        answer.send(Ok(again.proposed.clone())).unwrap();
        let (_, lost) = desk.bench.model.asked().await;
        desk = desk.next().await;
        assert!(lost.is_closed());
        desk.bench.model.answers("Hi.").await;
        desk.worker.accepts().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(desk.bench.tree().await, "u1 user: says u1\nr1 assistant: Hi.  <- head\n");
        assert!(desk.worker.0.lock().unwrap().is_empty() && desk.bench.model.0.lock().unwrap().is_empty());
        desk.turn(2).await;
    });
}

#[test]
fn other_sessions_go_on_while_a_worker_thinks() {
    run(async {
        let desk = Desk::new();
        let slow = desk.say("t1", "u1").await;
        let (_, slow_answer) = desk.worker.asked().await;
        let other = SessionKey { session: "other".into(), ..key() };
        let submitted = desk.bench.runtime.submit(&other, input("t1", &[("u1", Role::User, "hello")])).await.unwrap();
        let request = desk.worker.accepts().await;
        assert_eq!(request.session_id.as_str(), "other");
        desk.bench.model.answers("Quick.").await;
        desk.worker.accepts().await;
        assert_eq!(text(&rest(super::reader(submitted)).await), "Quick.");
        // People may write meanwhile, too: it joins.
        desk.bench.add("t2", "u2", OnBusy::Steer).await.map(drop).unwrap();
        slow_answer.send(Ok(vec![Action::LlmCall(LlmCall::default())].into())).unwrap();
        let read = desk.bench.model.answers("Slow.").await;
        assert_eq!(names(&read.messages), ["u1", "u2"]);
        desk.worker.accepts().await;
        assert_eq!(text(&rest(slow).await), "Slow.");
    });
}
