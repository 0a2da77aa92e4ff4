//! A worker that fails, is late, or talks nonsense: it is asked again, and the session goes on.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_fails_once_is_asked_again() {
    let mut desk = Desk::start("");
    desk.say("s1", "t1", "hello").await;
    let first = desk.asked().await;
    let id = first.id();
    assert!(first.say(500, "{\"detail\": \"out of memory\"}"));
    let again = desk.asked().await;
    assert_eq!((again.id(), again.headers["headwater-attempt"].as_str(), &again.body["attempt"]), (id.clone(), "2", &json!(2)));
    again.say(200, "{\"actions\": [{\"type\": \"ll");
    let third = desk.asked().await;
    assert_eq!((third.id(), &third.body["attempt"]), (id, &json!(3)));
    third.proposed();
    assert_eq!(texts(&desk.finishes("s1").await), ["hello", "You said: hello"]);
    let failed = desk.records("s1", "decision.failed").await;
    let codes: Vec<_> = failed.iter().map(|record| record["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["worker_failed", "worker_bad_answer"]);
    assert!(failed[0]["message"].as_str().unwrap().contains("500") && failed[0]["message"].as_str().unwrap().contains("out of memory"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_comes_too_late_changes_nothing() {
    let mut desk = Desk::start("attempt_secs = 1");
    desk.say("s1", "t1", "hello").await;
    let late = desk.asked().await;
    let again = desk.asked().await;
    assert_eq!((again.id(), &again.body["attempt"]), (late.id(), &json!(2)));
    late.say(200, "{\"actions\": [{\"type\": \"done\"}]}");
    again.proposed();
    assert_eq!(texts(&desk.finishes("s1").await), ["hello", "You said: hello"]);
    assert_eq!(desk.records("s1", "decision.failed").await[0]["code"], "worker_timed_out");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_whose_worker_never_decides_fails_and_the_next_one_may_not() {
    let mut desk = Desk::start("attempts = 2\nbreaker_failures = 100");
    desk.say("s1", "t1", "hello").await;
    for said in ["{\"actions\": [{\"type\": \"dance\"}]}", "nonsense"] {
        desk.asked().await.say(200, said);
    }
    desk.app.until("s1", |page| page["status"] == "idle").await;
    let failed = desk.records("s1", "turn.failed").await;
    assert_eq!(failed[0]["code"], "worker_bad_answer");
    desk.say("s1", "t2", "again").await;
    assert_eq!(texts(&desk.finishes("s1").await), ["hello", "again", "You said: again"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_down_costs_other_sessions_no_time() {
    let mut desk = Desk::start("attempts = 3\nbreaker_failures = 2\nbreaker_secs = 1");
    desk.say("s1", "t1", "hello").await;
    for _ in 0..2 {
        desk.asked().await.say(503, "");
    }
    // The third attempt waits for the breaker, and is let through alone.
    let third = desk.asked().await;
    assert_eq!(third.body["attempt"], 3);
    third.proposed();
    assert_eq!(texts(&desk.finishes("s1").await), ["hello", "You said: hello"]);
    desk.say("s2", "t1", "hi").await;
    assert_eq!(desk.accepts().await["session_id"], "s2");
    assert_eq!(texts(&desk.finishes("s2").await).len(), 2);
}
