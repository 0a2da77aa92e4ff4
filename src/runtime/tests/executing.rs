//! Tool calls that an agent's worker carries out: several at once, tried again, given up, lost with their process.

use super::deciding::{Answered, Decider, Question};
use super::*;
use crate::protocol::{Action, Content, DecisionAnswer, Limits, ToolInput, Trigger, TriggerKind};
use crate::worker::{Configured, Error};

const AGENT: &str = "llm = \"played\"\n[[tool]]\nname = \"look\"\n[[tool]]\nname = \"find\"\nidempotent = true\n\
                     parameters = { type = \"object\", required = [\"n\"] }\n[[tool]]\nname = \"pay\"\nby = \"outside\"\n";

struct Shop {
    bench: Bench,
    worker: Decider,
}

impl Shop {
    fn new() -> Self {
        Self::over(Arc::new(Faulty::new(Arc::new(Memory::new()))))
    }

    /// Its worker is asked about tools alone.
    fn over(store: Arc<Faulty>) -> Self {
        Self::asking(store, Vec::new())
    }

    /// Its worker is asked about these, too.
    fn asking(store: Arc<Faulty>, triggers: Vec<TriggerKind>) -> Self {
        let (worker, model) = (Decider::default(), Played::default());
        let configured = Configured { triggers, ..Configured::from(worker.worker()) };
        let workers = BTreeMap::from([(AgentId::from("bot"), configured)]);
        let runtime = Runtime::new(Options { workers, ..options(&model, AGENT) }, store.clone());
        runtime.enter();
        Self { bench: Bench { runtime, model, store }, worker }
    }

    /// The next process over the same store.
    async fn next(self) -> Self {
        self.bench.runtime.0.stop_all();
        self.bench.runtime.0.living.subscribe().wait_for(|&tasks| tasks == 0).await.unwrap();
        let next = Self::over(self.bench.store.clone());
        next.bench.runtime.recover().await.unwrap();
        next
    }

    /// The model calls tools.
    async fn calls(&self, calls: &[(&str, &str)]) -> CallRequest {
        let (request, model) = self.bench.model.asked().await;
        for (index, (id, name)) in (0..).zip(calls) {
            model.send(Ok(Chunk::ToolCall { index, id: Some((*id).into()), name: (*name).to_owned() })).unwrap();
            model.send(Ok(Chunk::ToolArguments { index, delta: "{\"n\": 1}".to_owned() })).unwrap();
        }
        model.send(Ok(Chunk::Finished(Finish::ToolCalls))).unwrap();
        request
    }

    /// The next calls that the worker is asked about, by their ids.
    async fn asked<const N: usize>(&self) -> [(String, Question); N] {
        let mut asked = Vec::new();
        for _ in 0..N {
            let question = self.worker.asked().await;
            let Trigger::ToolExecute { id, .. } = &question.0.trigger else { panic!("{:?}", question.0.trigger) };
            asked.push((id.to_string(), question));
        }
        asked.sort_by(|one, other| one.0.cmp(&other.0));
        asked.try_into().unwrap_or_else(|_| unreachable!())
    }
}

#[expect(clippy::unnecessary_wraps, reason = "what a worker says")]
fn gives(text: &str) -> Answered {
    Ok(DecisionAnswer::from(vec![Action::ToolResult { id: None, content: Content::Text(text.to_owned()) }]))
}

fn results(request: &CallRequest) -> Vec<String> {
    request.messages.iter().filter(|message| message.role == Role::Tool).map(|message| message.joined_text()).collect()
}

#[test]
fn calls_are_carried_out_at_once_and_end_in_any_order() {
    run(async {
        let shop = Shop::new();
        let reader = reader(shop.bench.add("t1", "u1", OnBusy::Refuse).await.unwrap());
        let request = shop.calls(&[("c1", "look"), ("c2", "find")]).await;
        let offered: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(offered, ["look", "find", "pay"]);
        let [(first, one), (second, two)] = shop.asked().await;
        assert_eq!((first.as_str(), second.as_str()), ("c1", "c2"));
        let Trigger::ToolExecute { name, arguments, input: ToolInput::Valid(_), attempt: 1, key, .. } = &one.0.trigger else { panic!() };
        assert_eq!((name.as_str(), arguments.as_str(), key.as_str()), ("look", "{\"n\": 1}", "s/c1"));
        assert!(one.0.deadline > two.0.deadline - 1000 && one.0.decision_id != two.0.decision_id);
        two.1.send(gives("found")).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        one.1.send(gives("seen")).unwrap();
        assert_eq!(results(&shop.bench.model.answers("Done.").await), ["seen", "found"]);
        let events = rest(reader).await;
        let ended: Vec<&str> = events
            .iter()
            .filter_map(|event| {
                if let EventBody::ToolCallCompleted { tool_call_id, .. } = &event.body { Some(tool_call_id.as_str()) } else { None }
            })
            .collect();
        assert_eq!(ended, ["c2", "c1"]);
        assert!(matches!(events.last().unwrap().body, EventBody::TurnCompleted { .. }));
    });
}

#[test]
fn a_worker_brings_its_own_tools() {
    run(async {
        let shop = Shop::asking(Arc::new(Faulty::new(Arc::new(Memory::new()))), vec![TriggerKind::ClientMessages]);
        let reader = reader(shop.bench.add("t1", "u1", OnBusy::Refuse).await.unwrap());
        let (_, answer) = shop.worker.asked().await;
        let brings = br#"{"agent": {"tools": [{"name": "count", "description": "Counts."}]}, "actions": [{"type": "llm.call"}]}"#;
        answer.send(Ok(DecisionAnswer::decode(brings, &Limits::DEFAULT).unwrap())).unwrap();
        let request = shop.calls(&[("c1", "count"), ("c2", "look")]).await;
        let offered: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(offered, ["count"], "they take the place of those that are configured");
        let [(id, (_, answer))] = shop.asked().await;
        assert_eq!(id, "c1");
        answer.send(gives("three")).unwrap();
        let read = results(&shop.bench.model.answers("Done.").await);
        assert_eq!(read, ["three", "There is no tool named \"look\"."]);
        assert!(matches!(rest(reader).await.last().unwrap().body, EventBody::TurnCompleted { .. }));
    });
}

#[test]
fn the_start_of_an_attempt_is_durable_before_anybody_is_asked() {
    run(async {
        let shop = Shop::new();
        let _reader = shop.bench.add("t1", "u1", OnBusy::Refuse).await.unwrap();
        shop.bench.store.plan([Fault::HangBefore]);
        shop.calls(&[("c1", "look")]).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(shop.worker.is_idle(), "nothing is done that isn't in the log");
        shop.bench.store.release();
        let [(_, (_, answer))] = shop.asked().await;
        answer.send(gives("seen")).unwrap();
        shop.bench.model.answers("Done.").await;
    });
}

#[test]
fn an_attempt_that_takes_too_long_is_given_up() {
    run(async {
        let shop = Shop::new();
        let reader = reader(shop.bench.add("t1", "u1", OnBusy::Refuse).await.unwrap());
        shop.calls(&[("c1", "look"), ("c2", "find")]).await;
        let [(_, (_, late)), (_, (_, never))] = shop.asked().await;
        let [(_, (again, answer))] = shop.asked().await;
        assert!(late.is_closed() && never.is_closed(), "nobody waits for them");
        assert_eq!(again.attempt, 2, "only what may be carried out twice is");
        answer.send(gives("found")).unwrap();
        let read = results(&shop.bench.model.answers("Done.").await);
        assert!(read[0].starts_with("outcome_unknown") && read[1] == "found", "{read:?}");
        let failed = rest(reader).await.into_iter().filter_map(|event| match event.body {
            EventBody::ToolCallFailed { tool_call_id, code, not_before, .. } => {
                Some((tool_call_id.to_string(), code, not_before.is_some()))
            }
            _ => None,
        });
        let failed: Vec<_> = failed.collect();
        assert_eq!(failed, [("c1".to_owned(), Code::OutcomeUnknown, false), ("c2".to_owned(), Code::ToolTimedOut, true)]);
    });
}

#[test]
fn a_worker_that_was_not_reached_is_asked_again_and_one_that_broke_is_not() {
    run(async {
        let shop = Shop::new();
        let _reader = shop.bench.add("t1", "u1", OnBusy::Refuse).await.unwrap();
        shop.calls(&[("c1", "look"), ("c2", "look")]).await;
        let [(_, (_, first)), (_, (_, second))] = shop.asked().await;
        first.send(Err(Error::Unreached("it isn't there".to_owned()))).unwrap();
        second.send(Err(Error::Failed("it broke".to_owned()))).unwrap();
        let [(id, (request, answer))] = shop.asked().await;
        assert_eq!((id.as_str(), request.attempt), ("c1", 2));
        answer.send(gives("seen")).unwrap();
        let read = results(&shop.bench.model.answers("Done.").await);
        assert!(read[0] == "seen" && read[1].starts_with("outcome_unknown"), "{read:?}");
    });
}

#[test]
fn a_turn_that_is_stopped_gives_up_its_calls() {
    run(async {
        let shop = Shop::new();
        let _reader = shop.bench.add("t1", "u1", OnBusy::Refuse).await.unwrap();
        shop.calls(&[("c1", "look")]).await;
        let [(_, (_, answer))] = shop.asked().await;
        assert!(shop.bench.runtime.cancel(&key(), None).await.unwrap());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(answer.is_closed(), "nobody waits for it");
        assert_eq!(shop.bench.runtime.session(&key()).await.unwrap().status, SessionStatus::Idle);
    });
}

#[test]
fn a_process_that_is_lost_repeats_only_what_may_be_repeated() {
    run(async {
        let shop = Shop::new();
        let _reader = shop.bench.add("t1", "u1", OnBusy::Refuse).await.unwrap();
        shop.calls(&[("c1", "look"), ("c2", "find")]).await;
        let [_, (_, (first, _kept))] = shop.asked().await;
        let shop = shop.next().await;
        let [(id, (request, answer))] = shop.asked().await;
        assert_eq!((id.as_str(), request.attempt), ("c2", 2));
        assert_eq!(request.decision_id, first.decision_id, "it knows the question again");
        answer.send(gives("found")).unwrap();
        let read = results(&shop.bench.model.answers("Done.").await);
        assert!(read[0].starts_with("outcome_unknown") && read[1] == "found", "{read:?}");
    });
}

#[test]
fn a_call_that_somebody_outside_carries_out_waits_days() {
    run(async {
        let shop = Shop::new();
        let reader = reader(shop.bench.add("t1", "u1", OnBusy::Refuse).await.unwrap());
        shop.calls(&[("c1", "look"), ("c2", "pay")]).await;
        let [(_, (_, answer))] = shop.asked().await;
        assert_eq!(shop.bench.runtime.session(&key()).await.unwrap().status, SessionStatus::Running);
        answer.send(gives("seen")).unwrap();
        let EventBody::TurnWaiting { calls, .. } = rest(reader).await.pop().unwrap().body else { panic!("the run ends") };
        assert_eq!(calls, ["c2".into()]);
        tokio::time::sleep(Duration::from_hours(72)).await;
        assert_eq!(shop.bench.runtime.0.open_sessions(), 0, "it has left memory");
        let result = |call: &str, text: &str| {
            let message = Message { tool_call_id: Some(call.into()), ..Message::text(Role::Tool, text) };
            Input { body: InputBody::Result { message }, ..input(text, &[]) }
        };
        let forged = shop.bench.runtime.submit(&key(), result("c1", "forged")).await.err().unwrap();
        assert_eq!(forged.code, Code::CallNotOpen);
        shop.bench.runtime.submit(&key(), result("c2", "paid")).await.unwrap();
        assert_eq!(results(&shop.bench.model.answers("Done.").await), ["seen", "paid"]);
    });
}
