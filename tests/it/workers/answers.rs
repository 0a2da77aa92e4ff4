//! Answers to the POST, and answers that come by themselves.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_goes_through_the_worker() {
    let mut desk = Desk::start("");
    desk.say("s1", "t1", "hello").await;
    let question = desk.asked().await;
    assert_eq!(
        (question.trigger(), &question.body["session_id"], &question.body["turn_id"]),
        ("client.messages", &json!("s1"), &json!("t1"))
    );
    assert_eq!(question.headers["webhook-id"], question.id().as_str().unwrap());
    assert_eq!(question.headers["headwater-attempt"], "1");
    let trace = question.headers["traceparent"].clone();
    assert!(question.proposed());
    let question = desk.asked().await;
    assert_eq!((question.trigger(), &question.body["trigger"]["message"]["content"]), ("llm.finished", &json!("You said: hello")));
    assert_eq!(question.headers["traceparent"][..36], trace[..36], "one trace a turn");
    assert!(question.say(204, ""));
    let page = desk.finishes("s1").await;
    assert_eq!(texts(&page), ["hello", "You said: hello"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_may_come_by_itself() {
    let mut desk = Desk::start("");
    desk.say("s1", "t1", "hello").await;
    let first = desk.asked().await;
    let (id, call) = (first.id(), json!({"session_id": "s1", "actions": [{"type": "llm.call"}]}));
    assert!(first.say(202, ""));
    let taken = desk.answer(&id, &call).await;
    assert_eq!((taken.status, taken.json()), (200, json!({"session_id": "s1", "decision_id": id, "duplicate": false})));
    let second = desk.asked().await;
    assert_eq!(second.trigger(), "llm.finished");
    // The same again, and another answer to it: it was answered.
    for body in [&call, &json!({"session_id": "s1"})] {
        let again = desk.answer(&id, body).await;
        assert_eq!((again.status, &again.json()["duplicate"]), (200, &json!(true)), "{}", again.text());
    }
    // While its POST still runs, too: that is given up then.
    let taken = desk.answer(&second.id(), &json!({"session_id": "s1", "actions": [{"type": "done"}]})).await;
    assert_eq!(taken.status, 200, "{}", taken.text());
    let page = desk.finishes("s1").await;
    assert_eq!(texts(&page), ["hello", "You said: hello"]);
    second.say(200, "{\"actions\": [{\"type\": \"llm.call\"}]}");
    assert_eq!(desk.records("s1", "decision.answered").await.len(), 2);
    assert!(desk.records("s1", "decision.failed").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_cannot_be_carried_out_leaves_the_decision_open() {
    let mut desk = Desk::start("");
    desk.say("s1", "t1", "hello").await;
    let question = desk.asked().await;
    let id = question.id();
    assert!(question.say(202, ""));
    for (answer, at) in [
        (json!({"actions": [{"type": "dance"}]}), "actions[0].type"),
        (json!({"actions": [{"type": "llm.call"}, {"type": "llm.call"}]}), "actions[1]"),
        (json!({"actions": [{"type": "llm.call", "llm": "none"}]}), "actions[0].llm"),
        (json!({"actions": [{"type": "tool.call", "id": "nobody"}]}), "actions[0].id"),
        (json!({"actions": [{"type": "done", "summary": "x"}]}), "actions[0].summary"),
    ] {
        let mut body = answer.clone();
        body["session_id"] = json!("s1");
        let refused = desk.answer(&id, &body).await;
        let said = refused.json();
        assert_eq!((refused.status, &said["error"]), (422, &json!("bad_answer")), "{answer}: {said}");
        assert!(said["at"].as_str().unwrap_or_default().starts_with(at) && said["because"].is_string(), "{answer}: {said}");
    }
    for (body, status, code) in [
        (json!({"actions": []}), 400, "bad_request"),
        (json!({"session_id": "s2"}), 404, "session_not_found"),
        (json!("x"), 422, "bad_answer"),
    ] {
        let refused = desk.answer(&id, &body).await;
        assert_eq!((refused.status, &refused.json()["error"]), (status, &json!(code)), "{}", refused.text());
    }
    let wrong = desk.answer(&json!("another"), &json!({"session_id": "s1"})).await;
    assert_eq!((wrong.status, &wrong.json()["error"]), (409, &json!("decision_closed")), "{}", wrong.text());
    let half =
        crate::http::Exchange::post(desk.app.address, &format!("/v1/decisions/{}", id.as_str().unwrap()), "{\"session_id\": \"s1").await;
    assert_eq!(half.whole().await.json()["error"], "bad_json");
    assert!(desk.records("s1", "decision.failed").await.is_empty(), "it is still open, at its first attempt");
    assert_eq!(desk.answer(&id, &json!({"session_id": "s1", "actions": [{"type": "llm.call"}]})).await.status, 200);
    assert_eq!(texts(&desk.finishes("s1").await).len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_of_a_turn_that_was_stopped_is_closed() {
    let mut desk = Desk::start("");
    desk.say("s1", "t1", "hello").await;
    let question = desk.asked().await;
    let cancel = json!({"type": "client.cancel", "turn_id": "t1"});
    assert_eq!(desk.app.post("/v1/sessions/s1/inputs", &cancel).await.json(), json!({"cancelled": true}));
    let late = desk.answer(&question.id(), &json!({"session_id": "s1", "actions": [{"type": "llm.call"}]})).await;
    assert_eq!((late.status, &late.json()["error"]), (409, &json!("decision_closed")));
    assert_eq!(texts(&desk.finishes("s1").await), ["hello"]);
}
