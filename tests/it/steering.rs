//! Runs that join the running turn, over AG-UI.

use serde_json::{Value, json};

use crate::app::{TestApp, check_run, said, text, view};
use crate::http::{Exchange, events};

fn steer(mut body: Value) -> Value {
    body["forwardedProps"] = json!({"headwater": {"queue": "steer"}});
    body
}

/// The ids of each snapshot's messages.
fn snapshots(events: &[Value]) -> Vec<Vec<String>> {
    let ids =
        |event: &Value| event["messages"].as_array().unwrap().iter().map(|message| message["id"].as_str().unwrap().to_owned()).collect();
    events.iter().filter(|event| event["type"] == "MESSAGES_SNAPSHOT").map(ids).collect()
}

/// The messages as a client holds them that applies `events` to what it has: by id, new ones at the end, never moved.
fn applied(mut list: Vec<String>, events: &[Value]) -> Vec<String> {
    for event in events {
        match event["type"].as_str().unwrap() {
            "MESSAGES_SNAPSHOT" => {
                let snapshot = snapshots(std::slice::from_ref(event)).remove(0);
                list.retain(|id| snapshot.contains(id));
                list.extend(snapshot.into_iter().filter(|id| !list.contains(id)).collect::<Vec<_>>());
            }
            "TEXT_MESSAGE_START" => {
                let id = event["messageId"].as_str().unwrap().to_owned();
                if !list.contains(&id) {
                    list.push(id);
                }
            }
            _ => {}
        }
    }
    list
}

#[tokio::test]
async fn a_steering_run_is_told_the_rest_of_the_turn_and_everyone_sees_its_message_at_its_place() {
    let app = TestApp::start();
    let mut first = Exchange::post(app.address, "/agents/demo", &said("s1", "r1", "story").to_string()).await;
    first.until("TEXT_MESSAGE_CONTENT").await;
    let joined = app.run(&steer(view("s1", "r2", &[("u-r1", "story"), ("u-r2", "And then?")]))).await;
    let told = events(&first.whole().await.text());
    for run in [&joined, &told] {
        check_run(run);
        assert_eq!(run.last().unwrap()["type"], "RUN_FINISHED", "{run:?}");
        assert!(text(run).ends_with("You said: And then?"), "{}", text(run));
    }
    assert_eq!((&joined[0]["runId"], &told[0]["runId"]), (&json!("r2"), &json!("r1")));
    let page = app.get("/v1/sessions/s1").await.json();
    let ids: Vec<String> = page["messages"].as_array().unwrap().iter().map(|message| message["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!((ids.len(), ids[0].as_str(), ids[2].as_str()), (4, "u-r1", "u-r2"));
    assert_eq!(applied(vec!["u-r1".to_owned()], &told), ids, "the first tab learns of it before its reply");
    let sender = applied(vec!["u-r1".to_owned(), "u-r2".to_owned()], &joined);
    assert_eq!(sender.len(), 4, "nothing stands there twice");
    assert_eq!(applied(Vec::new(), &app.run(&json!({"threadId": "s1", "runId": "r3", "messages": page["messages"]})).await).len(), 0);

    // Come to from the start, by either name, it is the same.
    for run in ["r1", "r2"] {
        let answer = Exchange::send(
            app.address,
            "GET",
            &format!("/agents/demo?threadId=s1&runId={run}&offset=-1"),
            &[("Accept", "text/event-stream")],
            None,
        )
        .await;
        let again = events(&answer.whole().await.text());
        check_run(&again);
        assert_eq!(applied(Vec::new(), &again), ids, "{run}");
    }
}

#[tokio::test]
async fn a_turn_that_is_stopped_makes_way_for_what_waited_to_join_it() {
    let app = TestApp::start();
    let mut first = Exchange::post(app.address, "/agents/demo", &said("s1", "r1", "long").to_string()).await;
    first.until("TEXT_MESSAGE_CONTENT").await;
    let steered = steer(view("s1", "r2", &[("u-r1", "long"), ("u-r2", "enough")]));
    let mut second = Exchange::post(app.address, "/agents/demo", &steered.to_string()).await;
    second.until("MESSAGES_SNAPSHOT").await;
    assert_eq!(app.post("/agents/demo/stop/s1", &json!({"runId": "r1"})).await.json(), json!({"stopped": true}));
    let (told, joined) = (events(&first.whole().await.text()), events(&second.whole().await.text()));
    check_run(&told);
    check_run(&joined);
    assert!(!text(&told).contains("You said"));
    assert!(text(&joined).ends_with("You said: enough"), "its run goes on with the turn that its message became");
}
