//! What waits for the next model call: steering messages and events, over the native API.

use serde_json::{Value, json};

use super::{message, with};
use crate::app::TestApp;

fn steer(turn: &str, text: &str) -> Value {
    with(message(turn, text), "queue", json!("steer"))
}

fn event(turn: &str, name: &str) -> Value {
    json!({"type": "session.event", "agent_id": "demo", "turn_id": turn, "name": name})
}

#[tokio::test]
async fn a_steering_message_is_read_by_the_next_call() {
    let app = TestApp::start();
    app.taken("s1", &message("t1", "story")).await;
    let steered = app.taken("s1", &steer("t2", "shorter")).await;
    assert_eq!((&steered["turn_id"], &steered["arrival"], &steered["queued"]), (&json!("t1"), &json!(true), &json!(false)));
    assert_eq!(steered["recorded"], json!(["u-t2"]));
    let again = app.input("s1", &steer("t2", "shorter")).await;
    assert_eq!((again.status, again.json()["duplicate"].clone(), again.json()["arrival"].clone()), (200, json!(true), json!(true)));
    let page = app.page("s1").await;
    assert_eq!((&page["arrivals"][0]["turn_id"], &page["arrivals"][0]["joins"]), (&json!("t2"), &json!("t1")));
    assert_eq!(page["arrivals"][0]["messages"][0]["content"], "shorter");
    let page = app.idle("s1").await;
    assert!(page.get("arrivals").is_none(), "{page}");
    let ids: Vec<&str> = page["messages"].as_array().unwrap().iter().map(|message| message["id"].as_str().unwrap()).collect();
    assert_eq!((ids.len(), ids[0], ids[2]), (4, "u-t1", "u-t2"));
    let texts = app.texts("s1").await;
    assert_eq!((texts[2].as_str(), texts[3].as_str()), ("shorter", "You said: shorter"));
}

#[tokio::test]
async fn an_event_waits_and_is_read_by_the_model_alone() {
    let app = TestApp::start();
    let waits = app.taken("s1", &with(event("e1", "deploy"), "payload", json!({"ok": true}))).await;
    assert_eq!((&waits["turn_id"], &waits["reply"], &waits["arrival"]), (&json!("e1"), &json!(false), &json!(true)));
    let page = app.page("s1").await;
    assert_eq!((&page["status"], &page["arrivals"][0]["messages"]), (&json!("idle"), &json!([])));
    app.taken("s1", &message("t1", "hi")).await;
    app.idle("s1").await;
    assert_eq!(app.texts("s1").await, ["hi", "You said: [Event: deploy]\n{\"ok\":true}"]);
    let tree = app.ask("GET", "/v1/sessions/s1/tree?view=raw", None).await.json();
    assert_eq!(tree["nodes"].as_array().unwrap().len(), 3);
    assert_eq!((&tree["nodes"][1]["hidden"], &tree["nodes"][1]["source"]), (&json!(true), &json!("event")));
    assert!(tree["nodes"][0].get("source").is_none());
    let shown = with(with(event("e2", "look"), "show", json!(true)), "content", json!("at this"));
    app.taken("s1", &with(shown, "run", json!(true))).await;
    app.idle("s1").await;
    assert_eq!(app.texts("s1").await[2..], ["at this", "You said: [Event: look]\nat this"]);
    let tree = app.ask("GET", "/v1/sessions/s1/tree", None).await.json();
    let sources: Vec<&Value> = tree["nodes"].as_array().unwrap().iter().map(|node| &node["source"]).collect();
    assert_eq!(sources, [&Value::Null, &Value::Null, &json!("event"), &Value::Null]);
}

#[tokio::test]
async fn what_waits_is_given_up_by_its_name_and_never_a_409() {
    let app = TestApp::start();
    app.taken("s1", &message("t1", "long")).await;
    app.taken("s1", &event("e1", "one")).await;
    app.taken("s1", &steer("t2", "two")).await;
    for turn in ["e1", "t2"] {
        assert_eq!(app.taken("s1", &json!({"type": "client.cancel", "turn_id": turn})).await, json!({"cancelled": true}));
    }
    assert!(app.page("s1").await.get("arrivals").is_none());
    app.taken("s1", &steer("t3", "three")).await;
    app.taken("s1", &json!({"type": "client.cancel", "turn_id": "t1"})).await;
    app.idle("s1").await;
    let texts = app.texts("s1").await;
    assert_eq!(texts[texts.len() - 2..], ["three", "You said: three"], "stopped, the turn makes way for what waited to join it");
    assert_eq!(app.taken("s1", &steer("t3", "three")).await["turn_id"], "t3");
}
