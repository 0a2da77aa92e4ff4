//! Agents in the place of a model: one run is heard over several calls, and no longer than anybody wants to hear it.

use super::*;
use crate::ids::ToolCallId;
use crate::provider::CallOf;

/// A model that is an agent.
struct Agent(Played);

impl Provider for Agent {
    fn start(&self, request: CallRequest) -> Attempt {
        self.0.start(request)
    }

    fn is_agent(&self) -> bool {
        true
    }

    fn asks_for_branch(&self) -> bool {
        true
    }
}

fn bench() -> Bench {
    let (model, store) = (Played::default(), Arc::new(Faulty::new(Arc::new(Memory::new()))));
    let agent = model.clone();
    let factory = Arc::new(move || -> Box<dyn Provider> { Box::new(Agent(agent.clone())) });
    let llms = BTreeMap::from([("played".to_owned(), Llm { factory, attempts: 2, abilities: Abilities::default() })]);
    let runtime = Runtime::new(Options { llms, ..options(&model, "llm = \"played\"") }, store.clone());
    runtime.enter();
    Bench { runtime, model, store }
}

/// A call that the agent carries out.
fn looks(model: &mpsc::UnboundedSender<Piece>, id: &str) {
    let index = 0;
    model.send(Ok(Chunk::ToolCall { index, id: Some(ToolCallId::from(id)), name: "look".to_owned() })).unwrap();
    model.send(Ok(Chunk::ToolArguments { index, delta: "{}".to_owned() })).unwrap();
    model.send(Ok(Chunk::ToolResult { of: CallOf::Reply(index), content: "blue".to_owned(), error: None })).unwrap();
    model.send(Ok(Chunk::Next)).unwrap();
}

fn kinds(events: &[Event]) -> Vec<&'static str> {
    events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::Live(Live::ToolCallStarted { .. }) => Some("call"),
            EventBody::Live(Live::ToolCallArguments { .. }) => Some("arguments"),
            EventBody::Live(Live::ReplyEnded { .. }) => Some("end"),
            EventBody::MessageNew { message: Some(message), .. } if message.role == Role::Tool => Some("result"),
            EventBody::Live(Live::Text { .. }) => Some("text"),
            _ => None,
        })
        .collect()
}

#[test]
fn one_run_is_heard_to_its_end() {
    run(async {
        let bench = bench();
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let (request, model) = bench.model.asked().await;
        let occasion = request.occasion.unwrap();
        assert_eq!(
            (occasion.turn.as_str(), occasion.branch.as_ref().map(crate::ids::NodeId::as_str), occasion.attempt),
            ("t1", Some("u1"), 1)
        );
        looks(&model, "c1");
        looks(&model, "c1");
        model.send(says("It is ")).unwrap();
        model.send(says("blue.")).unwrap();
        model.send(Ok(Chunk::Finished(Finish::Stop))).unwrap();
        let events = rest(reader(submitted)).await;
        let call = ["call", "arguments", "end", "result"];
        assert_eq!(kinds(&events), [&call[..], &call[..], &["text", "end"]].concat());
        assert_eq!(text(&events), "It is blue.");
        assert!(bench.model.0.lock().unwrap().is_empty(), "it was asked once");
        let tree = bench.tree().await;
        let ids: Vec<String> = events
            .iter()
            .filter_map(
                |event| if let EventBody::Live(Live::ToolCallStarted { id, .. }) = &event.body { Some(id.to_string()) } else { None },
            )
            .collect();
        assert!(ids[0] == "c1" && ids[1] != "c1", "a name that is taken is another one: {ids:?}");
        assert_eq!(tree.lines().count(), 6, "{tree}");
        assert!(tree.ends_with("assistant: It is blue.  <- head\n"), "{tree}");
    });
}

#[test]
fn a_run_that_is_lost_between_two_replies_begins_anew() {
    run(async {
        let bench = bench();
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let (_, model) = bench.model.asked().await;
        looks(&model, "c1");
        model.send(Err(CallError::new(CallErrorKind::Cut, "gone"))).unwrap();
        let (request, model) = bench.model.asked().await;
        assert_eq!(request.messages.iter().map(|message| message.joined_text()).collect::<Vec<_>>(), ["hello", "", "blue"]);
        assert_eq!(request.occasion.unwrap().attempt, 2);
        model.send(says("It is blue.")).unwrap();
        model.send(Ok(Chunk::Finished(Finish::Stop))).unwrap();
        assert_eq!(text(&rest(reader(submitted)).await), "It is blue.");
    });
}

#[test]
fn who_stops_closes_what_is_heard() {
    run(async {
        let bench = bench();
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let (_, model) = bench.model.asked().await;
        looks(&model, "c1");
        model.send(says("It ")).unwrap();
        let mut reader = reader(submitted);
        while !kinds(&reader.next().await.unwrap().events).contains(&"text") {}
        assert!(!model.is_closed(), "it is heard further");
        assert!(bench.runtime.cancel(&key(), None).await.unwrap());
        model.closed().await;
        assert!(bench.tree().await.ends_with("assistant (partial): It  <- head\n"), "{}", bench.tree().await);
    });
}

#[test]
fn who_steers_makes_it_begin_anew() {
    run(async {
        let bench = bench();
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let (_, first) = bench.model.asked().await;
        bench.add("t2", "u2", OnBusy::Steer).await.unwrap();
        looks(&first, "c1");
        let (request, model) = bench.model.asked().await;
        assert_eq!(request.messages.last().unwrap().joined_text(), "says u2");
        first.closed().await;
        model.send(says("Both.")).unwrap();
        model.send(Ok(Chunk::Finished(Finish::Stop))).unwrap();
        assert_eq!(text(&rest(reader(submitted)).await), "Both.");
    });
}

#[test]
fn an_agent_that_says_nothing_is_no_failure() {
    run(async {
        let bench = bench();
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let (_, model) = bench.model.asked().await;
        model.send(Ok(Chunk::Finished(Finish::Stop))).unwrap();
        let events = rest(reader(submitted)).await;
        assert!(matches!(events.last().unwrap().body, EventBody::TurnCompleted { .. }));
        assert_eq!(bench.tree().await, "u1 user: hello  <- head\n");
    });
}
