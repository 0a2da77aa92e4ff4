//! What a worker is sent: one signed POST an attempt, over connections that are used again.

use super::*;
use crate::worker::signature::Signer;

fn header(head: &str, name: &str) -> String {
    let line = head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
    line.unwrap_or_else(|| panic!("no {name} in {head}")).to_owned()
}

#[tokio::test]
async fn a_decision_is_one_signed_post() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("new"), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n").unwrap();
    std::fs::write(folder.path().join("old"), "an-older-one").unwrap();
    let secrets = |name: &str| format!("{{ file = \"{}\" }}", folder.path().join(name).display());
    let more = format!("secret = {}\nold_secret = {}", secrets("new"), secrets("old"));
    let mut asked = Asked::start(vec![json("{}")], &more).await;
    assert_eq!(asked.ask().await, Ok(DecisionAnswer::default()));
    let sent = asked.program.request().await;
    let head = &sent.head;
    assert!(head.starts_with("POST /v1 HTTP/1.1\r\n"), "{head}");
    assert_eq!(header(head, "content-type"), "application/json");
    assert_eq!(header(head, "accept"), "application/json");
    assert_eq!(header(head, "webhook-id"), "d1");
    assert_eq!(header(head, "headwater-attempt"), "2");
    assert_eq!(header(head, "headwater-deadline"), sent.body["deadline"].to_string());
    let timestamp: u64 = header(head, "webhook-timestamp").parse().unwrap();
    assert!(clock::now() / 1000 - timestamp < 20);
    let mut signer = Signer::default();
    signer.add("secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    signer.add("old_secret", "an-older-one").unwrap();
    let body = serde_json::to_vec(&sent.body).unwrap();
    assert_eq!(header(head, "webhook-signature"), signer.sign("d1", timestamp, &body).unwrap());
    for (field, value) in [("session_id", "s1"), ("decision_id", "d1"), ("agent_id", "bot"), ("turn_id", "t1")] {
        assert_eq!(sent.body[field], value);
    }
    assert_eq!(sent.body["trigger"]["type"], "client.messages");
    assert_eq!(sent.body["proposed"]["actions"][0]["type"], "llm.call");
    assert_eq!(sent.body["messages"][0]["content"], "Hello, CANARY.");
}

#[tokio::test]
async fn without_a_secret_nothing_is_signed_and_the_trace_is_the_turns() {
    let mut asked = Asked::start(vec![json("{}")], "").await;
    asked.ask().await.unwrap();
    asked.ask().await.unwrap();
    let (first, again) = (asked.program.request().await, asked.program.request().await);
    assert!(!first.head.contains("webhook-signature"), "{}", first.head);
    assert_eq!((first.connection, again.connection), (0, 0), "one connection");
    let trace = header(&first.head, "traceparent");
    assert_eq!(trace, header(&again.head, "traceparent"), "the same decision and attempt");
    let parts: Vec<&str> = trace.split('-').collect();
    assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [2, 32, 16, 2], "{trace}");
    assert!(parts.iter().all(|part| part.chars().all(|c| c.is_ascii_hexdigit() && !c.is_ascii_uppercase())), "{trace}");
    let mut next = request(1000);
    next.attempt = 3;
    asked.worker.decide(next).await.unwrap();
    let next = header(&asked.program.request().await.head, "traceparent");
    assert!(next[..36] == trace[..36] && next != trace, "one trace, another span: {next}");
}

#[tokio::test]
async fn nothing_is_sent_before_it_is_waited_for() {
    let asked = Asked::start(vec![json("{}")], "").await;
    drop(asked.worker.decide(request(1000)));
    tokio::task::yield_now().await;
    assert!(!asked.program.has_request());
}

#[tokio::test]
async fn a_decision_that_is_given_up_closes_its_connection() {
    let mut asked = Asked::start(vec![vec![Step::Hang]], "").await;
    let mut deciding = asked.worker.decide(request(20_000));
    tokio::select! {
        answer = &mut deciding => panic!("{answer:?}"),
        _ = asked.program.request() => {}
    }
    drop(deciding);
    asked.program.close().await;
}
