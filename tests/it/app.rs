//! A server on a free port, in this process.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use headwater::ids::AgentId;
use headwater::protocol::{Limits, TriggerKind};
use headwater::provider;
use headwater::runtime::{AgentOptions, Llm, OnDisconnect, Options, Runtime, WorkerOptions};
use headwater::store::memory::Memory;
use headwater::web;
use headwater::worker::socket::{self, Hub};
use headwater::worker::{self, Patience};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::http::{self, Answer, Exchange};

const LIMITS: &str = "readers_max = 16\nsession_requests_max = 256\nreader_batches_max = 64\nreader_bytes_max = 4194304\ncalls_per_turn_max = 8\nqueue_turns_max = 4\nqueue_messages_max = 8\nreply_bytes_max = 1048576\nidle_secs = 60\ndrain_secs = 5";

/// A server, stopped when dropped.
pub struct TestApp {
    pub address: SocketAddr,
    pub draining: CancellationToken,
    pub runtime: Runtime,
    handle: actix_web::dev::ServerHandle,
    thread: Option<JoinHandle<()>>,
}

impl TestApp {
    /// A server with the options of the defaults.
    pub fn start() -> Self {
        Self::with(|_| {})
    }

    /// A server whose agents answer as the one that is built in.
    pub fn of_the_demo() -> Self {
        Self::made(scripted(None), 1, "", |_| {})
    }

    /// A server whose options `adjust` has changed.
    pub fn with(adjust: impl FnOnce(&mut web::Options)) -> Self {
        Self::made(scripted(Some("script.toml")), 1, "", adjust)
    }

    /// A server with more limits of sessions.
    pub fn limited(more: &'static str) -> Self {
        Self::made(scripted(Some("script.toml")), 1, more, |_| {})
    }

    /// A server whose agents ask this model.
    pub fn over(model: provider::Factory, adjust: impl FnOnce(&mut web::Options)) -> Self {
        Self::made(model, 1, "", adjust)
    }

    /// The same with other limits of sessions.
    pub fn over_limited(model: provider::Factory, more: &'static str, adjust: impl FnOnce(&mut web::Options)) -> Self {
        Self::made(model, 1, more, adjust)
    }

    /// A server whose agents ask this model twice, when it fails.
    pub fn over_twice(model: provider::Factory) -> Self {
        Self::made(model, 2, "", |_| {})
    }

    /// A server whose agents `tight`, `forgetful` and `ahead` ask this model and have little room: by a summary, by nothing, by a
    /// summary in the background.
    pub fn with_little_room(model: provider::Factory, more: &'static str) -> Self {
        let strategy = |strategy: &str| toml::from_str(&format!("[[strategy]]\nover_tokens = 300\n{strategy}")).expect("a context");
        let contexts = [
            ("tight", strategy("use = \"summarize\"\nkeep_turns = 1")),
            ("forgetful", strategy("use = \"reset\"")),
            ("ahead", strategy("use = \"summarize\"\nkeep_turns = 1\nbackground = true")),
        ];
        let agents = contexts.map(|(id, context)| (id.into(), AgentOptions { context, ..agent(Some(OnDisconnect::Continue)) }));
        Self::running(move || runtime(BTreeMap::from(agents), model, 2, more), |_| {})
    }

    /// A server whose agent `asks` has a worker over HTTP with these options.
    pub fn asking(worker: &str) -> Self {
        let asked = toml::from_str(worker).expect("a worker's options");
        let id = AgentId::from("asks");
        let worker = worker::http(&asked, &id, Limits::DEFAULT, Path::new("")).expect("a worker");
        let asks = (id.clone(), AgentOptions { worker: WorkerOptions::Http(asked), ..agent(None) });
        let model = scripted(Some("script.toml"));
        let options = move || Options { workers: BTreeMap::from([(id, worker)]), ..options(BTreeMap::from([asks]), model, 1, "") };
        Self::running(move || Runtime::new(options(), Arc::new(Memory::new())), |_| {})
    }

    /// A server whose agents `bot`, `other` and `guarded` have workers that dial in, the last one with a token; `demo` has none.
    pub fn with_workers(adjust: impl FnOnce(&mut web::Options)) -> Self {
        let agents: BTreeMap<AgentId, AgentOptions> = ["bot", "other", "guarded", "demo"].map(|id| (id.into(), agent(None))).into();
        let open = || socket::Agent { sockets_max: 3, ..socket::Agent::default() };
        let guarded = socket::Agent { token: Some("s3cret".into()), ..open() };
        let hub = Hub::new([("bot".into(), open()), ("other".into(), open()), ("guarded".into(), guarded)].into());
        let workers =
            ["bot", "other", "guarded"].map(|id| (id.into(), hub.worker(Patience::default(), TriggerKind::asked_by_default()))).into();
        let model = scripted(Some("script.toml"));
        let options = move || Options { workers, dialling: hub, ..options(agents, model, 1, "") };
        Self::running(move || Runtime::new(options(), Arc::new(Memory::new())), adjust)
    }

    fn made(model: provider::Factory, attempts: u32, more: &'static str, adjust: impl FnOnce(&mut web::Options)) -> Self {
        let agents = [
            ("demo".into(), agent(None)),
            ("steady".into(), agent(Some(OnDisconnect::Continue))),
            ("fleeting".into(), agent(Some(OnDisconnect::Cancel))),
        ];
        Self::running(move || runtime(BTreeMap::from(agents), model, attempts, more), adjust)
    }

    fn running(runtime: impl FnOnce() -> Runtime + Send + 'static, adjust: impl FnOnce(&mut web::Options)) -> Self {
        let mut options = web::Options { workers: Some(2), ..web::Options::default() };
        adjust(&mut options);
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            actix_web::rt::System::new().block_on(async move {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
                let runtime = runtime();
                let serving = web::serve(&runtime, options, listener).expect("a server");
                sender.send((serving.addresses[0], serving.draining, serving.handle, runtime)).expect("the test waits");
                serving.server.await.expect("the server ends well");
            });
        });
        let (address, draining, handle, runtime) = receiver.recv_timeout(Duration::from_secs(30)).expect("the server starts");
        Self { address, draining, runtime, handle, thread: Some(thread) }
    }

    /// A request with a JSON body.
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        Exchange::post(self.address, path, &body.to_string()).await.whole().await
    }

    /// A request without a body.
    pub async fn get(&self, path: &str) -> Answer {
        Exchange::send(self.address, "GET", path, &[], None).await.whole().await
    }

    /// A whole run on agent `demo`, as its events.
    pub async fn run(&self, body: &Value) -> Vec<Value> {
        let answer = self.post("/agents/demo", body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        http::events(&answer.text())
    }

    /// Waits until a session does what is wanted.
    pub async fn until(&self, session: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        http::within(async {
            loop {
                let page = self.get(&format!("/v1/sessions/{session}")).await.json();
                if wanted(&page) {
                    return page;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
    }

    /// All nodes of a session.
    pub async fn nodes(&self, session: &str) -> Vec<Value> {
        let tree = self.get(&format!("/v1/sessions/{session}/tree")).await.json();
        tree["nodes"].as_array().cloned().unwrap_or_default()
    }
}

impl Drop for TestApp {
    fn drop(&mut self) {
        drop(self.handle.stop(false));
        if let Some(thread) = self.thread.take() {
            // A panic there has been seen already.
            let _ = thread.join();
        }
    }
}

/// A model that says what `script` says; without one what the built-in demo does.
fn scripted(script: Option<&str>) -> provider::Factory {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let script = provider::Options::Script(provider::ScriptOptions { file: script.map(Into::into), attempts: Some(1) });
    provider::factory(&script, &here).expect("the script is valid")
}

/// An agent that asks the model `script`.
fn agent(on_disconnect: Option<OnDisconnect>) -> AgentOptions {
    let options: AgentOptions = toml::from_str("llm = \"script\"").expect("an agent");
    AgentOptions { on_disconnect, ..options }
}

/// A runtime whose agents ask this model.
fn runtime(agents: BTreeMap<AgentId, AgentOptions>, factory: provider::Factory, attempts: u32, more: &str) -> Runtime {
    Runtime::new(options(agents, factory, attempts, more), Arc::new(Memory::new()))
}

fn options(agents: BTreeMap<AgentId, AgentOptions>, factory: provider::Factory, attempts: u32, more: &str) -> Options {
    Options {
        agents,
        llms: BTreeMap::from([("script".to_owned(), Llm { factory, attempts, abilities: headwater::runtime::Abilities::default() })]),
        limits: limits(more),
        workers: BTreeMap::new(),
        dialling: Hub::default(),
    }
}

/// The limits, those of `more` instead of others.
fn limits(more: &str) -> headwater::runtime::Limits {
    let key = |line: &str| line.split(' ').next().map(str::to_owned);
    let instead: Vec<_> = more.lines().map(key).collect();
    let kept: Vec<&str> = LIMITS.lines().filter(|line| !instead.contains(&key(line))).collect();
    toml::from_str(&format!("{}\n{more}", kept.join("\n"))).expect("limits")
}

/// A view of one user message.
pub fn said(thread: &str, run: &str, text: &str) -> Value {
    view(thread, run, &[(&format!("u-{run}"), text)])
}

/// A view of user messages.
pub fn view(thread: &str, run: &str, messages: &[(&str, &str)]) -> Value {
    let messages: Vec<Value> = messages.iter().map(|(id, text)| json!({"id": id, "role": "user", "content": text})).collect();
    json!({"threadId": thread, "runId": run, "messages": messages, "tools": [], "context": [], "state": {}, "forwardedProps": {}})
}

/// The same run, asked for by a client of AG-UI 1.0.
pub fn v1(mut body: Value) -> Value {
    body["protocolVersion"] = json!("1.0");
    body
}

/// The types of events.
pub fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap_or_default()).collect()
}

/// The text that events bring.
pub fn text(events: &[Value]) -> String {
    events.iter().filter(|event| event["type"] == "TEXT_MESSAGE_CONTENT").filter_map(|event| event["delta"].as_str()).collect()
}

/// Every stream has a start, exactly one terminal, and nothing after it.
pub fn check_run(events: &[Value]) {
    let types = types(events);
    assert_eq!(types.first(), Some(&"RUN_STARTED"), "{types:?}");
    let terminals = types.iter().filter(|kind| matches!(**kind, "RUN_FINISHED" | "RUN_ERROR")).count();
    assert_eq!(terminals, 1, "{types:?}");
    assert!(matches!(types.last(), Some(&"RUN_FINISHED" | &"RUN_ERROR")), "{types:?}");
}
