//! What a worker keeps with a session, and what it overrides of its agent, as the runtime uses and tells it.

use super::*;
use crate::protocol::{AgentChanges, Json};

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap()
}

/// Long enough that what changes is shorter.
const STATE: &str = r#"{"plan":"a long trip along the coast, by train and by bicycle","step":1}"#;
const PATCH: &str = r#"[{"op":"replace","path":"/step","value":2}]"#;
const NEXT: &str = r#"{"plan":"a long trip along the coast, by train and by bicycle","step":2}"#;

impl Desk {
    /// A turn in which the worker sets a state before the call, and changes it after the reply.
    async fn planned(&self, turn: &str, id: &str) -> Vec<Event> {
        let reader = self.say(turn, id).await;
        let (request, answer) = self.worker.asked().await;
        answer.send(Ok(DecisionAnswer { state: Some(json(STATE)), ..request.proposed })).unwrap();
        self.bench.model.answers("On it.").await;
        let (request, answer) = self.worker.asked().await;
        assert_eq!(request.state, Some(json(STATE)));
        answer.send(Ok(DecisionAnswer { state_patch: Some(json(PATCH)), ..request.proposed })).unwrap();
        rest(reader).await
    }

    async fn state(&self) -> Option<String> {
        self.bench.runtime.session(&key()).await.unwrap().state.map(|state| state.get().to_owned())
    }

    async fn go_to(&self, node: &str) {
        let to = HeadTo::Node(Some(node.into()));
        self.bench.runtime.move_head(&key(), HeadMove { to, label: None }).await.unwrap();
    }
}

/// What is told of the state, in order.
fn states(events: &[Event]) -> Vec<String> {
    let of = |event: &Event| match &event.body {
        EventBody::StateUpdated { state: Some(state), patch: None } => Some(format!("= {}", state.get())),
        EventBody::StateUpdated { state: None, patch: Some(patch) } => Some(format!("~ {}", patch.get())),
        EventBody::Resync(snapshot) => snapshot.state.as_ref().map(|state| format!("whole {}", state.get())),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

/// The rest of a run after a place: the state that it opens with, and what is told of it.
async fn again(bench: &Bench, after: Option<Cursor>) -> (Option<String>, Vec<String>) {
    let Run::Begun(mut resumed) = bench.runtime.run(&key(), &"t1".into(), after).await.unwrap() else { panic!() };
    let opening = resumed.opening.take().and_then(|(snapshot, _)| snapshot.state.clone()).map(|state| state.get().to_owned());
    let mut events = Vec::new();
    while let Ok(told) = resumed.events.next().await {
        events.extend(told.batch.events.iter().cloned());
    }
    (opening, states(&events))
}

#[test]
fn a_state_is_told_as_it_changes_and_to_who_comes_back() {
    run(async {
        let desk = Desk::new();
        let events = desk.planned("t1", "u1").await;
        let (whole, part) = (format!("= {STATE}"), format!("~ {PATCH}"));
        assert_eq!(states(&events), [whole.clone(), part.clone()]);
        assert_eq!(desk.state().await.as_deref(), Some(NEXT));
        assert_eq!(desk.bench.runtime.join(&key()).await.unwrap().snapshot.state, Some(json(NEXT)));
        // The run from its start, and from each place in it.
        assert_eq!(again(&desk.bench, None).await, (None, vec![whole.clone(), part.clone()]));
        for event in &events {
            let Some(cursor) = event.cursor else { continue };
            let seq = |which: usize| {
                let nth = events.iter().filter(|event| matches!(event.body, EventBody::StateUpdated { .. })).nth(which);
                nth.and_then(|event| event.cursor).map_or(0, |cursor| cursor.seq)
            };
            let told: Vec<String> =
                [(0, &whole), (1, &part)].iter().filter(|(n, _)| cursor.seq < seq(*n)).map(|(_, text)| (*text).clone()).collect();
            assert_eq!(again(&desk.bench, Some(cursor)).await.1, told, "after {cursor}");
        }
        let mut log = desk.bench.runtime.events(&key(), Some(Cursor::after(0))).await.unwrap();
        let mut all = Vec::new();
        while states(&all).len() < 2 {
            all.extend(log.next().await.unwrap().events.iter().cloned());
        }
        assert_eq!(states(&all), [whole, part]);
    });
}

#[test]
fn a_state_goes_with_the_branch_over_restarts_and_forks() {
    run(async {
        let desk = Desk::new();
        desk.turn(1).await;
        desk.planned("t2", "u2").await;
        desk.go_to("u1").await;
        assert_eq!(desk.state().await, None);
        assert_eq!(desk.bench.runtime.join(&key()).await.unwrap().snapshot.state, Some(json("{}")), "who held another one is told");
        desk.go_to("u2").await;
        assert_eq!(desk.state().await.as_deref(), Some(STATE));
        let desk = desk.next().await;
        assert_eq!(desk.state().await.as_deref(), Some(STATE));
        let fork = SessionKey { session: "fork".into(), ..key() };
        desk.bench.runtime.fork(&key(), ForkInput { session_id: Some("fork".into()), at: None }).await.unwrap();
        assert_eq!(desk.bench.runtime.session(&fork).await.unwrap().state, Some(json(STATE)));
        let log: Vec<Bytes> = desk.bench.store.read(&key(), 1, 100).await.unwrap();
        let copy = SessionKey { session: "copy".into(), ..key() };
        desk.bench.runtime.import(&copy, log).await.unwrap();
        assert_eq!(desk.bench.runtime.session(&copy).await.unwrap().state, Some(json(STATE)));
    });
}

#[test]
fn a_submitter_is_told_of_a_state_that_it_does_not_hold() {
    run(async {
        let desk = Desk::new();
        desk.planned("t1", "u1").await;
        for (turn, held, told) in [("t2", None, true), ("t3", Some(NEXT), false), ("t4", Some(r#"{ "step": 2, "plan": "another" }"#), true)]
        {
            let client = Client { state: held.map(json), ..Client::default() };
            let body = InputBody::Message { message: Message::text(Role::User, "go on").with_id(format!("of {turn}").as_str().into()) };
            let submitted = desk.bench.runtime.submit(&key(), Input { client, body, ..input(turn, &[]) }).await.unwrap();
            assert_eq!(submitted.state.as_ref().map(Json::get), told.then_some(NEXT), "{turn}");
            let reader = reader(submitted);
            let (_, answer) = desk.worker.asked().await;
            answer.send(Ok(vec![Action::Done].into())).unwrap();
            rest(reader).await;
        }
    });
}

#[test]
fn a_call_is_made_as_the_worker_overrides_it() {
    run(async {
        let desk = Desk::new();
        let overridden =
            AgentChanges { system: Some(Some("Be brief.".to_owned())), model: Some(Some("tiny".to_owned())), ..AgentChanges::default() };
        let reader = desk.say("t1", "u1").await;
        let (request, answer) = desk.worker.asked().await;
        assert_eq!(request.agent, None);
        answer.send(Ok(DecisionAnswer { agent: Some(overridden), ..request.proposed })).unwrap();
        let asked = desk.bench.model.answers("Yes.").await;
        assert_eq!((asked.system.as_deref(), asked.model.as_deref()), (Some("Be brief."), Some("tiny")));
        desk.worker.accepts().await;
        let told = rest(reader).await;
        let updated = told.iter().find_map(|event| match &event.body {
            EventBody::AgentUpdated { overridden, .. } => Some(overridden.clone()),
            _ => None,
        });
        assert_eq!(updated.as_deref(), Some(&["system", "model"][..]));
        assert!(!serde_json::to_string(&told).unwrap().contains("Be brief."), "what it says is the agent's business");
        // After a restart too; another one takes it back.
        let desk = desk.next().await;
        let reader = desk.say("t2", "u2").await;
        let (request, answer) = desk.worker.asked().await;
        assert_eq!(request.agent.as_ref().and_then(|agent| agent.system.as_deref()), Some("Be brief."));
        let back = AgentChanges { system: Some(None), ..AgentChanges::default() };
        answer.send(Ok(DecisionAnswer { agent: Some(back), ..request.proposed })).unwrap();
        let asked = desk.bench.model.answers("Yes.").await;
        assert_eq!((asked.system.as_deref(), asked.model.as_deref()), (Some("Be kind."), Some("tiny")));
        desk.worker.accepts().await;
        rest(reader).await;
        assert_eq!(desk.worker.0.lock().unwrap().len(), 0);
    });
}
