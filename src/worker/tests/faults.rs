//! Everything that a worker may do wrong: each is named, none holds anything up, and nothing of it shows a secret.

use super::*;
use crate::protocol::Code;
use crate::provider::http::upstream::chunk;

#[track_caller]
fn assert_failed(answer: Result<DecisionAnswer, Error>, code: Code, said: &str) {
    let error = answer.expect_err(said);
    assert!(error.code() == code && error.to_string().contains(said), "{}: {error}", error.code());
}

#[tokio::test]
async fn answers_that_are_none_say_what_to_answer_instead() {
    let half = "{\"actions\": [{\"type\": \"do";
    for (answer, said) in [
        (json(half), "JSON"),
        (json("[]"), "an answer to a decision (an object)"),
        (json("{\"actions\": [{\"type\": \"dance\"}]}"), "actions[0].type"),
        (json("{\"actions\": [{\"type\": \"done\", \"llm\": \"x\"}]}"), "actions[0].llm"),
        (json("{\"action\": []}"), "action"),
        (plain(200, "content-type: text/html\r\n", "<html>"), "the worker answered with text/html; answer with application/json"),
        (plain(200, "content-type: text/event-stream\r\n", "data: {}\n\n"), "a stream of events, which isn't available yet"),
        (plain(200, "content-type: application/json\r\ncontent-encoding: gzip\r\n", "xx"), "send it without Content-Encoding"),
    ] {
        let asked = Asked::start(vec![answer], "").await;
        assert_failed(asked.ask().await, Code::WorkerBadAnswer, said);
    }
    let asked = Asked::start(vec![json("{\"actions\": [{\"type\": \"dance\"}]}")], "").await;
    assert_eq!(asked.ask().await.unwrap_err().at(), Some("actions[0].type"));
}

#[tokio::test]
async fn an_answer_is_read_up_to_its_limit() {
    let most = "answer_bytes_max = 1000";
    let gigabyte = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1073741824\r\n\r\n".to_vec();
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    let fits = format!("{{}}{}", " ".repeat(998));
    let too_large = "more than 1000 bytes; say less, or raise `answer_bytes_max`";
    let asked = Asked::start(vec![json(&fits), json(&format!("{fits} "))], most).await;
    assert_eq!(asked.ask().await, Ok(DecisionAnswer::default()));
    assert_failed(asked.ask().await, Code::WorkerBadAnswer, too_large);
    for steps in [vec![Step::Write(gigabyte), Step::Hang], vec![Step::Write(head), Step::Repeat(chunk(&[b' '; 64]))]] {
        let mut asked = Asked::start(vec![steps], most).await;
        assert_failed(asked.ask().await, Code::WorkerBadAnswer, too_large);
        asked.program.close().await;
    }
}

#[tokio::test]
async fn statuses_say_what_to_do_about_them() {
    let text = "content-type: text/plain\r\n";
    for (answer, said) in [
        (
            plain(302, "location: http://127.0.0.1:1/other\r\n", ""),
            "the worker answered 302: redirects are not followed; give `url` the address",
        ),
        (plain(401, "", ""), "the worker answered 401: it may have another secret than `secret` names"),
        (plain(404, "", ""), "the worker answered 404: it may take decisions at another `url`"),
        (plain(410, "", ""), "the worker answered 410: it may take decisions at another `url`"),
        (plain(413, "", ""), "the worker answered 413: the conversation is larger than it takes"),
        (plain(500, text, " out of\nmemory "), "the worker answered 500; it says: out of memory"),
        (plain(500, "content-type: text/html\r\n", "<html>canary</html>"), "the worker answered 500"),
    ] {
        let asked = Asked::start(vec![answer], "").await;
        let answer = asked.ask().await;
        assert!(!answer.as_ref().unwrap_err().to_string().contains("canary"), "{answer:?}");
        assert_failed(answer, Code::WorkerFailed, said);
    }
    let endless = [
        Step::Write(b"HTTP/1.1 500 X\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n".to_vec()),
        Step::Repeat(chunk(&[b'x'; 1000])),
    ];
    let asked = Asked::start(vec![endless.to_vec()], "").await;
    let error = asked.ask().await.unwrap_err().to_string();
    assert!(error.len() < 600 && error.contains("xxx"), "{error}");
}

#[tokio::test]
async fn a_worker_may_ask_for_a_pause() {
    let asked = Asked::start(vec![plain(503, "retry-after: 7\r\n", ""), plain(429, "retry-after-ms: 1500\r\n", "")], "").await;
    assert_eq!(asked.ask().await.unwrap_err().pause(), 7000);
    assert_eq!(asked.ask().await.unwrap_err().pause(), 1500);
}

#[tokio::test]
async fn a_worker_that_is_down_or_speaks_something_else_has_failed() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let worker = (configured(&format!("http://{nobody}/"), "").factory)();
    assert_failed(worker.decide(request(20_000)).await, Code::WorkerFailed, "the worker can't be reached: ");
    for (steps, said) in [
        (vec![Step::Close], "the worker closed the connection before it answered"),
        (
            vec![Step::Write(b"SSH-2.0-x\r\n\r\n".to_vec()), Step::Close],
            "the worker closed the connection before it answered, or what it says isn't HTTP",
        ),
        (vec![Step::Write(b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{}".to_vec()), Step::Close], "in the middle of its answer"),
    ] {
        let asked = Asked::start(vec![steps], "").await;
        assert_failed(asked.ask().await, Code::WorkerFailed, said);
    }
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_costs_no_attempt() {
    let mut asked = Asked::start(vec![json("{}"), vec![Step::Close], json("{}")], "").await;
    asked.ask().await.unwrap();
    assert_eq!(asked.ask().await, Ok(DecisionAnswer::default()));
    let connections = [asked.program.request().await, asked.program.request().await, asked.program.request().await];
    assert_eq!(connections.map(|sent| sent.connection), [0, 0, 1]);
}

#[tokio::test]
async fn an_attempt_ends_at_its_deadline() {
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    let drips = vec![Step::Write(head), Step::Repeat(chunk(b" "))];
    for steps in [vec![Step::Hang], drips] {
        let asked = Asked::start(vec![steps], "").await;
        assert_failed(asked.ask_within(100).await, Code::WorkerTimedOut, "the worker didn't answer in time");
        assert_failed(asked.ask_within(0).await, Code::WorkerTimedOut, "in time");
    }
}

#[tokio::test]
async fn a_worker_that_fails_again_and_again_is_left_alone_for_a_while() {
    let more = "breaker_failures = 2\nbreaker_secs = 1";
    let mut asked = Asked::start(vec![plain(500, "", ""), plain(500, "", ""), json("{}")], more).await;
    for _ in 0..2 {
        assert_failed(asked.ask().await, Code::WorkerFailed, "500");
        asked.program.request().await;
    }
    let left_alone = asked.ask().await.unwrap_err();
    assert!((1..=1000).contains(&left_alone.pause()), "{left_alone:?}");
    assert_failed(Err(left_alone), Code::WorkerFailed, "isn't asked for a moment");
    assert!(!asked.program.has_request(), "it isn't asked");
    let opened = clock::now();
    until(|| clock::now() > opened + 1000).await;
    assert_eq!(asked.ask().await, Ok(DecisionAnswer::default()));
    assert_eq!(asked.ask().await, Ok(DecisionAnswer::default()));
}

#[tokio::test]
async fn a_worker_that_repeats_a_secret_does_not_show_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    let more = format!("secret = {{ file = \"{}\" }}", folder.path().join("key").display());
    let said = "not signed with whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let asked = Asked::start(vec![plain(401, "content-type: text/plain\r\n", said)], &more).await;
    let error = asked.ask().await.unwrap_err();
    assert!(error.to_string().ends_with("it says: not signed with [key]") && !format!("{error:?}").contains("MfKQ"), "{error}");
}
