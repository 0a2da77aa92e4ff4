//! `kill -9` in the life of what waits for a model call, with the real program and the embedded store: at each event that a reader is
//! told, after each answer, and between any two appends. After the restart nothing that was acknowledged is lost, nothing is there
//! twice, everything stands in its order, and the turn ends.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use headwater::engine::record::Body;
use headwater::engine::{self, Record, Session};
use headwater::ids::{SessionKey, Tenant};
use headwater::store::sqlite::{self, Sqlite};
use headwater::store::{Append, Header, Position, Store};
use serde_json::{Value, json};

use super::gateway::{Gateway, Run};

const CONFIG: &str = r#"
[server]
drain_secs = 1
[llm.slow]
kind = "script"
file = "rules.toml"
[agent.bot]
llm = "slow"
"#;

/// The first call of the first turn takes long enough for everything to come meanwhile, and calls a tool that nobody has.
const RULES: &str = r#"
[[rule]]
when = { call = 0, is = "begin" }
text = "I look."
tool_calls = [{ name = "look" }]
pace = { first_ms = 400 }
[[rule]]
when = { call = 0, is = "talk" }
text = "I talk on and on."
pace = { first_ms = 400 }
[[rule]]
text = "I heard: {last}"
pace = { first_ms = 10 }
"#;

/// A step of a life.
#[derive(Clone, Copy)]
enum Step {
    /// A person says this first: the id is the text.
    Says(&'static str),
    /// It joins the running turn.
    Steers(&'static str),
    /// Something happens; a turn begins for it or doesn't.
    Happens(&'static str, bool),
    /// The turn is stopped.
    Stops,
    /// Readers are told this so many times.
    Until(&'static str, usize),
}

use Step::{Happens, Says, Steers, Stops, Until};

/// Arrivals of both kinds at one call, behind a tool's result, and one more while that call runs.
const READ: &[Step] =
    &[Says("begin"), Steers("two"), Happens("three", false), Steers("four"), Until("llm.call.started", 2), Steers("five")];
/// They keep a turn from ending that would have ended.
const EXTENDED: &[Step] =
    &[Says("talk"), Happens("two", false), Steers("three"), Steers("four"), Until("turn.completed", 1), Happens("five", true)];
/// The turn is stopped, and they become the next one.
const STOPPED: &[Step] = &[Says("talk"), Steers("two"), Happens("three", false), Steers("four"), Stops];

/// What an input of a step is, and what it brings.
fn input(step: Step) -> Option<(Value, Option<&'static str>)> {
    let message = |id: &str| json!({ "id": id, "role": "user", "content": id });
    Some(match step {
        Says(id) => (json!({ "type": "client.message", "turn_id": id, "message": message(id) }), Some(id)),
        Steers(id) => (json!({ "type": "client.message", "turn_id": id, "message": message(id), "queue": "steer" }), Some(id)),
        Happens(id, run) => {
            (json!({ "type": "session.event", "turn_id": id, "id": id, "name": "news", "content": id, "run": run }), Some(id))
        }
        Stops => (json!({ "type": "client.cancel" }), None),
        Until(..) => return None,
    })
}

fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("headwater.toml"), CONFIG).unwrap();
    std::fs::write(home.path().join("rules.toml"), RULES).unwrap();
    home
}

/// A session's events, one after another.
struct Told {
    run: Run,
    buffer: String,
}

impl Told {
    /// The next one that is in the log.
    fn next(&mut self) -> Value {
        loop {
            while let Some((line, rest)) = self.buffer.split_once('\n') {
                let event = line.strip_prefix("data: ").map(|data| serde_json::from_str::<Value>(data).expect("JSON"));
                self.buffer = rest.to_owned();
                match event {
                    Some(event) if event["type"] != "llm.delta" => return event,
                    Some(_) | None => {}
                }
            }
            self.buffer += &self.run.more();
        }
    }
}

/// What a life is cut at: answers and events, counted.
struct Cut {
    left: usize,
}

impl Cut {
    fn is_here(&mut self) -> bool {
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => return true,
        }
        false
    }
}

/// Lives until the cut, or to the end; what was acknowledged, and whether that was the end.
fn live(gateway: &Gateway, session: &str, life: &[Step], mut cut: Cut) -> (Vec<&'static str>, bool) {
    let mut acknowledged = Vec::new();
    let mut told = None;
    let mut seen: Vec<String> = Vec::new();
    for &step in life {
        if let Some((mut body, brings)) = input(step) {
            body["agent_id"] = json!("bot");
            body["stream"] = json!(false);
            let (status, answer) = gateway.post(&format!("/v1/sessions/{session}/inputs"), &body);
            assert!(status == 200 || status == 202, "{body}: {answer}");
            acknowledged.extend(brings);
            if cut.is_here() {
                return (acknowledged, false);
            }
        }
        let stream = || gateway.stream(&format!("/v1/sessions/{session}/events?after=0"));
        let told = told.get_or_insert_with(|| Told { run: stream(), buffer: String::new() });
        let Until(kind, times) = step else { continue };
        while seen.iter().filter(|seen| *seen == kind).count() < times {
            seen.push(told.next()["type"].as_str().unwrap().to_owned());
            if cut.is_here() {
                return (acknowledged, false);
            }
        }
    }
    // To the end of the last turn.
    let told = told.as_mut().expect("it began");
    let started = |seen: &[String]| seen.iter().filter(|kind| *kind == "turn.started").count();
    let ended = |seen: &[String]| seen.iter().filter(|kind| ["turn.completed", "turn.cancelled"].contains(&kind.as_str())).count();
    let wanted = 1 + life.iter().filter(|step| matches!(step, Stops | Happens(_, true))).count();
    while started(&seen) < wanted || ended(&seen) < wanted {
        seen.push(told.next()["type"].as_str().unwrap().to_owned());
        if cut.is_here() {
            return (acknowledged, false);
        }
    }
    (acknowledged, true)
}

fn records(gateway: &Gateway, session: &str) -> Vec<Value> {
    let page = gateway.get(&format!("/v1/sessions/{session}/records?limit=1000")).expect("it has records");
    page["records"].as_array().unwrap().iter().map(|line| line["record"].clone()).collect()
}

/// The ids that records of a type have.
fn ids(records: &[Value], kind: &str, field: &str) -> Vec<String> {
    let of = |record: &Value| match &record["data"][field] {
        Value::Array(list) => list.clone(),
        one => vec![one.clone()],
    };
    let of_kind = records.iter().filter(|record| record["type"] == kind);
    of_kind.flat_map(of).map(|id| id.as_str().expect("an id").to_owned()).collect()
}

/// Checks a session, some time after, against what its clients were promised.
fn check(gateway: &Gateway, session: &str, acknowledged: &[&str]) {
    let Some(page) = gateway.until_idle(session) else {
        assert!(acknowledged.is_empty(), "{session}: {acknowledged:?} are lost");
        return;
    };
    let waiting = page["arrivals"].as_array().cloned().unwrap_or_default();
    assert!(waiting.iter().all(|arrival| arrival.get("joins").is_none()), "{session}: only what happened still waits: {page}");
    let waiting: Vec<&str> = waiting.iter().map(|arrival| arrival["turn_id"].as_str().unwrap()).collect();
    let tree = gateway.get(&format!("/v1/sessions/{session}/tree?view=raw&limit=1000")).expect("a session has a tree");
    let nodes = tree["nodes"].as_array().unwrap();
    let mut path: Vec<&Value> = Vec::new();
    let mut at = &page["head_id"];
    while let Some(node) = nodes.iter().find(|node| node["id"] == *at) {
        path.push(node);
        at = &node["parent_id"];
    }
    path.reverse();
    assert_eq!(path.len(), nodes.len(), "{session}: everything is on the path, once: {tree}");
    let users: Vec<&str> = path.iter().filter(|node| node["message"]["role"] == "user").map(|node| node["id"].as_str().unwrap()).collect();
    assert_eq!([&users[..], &waiting].concat(), acknowledged, "{session}: in the order in which it came: {tree}");
    let reply = &path.last().unwrap()["message"];
    let heard = reply["content"].as_str().unwrap_or_default();
    assert_eq!(reply["role"], "assistant", "{session}: {tree}");
    assert!(users.len() == 1 || heard.ends_with(users[users.len() - 1]), "{session}: the model has read the last one: {heard}");

    let records = records(gateway, session);
    let queued = ids(&records, "arrival.queued", "turn_id");
    let consumed = ids(&records, "arrival.consumed", "turn_ids");
    assert_eq!(
        [consumed, waiting.iter().map(|&id| id.to_owned()).collect()].concat(),
        queued,
        "{session}: each leaves the queue once, in order"
    );
    let mut started = ids(&records, "turn.started", "turn_id");
    let mut ended = [ids(&records, "turn.completed", "turn_id"), ids(&records, "turn.cancelled", "turn_id")].concat();
    started.sort();
    ended.sort();
    assert_eq!(started, ended, "{session}: every turn ends once");
    assert_eq!(ids(&records, "turn.failed", "turn_id"), [""; 0], "{session}");
}

/// Kills it at every place where somebody outside learns of something.
fn killed_everywhere(life: &[Step]) {
    let home = home();
    let mut gateway = Gateway::start(home.path());
    for kill in 0.. {
        let session = format!("s{kill}");
        let (acknowledged, whole) = live(&gateway, &session, life, Cut { left: kill });
        if !whole {
            gateway.kill();
            gateway = Gateway::start(home.path());
        }
        check(&gateway, &session, &acknowledged);
        if whole {
            assert!(kill > 20, "only {kill} places");
            break;
        }
    }
}

#[test]
fn what_a_call_reads_survives_kill_9_at_any_point() {
    killed_everywhere(READ);
}

#[test]
fn what_keeps_a_turn_going_survives_kill_9_at_any_point() {
    killed_everywhere(EXTENDED);
}

#[test]
fn what_becomes_the_next_turn_survives_kill_9_at_any_point() {
    killed_everywhere(STOPPED);
}

/// The whole log of a session, out of a store that nobody uses.
fn log(home: &Path, session: &str) -> Vec<Bytes> {
    let read = async |store: &Sqlite| store.read(&key(session), 1, 1_000).await.expect("it is read");
    block_on(async { read(&open(home)).await })
}

fn open(home: &Path) -> Sqlite {
    Sqlite::open(&sqlite::Options { path: home.join("headwater-data") }).expect("nobody uses it")
}

fn key(session: &str) -> SessionKey {
    SessionKey { tenant: Tenant::default_tenant(), session: session.into() }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// A session as a process left it that was killed after these records.
async fn cut(store: &Arc<dyn Store>, session: &str, records: &[Bytes]) -> Vec<String> {
    let mut folded = Session::default();
    let mut acknowledged = Vec::new();
    for bytes in records {
        folded.evolve(Record::decode(bytes).expect("a record")).expect("it fits");
        let record: Value = serde_json::from_slice(bytes).expect("JSON");
        let brings = match record["type"].as_str() {
            Some("arrival.queued") => &record["data"]["messages"][0]["id"],
            Some("message.new") if acknowledged.is_empty() => &record["data"]["id"],
            Some(_) | None => continue,
        };
        acknowledged.extend(brings.as_str().map(str::to_owned));
    }
    let header = Header { outstanding: !engine::wanted(&folded).is_empty(), ..Header::default() };
    store.append(&key(session), Append::new(Position::default(), records.to_vec(), header)).await.expect("it is written");
    acknowledged
}

#[test]
fn a_log_that_ends_after_any_append_of_an_arrivals_life_is_gone_on_with() {
    for (life, least) in [(READ, 8), (EXTENDED, 8), (STOPPED, 6)] {
        let home_of_whole = home();
        let mut gateway = Gateway::start(home_of_whole.path());
        let (acknowledged, whole) = live(&gateway, "whole", life, Cut { left: usize::MAX });
        assert!(whole);
        check(&gateway, "whole", &acknowledged);
        gateway.kill();
        let log = log(home_of_whole.path(), "whole");
        // What was decided at one time was appended at once; an arrival always alone.
        let record = |end: usize| Record::decode(&log[end]).expect("a record");
        let is_arrival = |end: usize| matches!(record(end).body, Body::ArrivalQueued(_));
        let is_end = |&end: &usize| end == log.len() || is_arrival(end) || record(end - 1).at != record(end).at;
        let ends: Vec<usize> = (1..=log.len()).filter(is_end).collect();
        assert!(ends.len() >= least, "{ends:?}");

        let home = home();
        let store: Arc<dyn Store> = Arc::new(open(home.path()));
        let promised: Vec<(String, Vec<String>)> = ends
            .iter()
            .map(|&end| {
                let session = format!("until-{end}");
                let acknowledged = block_on(cut(&store, &session, &log[..end]));
                (session, acknowledged)
            })
            .collect();
        drop(store);
        let gateway = Gateway::start(home.path());
        for (session, acknowledged) in &promised {
            check(&gateway, session, &acknowledged.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }
}
