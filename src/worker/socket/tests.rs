//! The hub: fair, never more than the credit, nothing lost when a worker is.

use futures_util::FutureExt as _;
use proptest::prelude::*;

use super::*;
use crate::protocol::{Client, Code, Trigger};

fn request(agent: &str, id: &str) -> DecisionRequest {
    DecisionRequest {
        session_id: "s".into(),
        decision_id: id.into(),
        agent_id: agent.into(),
        turn_id: "t".into(),
        trigger: Trigger::ClientMessages { new_from: 0, client: Client::default() },
        state: None,
        agent: None,
        proposed: DecisionAnswer::default(),
        messages: Vec::new(),
        calls: Vec::new(),
        pending_calls: Vec::new(),
        attempt: 1,
        deadline: 0,
    }
}

fn hello(agents: &[&str], credit: u32) -> Hello {
    Hello { agents: agents.iter().map(|id| (*id).into()).collect(), credit, token: None, name: None }
}

fn hub(agents: &[&str]) -> Hub {
    with(agents, |_| {})
}

fn with(agents: &[&str], adjust: impl Fn(&mut Agent)) -> Hub {
    let agent = |id: &&str| {
        let mut agent = Agent::default();
        adjust(&mut agent);
        ((*id).into(), agent)
    };
    Hub::new(agents.iter().map(agent).collect())
}

fn connect(hub: &Hub, agents: &[&str], credit: u32) -> Connection {
    hub.connect(&hello(agents, credit), Limits::DEFAULT).unwrap()
}

/// Asks; nobody waits for the answer yet.
fn ask(hub: &Hub, agent: &str, id: &str) -> Asking {
    let mut asking = DialsIn(hub.clone()).decide(request(agent, id));
    assert!((&mut asking).now_or_never().is_none(), "{id} waits");
    asking
}

/// All that a worker is told now.
fn told(connection: &Connection) -> Vec<String> {
    let word = |told: Result<Told, Ended>| match told {
        Ok(Told::Decision(request)) => Ok(format!("decide {}", request.decision_id)),
        Ok(Told::Cancelled(id)) => Ok(format!("cancelled {id}")),
        Ok(Told::Answered(id)) => Ok(format!("answered {id}")),
        Ok(Told::Refused(id, refusal)) => Ok(format!("refused {id} {}", refusal.code)),
        Err(ended) => Err(format!("{ended:?}")),
    };
    let mut list = Vec::new();
    while let Some(next) = connection.take() {
        match word(next) {
            Ok(told) => list.push(told),
            Err(ended) => {
                list.push(ended);
                break;
            }
        }
    }
    list
}

fn answered(asking: Asking) -> Result<DecisionAnswer, Error> {
    asking.now_or_never().expect("it is answered")
}

#[test]
fn a_worker_gets_no_more_than_its_credit_and_the_rest_in_order() {
    let hub = hub(&["bot"]);
    let worker = connect(&hub, &["bot"], 2);
    let mut asked: Vec<_> = ["d1", "d2", "d3", "d4"].iter().map(|id| ask(&hub, "bot", id)).collect();
    assert_eq!(told(&worker), ["decide d1", "decide d2"]);
    assert_eq!(worker.answer(&"d2".into(), r#"{"actions":[{"type":"done"}]}"#), Came::Asked);
    assert_eq!(answered(asked.remove(1)).unwrap().actions.len(), 1);
    assert_eq!(told(&worker), ["decide d3"]);
    assert_eq!(worker.grant(3), 3);
    assert_eq!(told(&worker), ["decide d4"]);
    worker.grant(0);
    assert!(worker.fail(&"d1".into(), "no".to_owned()));
    assert_eq!(answered(asked.remove(0)), Err(Error::Failed("no".to_owned())));
    let more = ask(&hub, "bot", "d5");
    assert!(told(&worker).is_empty(), "without credit nobody is asked");
    assert_eq!(worker.grant(u32::MAX), CREDIT_MAX);
    assert_eq!(told(&worker), ["decide d5"]);
    drop(more);
}

#[test]
fn workers_share_by_the_credit_that_they_have_left() {
    let hub = hub(&["bot"]);
    let (one, two, large) = (connect(&hub, &["bot"], 2), connect(&hub, &["bot"], 2), connect(&hub, &["bot"], 4));
    let asked: Vec<_> = (0..8).map(|n| ask(&hub, "bot", &format!("d{n}"))).collect();
    assert_eq!(told(&large), ["decide d0", "decide d1", "decide d4", "decide d7"].map(str::to_owned));
    assert_eq!((told(&one).len(), told(&two).len()), (2, 2));
    drop(asked);
    // Of two with the same credit it is the other one's turn.
    let (one, two) = (connect(&hub, &["bot"], 9), connect(&hub, &["bot"], 9));
    drop(large);
    for n in 0..4 {
        let asked = ask(&hub, "bot", &format!("e{n}"));
        let to = if n % 2 == 0 { &one } else { &two };
        assert_eq!(told(to).last(), Some(&format!("decide e{n}")));
        drop(asked);
    }
}

#[test]
fn a_worker_of_several_agents_gets_the_oldest_first() {
    let hub = hub(&["a", "b"]);
    let asked: Vec<_> = [("b", "d1"), ("a", "d2"), ("b", "d3")].iter().map(|(agent, id)| ask(&hub, agent, id)).collect();
    let worker = connect(&hub, &["a", "b"], 8);
    assert_eq!(told(&worker), ["decide d1", "decide d2", "decide d3"]);
    let only = connect(&hub, &["a"], 8);
    let more = ask(&hub, "b", "d4");
    assert!(told(&only).is_empty() && told(&worker) == ["decide d4"]);
    assert_eq!(only.answer(&"d4".into(), "{}"), Came::Unasked, "it isn't its own");
    assert_eq!(told(&only), ["refused d4 decision_closed"]);
    drop((asked, more));
}

#[test]
fn what_a_lost_worker_had_goes_to_another_at_once() {
    let hub = hub(&["bot"]);
    let (one, two) = (connect(&hub, &["bot"], 3), connect(&hub, &["bot"], 1));
    let asked: Vec<_> = ["d1", "d2", "d3", "d4"].iter().map(|id| ask(&hub, "bot", id)).collect();
    assert_eq!((told(&one).len(), told(&two).len()), (3, 1));
    drop(one);
    let next = connect(&hub, &["bot"], 2);
    assert_eq!(told(&next), ["decide d1", "decide d2"], "in their old order");
    assert!(told(&two).is_empty());
    assert_eq!(two.answer(&"d3".into(), "{}"), Came::Asked, "what wasn't lost is answered by whoever had it");
    assert_eq!(told(&two), ["decide d4"]);
    drop(asked);
}

#[test]
fn an_answer_counts_whoever_has_the_decision_by_now() {
    let hub = hub(&["bot"]);
    let first = connect(&hub, &["bot"], 1);
    let asked = ask(&hub, "bot", "d1");
    assert_eq!(told(&first), ["decide d1"]);
    drop(first);
    let other = connect(&hub, &["bot"], 1);
    assert_eq!(told(&other), ["decide d1"]);
    // The first one is back, with what it worked out meanwhile.
    let back = connect(&hub, &["bot"], 1);
    assert_eq!(back.answer(&"d1".into(), r#"{"actions":[]}"#), Came::Asked);
    assert_eq!(answered(asked), Ok(DecisionAnswer::default()));
    assert_eq!(told(&other), ["cancelled d1"]);
    DialsIn(hub.clone()).judged(&"d1".into(), Ok(()));
    assert_eq!(told(&back), ["answered d1"]);
    // What waits for a worker may be answered too.
    drop((other, back));
    let asked = ask(&hub, "bot", "d2");
    let back = connect(&hub, &["bot"], 0);
    assert_eq!(back.answer(&"d2".into(), "{}"), Came::Asked);
    assert!(answered(asked).is_ok());
    assert!(told(&back).is_empty());
}

#[test]
fn an_attempt_that_nobody_wants_gives_its_credit_back() {
    let hub = hub(&["bot"]);
    let worker = connect(&hub, &["bot"], 1);
    let asked = ask(&hub, "bot", "d1");
    let (waiting, next) = (ask(&hub, "bot", "d2"), ask(&hub, "bot", "d3"));
    assert_eq!(told(&worker), ["decide d1"]);
    drop(waiting);
    drop(asked);
    assert_eq!(told(&worker), ["cancelled d1", "decide d3"]);
    drop(next);
    // One that it wasn't told of yet is never told.
    let unread = ask(&hub, "bot", "d4");
    drop(unread);
    assert_eq!(told(&worker), ["cancelled d3"]);
}

#[test]
fn a_late_answer_is_for_its_session() {
    let hub = hub(&["bot", "other"]);
    let worker = connect(&hub, &["bot"], 1);
    drop(ask(&hub, "bot", "d1"));
    assert_eq!(worker.answer(&"d1".into(), "{}"), Came::Late("s".into(), Box::default()));
    let other = connect(&hub, &["other"], 1);
    assert_eq!(other.answer(&"d1".into(), "{}"), Came::Unasked, "it isn't its own");
    assert_eq!(told(&other), ["refused d1 decision_closed"]);
    assert_eq!(worker.answer(&"d1".into(), "[]"), Came::Unasked);
    assert!(!worker.fail(&"d1".into(), "no".to_owned()));
    worker.judged(&"d1".into(), Err(&Refusal::new(Code::BadAnswer, "no")));
    assert_eq!(told(&worker), ["refused d1 bad_request", "refused d1 decision_closed", "refused d1 bad_answer"]);
    assert!(matches!(worker.answer(&"d1".into(), "{}"), Came::Late(..)), "it may still be open");
    worker.judged(&"d1".into(), Ok(()));
    assert_eq!(worker.answer(&"d1".into(), "{}"), Came::Unasked);
    assert_eq!(told(&worker), ["answered d1", "answered d1"]);
}

#[test]
fn an_answer_is_judged_once_and_repeated_for_whoever_repeats_it() {
    let hub = hub(&["bot"]);
    let worker = connect(&hub, &["bot"], 1);
    let asked = ask(&hub, "bot", "d1");
    assert_eq!(worker.answer(&"d1".into(), "{}"), Came::Asked);
    assert_eq!(worker.answer(&"d1".into(), "{}"), Came::Unasked, "it came already");
    assert_eq!(told(&worker), Vec::<String>::new(), "what came of it isn't known yet");
    assert!(answered(asked).is_ok());
    DialsIn(hub.clone()).judged(&"d1".into(), Err(&Refusal::new(Code::BadRequest, "actions[0]: no").with("at", "actions[0]")));
    assert_eq!(told(&worker), ["refused d1 bad_request"]);
    let again = ask(&hub, "bot", "d1");
    assert_eq!(told(&worker), ["decide d1"]);
    assert_eq!(worker.answer(&"d1".into(), "{}"), Came::Asked);
    assert!(answered(again).is_ok());
    DialsIn(hub.clone()).judged(&"d1".into(), Ok(()));
    assert_eq!(told(&worker), ["answered d1"]);
    assert_eq!(worker.answer(&"d1".into(), "{}"), Came::Unasked);
    drop(worker);
    let back = connect(&hub, &["bot"], 1);
    assert_eq!(back.answer(&"d1".into(), "{}"), Came::Unasked);
    assert_eq!(told(&back), ["answered d1"]);
}

#[test]
fn what_is_no_answer_is_a_bad_answer() {
    let hub = with(&["bot"], |agent| agent.answer_bytes_max = 30);
    let worker = connect(&hub, &["bot"], 1);
    for (answer, code) in [
        ("[]", Code::BadRequest),
        (r#"{"actions":[{"type":"fly"}]}"#, Code::BadRequest),
        (r#"{"actions":                       []}"#, Code::BodyTooLarge),
    ] {
        let asked = ask(&hub, "bot", "d1");
        assert_eq!(worker.answer(&"d1".into(), answer), Came::Asked);
        let Err(Error::BadAnswer(refusal)) = answered(asked) else { panic!("{answer}") };
        assert_eq!(refusal.code, code, "{answer}");
    }
}

#[test]
fn when_nobody_is_there_the_attempt_waits_and_so_many_may() {
    let hub = with(&["bot", "other"], |agent| agent.waiting_max = 2);
    let asked = [ask(&hub, "bot", "d1"), ask(&hub, "bot", "d2")];
    let Err(Error::Failed(why)) = answered(DialsIn(hub.clone()).decide(request("bot", "d3"))) else { panic!() };
    assert!(why.contains("2 decisions"), "{why}");
    let elsewhere = ask(&hub, "other", "d4");
    let worker = connect(&hub, &["bot"], 1);
    assert_eq!(told(&worker), ["decide d1"]);
    let more = ask(&hub, "bot", "d3");
    let Err(Error::Failed(why)) = answered(DialsIn(hub.clone()).decide(request("bot", "d1"))) else { panic!() };
    assert!(why.contains("is being asked"), "{why}");
    drop((asked, elsewhere, more));
}

#[test]
fn a_decision_that_ends_workers_is_given_up() {
    let hub = hub(&["bot"]);
    let asked = ask(&hub, "bot", "d1");
    for _ in 0..5 {
        // One that wasn't told of it can't have been ended by it.
        drop(connect(&hub, &["bot"], 1));
    }
    for _ in 0..3 {
        let worker = connect(&hub, &["bot"], 1);
        assert_eq!(told(&worker), ["decide d1"]);
    }
    let Err(Error::Failed(why)) = answered(asked) else { panic!() };
    assert!(why.contains("3 workers were lost"), "{why}");
}

#[test]
fn a_worker_serves_only_what_it_may() {
    let agents = [("open", None), ("secret", Some("s3cret")), ("other", Some("0ther"))];
    let agents = agents.map(|(id, token)| (id.into(), Agent { token: token.map(Token::from), sockets_max: 2, ..Agent::default() }));
    let hub = Hub::new(agents.into());
    let come = |agents: &[&str], token: Option<&str>| {
        let hello = Hello { token: token.map(Token::from), ..hello(agents, 1) };
        hub.connect(&hello, Limits::DEFAULT).map_err(|refusal| refusal.code)
    };
    assert!(come(&["open"], None).is_ok() && come(&["open", "secret"], Some("s3cret")).is_ok());
    for (agents, token, code) in [
        (&["unknown"][..], None, Code::WorkerNotAllowed),
        (&["open", "unknown"], None, Code::WorkerNotAllowed),
        (&["secret"], None, Code::Unauthorized),
        (&["secret"], Some("s3cre"), Code::Unauthorized),
        (&["secret"], Some("s3cret "), Code::Unauthorized),
        (&["secret"], Some(""), Code::Unauthorized),
        (&["secret", "other"], Some("s3cret"), Code::Unauthorized),
    ] {
        assert_eq!(come(agents, token).err(), Some(code), "{agents:?} {token:?}");
    }
    let two = [come(&["open"], None), come(&["open"], None)];
    assert_eq!(come(&["open"], None).err(), Some(Code::TooManyConnections));
    drop(two);
    assert!(come(&["open"], None).is_ok(), "there is room again");
}

#[test]
fn a_hub_that_is_closed_ends_everybody() {
    let hub = hub(&["bot"]);
    let worker = connect(&hub, &["bot"], 1);
    let asked = ask(&hub, "bot", "d1");
    assert!(matches!(worker.next().now_or_never(), Some(Ok(Told::Decision(_)))));
    let mut next = Box::pin(worker.next());
    assert!((&mut next).now_or_never().is_none());
    hub.close();
    assert_eq!((&mut next).now_or_never(), Some(Err(Ended::Stopping)));
    drop(next);
    assert_eq!(hub.connect(&hello(&["bot"], 1), Limits::DEFAULT).unwrap_err().code, Code::ShuttingDown);
    assert!(matches!(answered(DialsIn(hub.clone()).decide(request("bot", "d2"))), Err(Error::Failed(_))));
    drop((worker, asked));
}

#[test]
fn a_worker_that_reads_nothing_ends() {
    let hub = hub(&["bot"]);
    let worker = connect(&hub, &["bot"], 1);
    for _ in 0..=peer::TOLD_MAX + 10 {
        worker.answer(&"unknown".into(), "{}");
    }
    assert_eq!(worker.take(), Some(Err(Ended::TooSlow)));
}

/// What may happen to a hub.
#[derive(Clone, Debug)]
enum Step {
    Ask(usize, usize),
    GiveUp(usize),
    Connect(usize, u32),
    Lose(usize),
    Read(usize),
    Answer(usize, usize),
    Grant(usize, u32),
}

fn step() -> impl Strategy<Value = Step> {
    let some = || any::<prop::sample::Index>().prop_map(|index| index.index(1 << 16));
    prop_oneof![
        4 => (0..2usize, some()).prop_map(|(agent, id)| Step::Ask(agent, id)),
        1 => some().prop_map(Step::GiveUp),
        1 => (0..3usize, 0..4u32).prop_map(|(agents, credit)| Step::Connect(agents, credit)),
        1 => some().prop_map(Step::Lose),
        3 => some().prop_map(Step::Read),
        3 => (some(), some()).prop_map(|(worker, id)| Step::Answer(worker, id)),
        1 => (some(), 0..4u32).prop_map(|(worker, credit)| Step::Grant(worker, credit)),
    ]
}

fn pick<T>(list: &[T], at: usize) -> Option<usize> {
    (!list.is_empty()).then(|| at % list.len())
}

proptest! {
    #[test]
    fn nothing_is_lost_and_nobody_gets_too_much(steps in prop::collection::vec(step(), 1..120)) {
        const AGENTS: [&[&str]; 3] = [&["a"], &["b"], &["a", "b"]];
        let hub = with(&["a", "b"], |agent| agent.waiting_max = 4);
        let (mut workers, mut asked) = (Vec::<Connection>::new(), Vec::<(DecisionId, Asking)>::new());
        for step in steps {
            match step {
                Step::Ask(agent, id) => {
                    let id = DecisionId::from(format!("d{}", id % 12));
                    let mut asking = DialsIn(hub.clone()).decide(request(["a", "b"][agent], id.as_str()));
                    if (&mut asking).now_or_never().is_none() {
                        asked.push((id, asking));
                    }
                }
                Step::GiveUp(at) => drop(pick(&asked, at).map(|at| asked.swap_remove(at))),
                Step::Connect(agents, credit) => workers.push(connect(&hub, AGENTS[agents], credit)),
                Step::Lose(at) => drop(pick(&workers, at).map(|at| workers.swap_remove(at))),
                Step::Read(at) => drop(pick(&workers, at).and_then(|at| workers[at].take())),
                Step::Answer(worker, id) => {
                    if let Some(at) = pick(&workers, worker) {
                        let id = DecisionId::from(format!("d{}", id % 12));
                        workers[at].answer(&id, "{}");
                    }
                }
                Step::Grant(at, credit) => drop(pick(&workers, at).map(|at| workers[at].grant(credit))),
            }
            // Whoever was answered, or lost three workers, waits no more.
            asked.retain_mut(|(_, asking)| asking.now_or_never().is_none());
            prop_assert_eq!(hub.board().broken(), None);
            prop_assert_eq!(hub.board().open(), asked.len());
        }
        drop(asked);
        prop_assert_eq!(hub.board().broken(), None);
        prop_assert_eq!(hub.board().open(), 0);
        drop(workers);
    }
}
