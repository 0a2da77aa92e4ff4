//! Runs that wait: for another turn, and for results of the page's tools; over POST and over WebSocket.

use serde_json::{Value, json};

use crate::app::{TestApp, check_run, said, text, types, v1, view};
use crate::http::{Exchange, events};
use crate::socket::Client;

/// The same run with a tool that its page carries out.
fn painting(mut body: Value) -> Value {
    body["tools"] = json!([{"name": "paint", "description": "Paints", "parameters": {"type": "object"}}]);
    body
}

/// The same run, which says what becomes of it while a turn is there.
fn queue(mut body: Value, queue: &Value) -> Value {
    body["forwardedProps"] = json!({"headwater": {"queue": queue}});
    body
}

/// A view of nothing but results.
fn results(thread: &str, run: &str, results: &[(&str, &str)]) -> Value {
    let result =
        |(call, content): &(&str, &str)| json!({"id": format!("{call}:tool"), "role": "tool", "toolCallId": call, "content": content});
    let mut body = painting(view(thread, run, &[]));
    body["messages"] = results.iter().map(result).collect();
    body
}

/// The ids of the calls that events begin.
fn calls(events: &[Value]) -> Vec<String> {
    let started = events.iter().filter(|event| event["type"] == "TOOL_CALL_START");
    started.map(|event| event["toolCallId"].as_str().unwrap().to_owned()).collect()
}

fn outcome(events: &[Value]) -> &Value {
    check_run(events);
    let last = events.last().unwrap();
    assert_eq!(last["type"], "RUN_FINISHED", "{last}");
    &last["outcome"]
}

#[tokio::test]
async fn a_turn_waits_for_the_pages_results_and_goes_on_with_the_last() {
    let app = TestApp::start();
    let asked = app.run(&v1(painting(said("s1", "r1", "paint twice")))).await;
    let calls = calls(&asked);
    assert_eq!(outcome(&asked), &json!({"type": "success", "pendingToolCallIds": calls}));
    assert_eq!(app.get("/v1/sessions/s1").await.json()["status"], "waiting");

    let some = app.run(&v1(results("s1", "r2", &[(&calls[1], "two")]))).await;
    assert_eq!(types(&some), ["RUN_STARTED", "RUN_FINISHED"]);
    assert_eq!(outcome(&some), &json!({"type": "success", "pendingToolCallIds": [calls[0]]}));
    let joined = events(&app.post("/agents/demo/connect", &json!({"threadId": "s1", "protocolVersion": "1.0"})).await.text());
    assert_eq!(outcome(&joined), outcome(&some));
    assert_eq!(joined[1]["messages"][1]["toolCalls"].as_array().unwrap().len(), 2);

    let mut refused = v1(view("s1", "r3", &[]));
    refused["forwardedProps"] = json!({"headwater": {"run": true}});
    refused["messages"] = joined[1]["messages"].clone();
    assert_eq!(app.post("/agents/demo", &refused).await.refusal(), (409, "calls_open".to_owned()));

    let last = app.run(&v1(results("s1", "r4", &[(&calls[0], "one")]))).await;
    assert_eq!(outcome(&last), &Value::Null);
    assert_eq!((text(&last), &last[0]["runId"]), ("Painted: two".to_owned(), &json!("r4")));
    assert_eq!(app.get("/v1/sessions/s1").await.json()["status"], "idle");
}

#[tokio::test]
async fn older_clients_are_told_nothing_that_they_fail_on() {
    let app = TestApp::start();
    let asked = app.run(&painting(said("s1", "r1", "paint a river"))).await;
    assert_eq!(outcome(&asked), &Value::Null);
    let last = app.run(&results("s1", "r2", &[(&calls(&asked)[0], "done")])).await;
    assert_eq!(text(&last), "Painted: done");
}

#[tokio::test]
async fn a_queued_run_is_answered_at_once_and_begins_with_its_turn() {
    let app = TestApp::start();
    let mut first = Exchange::post(app.address, "/agents/demo", &said("s1", "r1", "long").to_string()).await;
    first.until("TEXT_MESSAGE_CONTENT").await;
    let both = |run: &str, text: &str| view("s1", run, &[("u-r1", "long"), (&format!("u-{run}"), text)]);
    let mut queued = Vec::new();
    for (run, how) in [("r2", json!(true)), ("r3", json!("merge")), ("r4", json!("merge"))] {
        let mut exchange = Exchange::post(app.address, "/agents/demo", &queue(both(run, run), &how).to_string()).await;
        exchange.until(": queued").await;
        queued.push(exchange);
    }
    let page = app.get("/v1/sessions/s1").await.json();
    let turns: Vec<_> = page["queue"].as_array().unwrap().iter().map(|turn| turn["turn_id"].as_str().unwrap()).collect();
    assert_eq!(turns, ["r2", "r3"]);
    assert_eq!(app.post("/agents/demo", &queue(both("r6", "x"), &json!(false))).await.json()["queue_depth"], 2);

    assert_eq!(app.post("/agents/demo/stop/s1", &json!({"runId": "r2"})).await.json(), json!({"stopped": true}));
    let stopped = events(&queued.remove(0).whole().await.text());
    assert_eq!(types(&stopped), ["RUN_STARTED", "RUN_FINISHED"]);
    assert_eq!(app.post("/agents/demo/stop/s1", &json!({})).await.json(), json!({"stopped": true}));
    check_run(&events(&first.whole().await.text()));
    let mut told = Vec::new();
    for exchange in queued {
        let events = events(&exchange.whole().await.text());
        assert_eq!(outcome(&events), &Value::Null);
        assert_eq!(types(&events)[..2], ["RUN_STARTED", "MESSAGES_SNAPSHOT"]);
        told.push((events[0]["runId"].clone(), events[1]["messages"].clone(), text(&events)));
    }
    assert_eq!((&told[0].0, &told[1].0), (&json!("r3"), &json!("r4")));
    assert_eq!(told[0].1, told[1].1);
    assert_eq!((told[0].2.as_str(), told[1].2.as_str()), ("You said: r4", "You said: r4"));
    assert_eq!(told[0].1.as_array().unwrap().len(), 4, "what was said before, and both messages: {}", told[0].1);
}

#[tokio::test]
async fn who_leaves_a_queued_run_takes_it_along_unless_it_was_merged() {
    let app = TestApp::start();
    let mut first = Exchange::post(app.address, "/agents/demo", &said("s1", "r1", "long").to_string()).await;
    first.until("TEXT_MESSAGE_CONTENT").await;
    let send = async |run: &str, how: Value| {
        let body = queue(view("s1", run, &[("u-r1", "long"), (&format!("u-{run}"), run)]), &how);
        let mut exchange = Exchange::post(app.address, "/agents/demo", &body.to_string()).await;
        exchange.until(": queued").await;
        exchange
    };
    let waiting = |page: &Value| page["queue"].as_array().unwrap().iter().map(|turn| turn["turn_id"].clone()).collect::<Vec<_>>();
    let (alone, one, other) = (send("r2", json!(true)).await, send("r3", json!("merge")).await, send("r4", json!("merge")).await);
    drop(one);
    drop(alone);
    app.until("s1", |page| waiting(page) == ["r3"]).await;
    assert_eq!(app.post("/agents/demo/stop/s1", &json!({})).await.json(), json!({"stopped": true}));
    assert_eq!(text(&events(&other.whole().await.text())), "You said: r4");
    let nodes = app.nodes("s1").await;
    let said: Vec<_> = nodes.iter().filter(|node| node["message"]["role"] == "user").map(|node| node["id"].as_str().unwrap()).collect();
    assert_eq!(said, ["u-r1", "u-r3", "u-r4"]);
}

#[tokio::test]
async fn a_socket_tells_of_one_run_at_a_time_and_a_queued_one_holds_up_nobody() {
    let app = TestApp::start();
    let mut client = Client::open(app.address, "/agents/demo/ws").await;
    client.say(&v1(painting(said("s1", "r1", "paint a river")))).await;
    let asked = client.run().await;
    let open = calls(&asked);
    assert_eq!(outcome(&asked)["pendingToolCallIds"], json!(open));

    client.say(&v1(queue(painting(view("s1", "r2", &[("u-r1", "paint a river"), ("u2", "thanks")])), &json!(true)))).await;
    app.until("s1", |page| page["queue"][0]["turn_id"] == "r2").await;
    client.say(&v1(results("s1", "r3", &[(&open[0], "done")]))).await;
    for (run, words) in [("r3", "Painted: done"), ("r2", "You said: thanks")] {
        let told = client.run().await;
        assert_eq!(outcome(&told), &Value::Null);
        assert_eq!((&told[0]["runId"], text(&told).as_str()), (&json!(run), words));
    }
}

#[tokio::test]
async fn runs_that_are_merged_on_a_busy_socket_are_one_turn() {
    let app = TestApp::start();
    let mut client = Client::open(app.address, "/agents/demo/ws").await;
    client.say(&v1(said("s1", "r1", "long"))).await;
    client.until("TEXT_MESSAGE_CONTENT").await;
    for run in ["r2", "r3"] {
        let body = view("s1", run, &[("u-r1", "long"), (&format!("u-{run}"), run)]);
        client.say(&v1(queue(body, &json!("merge")))).await;
    }
    app.until("s1", |page| page["queue"][0]["messages"].as_array().is_some_and(|messages| messages.len() == 2)).await;
    client.say(&json!({"type": "abort"})).await;
    let stopped = client.run().await;
    assert_eq!(stopped.last().unwrap()["outcome"], json!({"type": "cancelled"}));
    for run in ["r2", "r3"] {
        let told = client.run().await;
        assert_eq!(outcome(&told), &Value::Null);
        assert_eq!((&told[0]["runId"], text(&told).as_str()), (&json!(run), "You said: r3"));
    }
}
