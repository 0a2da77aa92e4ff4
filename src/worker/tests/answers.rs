//! What a worker may answer.

use super::*;

#[tokio::test]
async fn an_answer_is_json_or_nothing() {
    let call = "{\"actions\": [{\"type\": \"llm.call\", \"llm\": \"big\"}]}";
    let answers = vec![
        json("{\"actions\": [{\"type\": \"done\"}]}"),
        plain(200, "content-type: application/json; charset=utf-8\r\n", call),
        plain(201, "Content-Type: Application/vnd.Agent+JSON\r\n", "{\"actions\": [{\"type\": \"done\"}]}"),
        plain(200, "", "{\"actions\": [{\"type\": \"done\"}]}"),
        plain(200, "", ""),
        plain(200, "content-type: application/json\r\n", " \n"),
        vec![Step::Write(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec())],
        vec![Step::Write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n".to_vec(),
        )],
    ];
    let asked = Asked::start(answers, "").await;
    let call = LlmCall { llm: Some("big".to_owned()), ..LlmCall::default() };
    let expected = [done(), vec![Action::LlmCall(call)].into(), done(), done()];
    for expected in expected.into_iter().chain(std::iter::repeat_n(DecisionAnswer::default(), 4)) {
        assert_eq!(asked.ask().await, Ok(expected));
    }
}

#[tokio::test]
async fn what_is_proposed_may_be_given_back_as_it_is() {
    let mut asked = Asked::start(vec![vec![Step::Hang]], "").await;
    let mut deciding = asked.worker.decide(request(20_000));
    let sent = tokio::select! {
        answer = &mut deciding => panic!("{answer:?}"),
        sent = asked.program.request() => sent,
    };
    let answer = DecisionAnswer::decode(sent.body["proposed"].to_string().as_bytes(), &Limits::DEFAULT);
    assert_eq!(answer, Ok(request(1).proposed));
}

#[tokio::test]
async fn an_answer_that_comes_by_another_way_is_waited_for() {
    let mut asked = Asked::start(vec![plain(202, "", "")], "breaker_failures = 1").await;
    let mut deciding = asked.worker.decide(request(100));
    tokio::select! {
        answer = &mut deciding => panic!("{answer:?}"),
        () = async {
            asked.program.request().await;
            tokio::time::sleep(Duration::from_millis(300)).await;
        } => {}
    }
    drop(deciding);
    // The worker did what it should.
    let asked = asked.worker.decide(request(100));
    tokio::select! {
        answer = asked => panic!("{answer:?}"),
        () = tokio::time::sleep(Duration::from_millis(50)) => {}
    }
}
