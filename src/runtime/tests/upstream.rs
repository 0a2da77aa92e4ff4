//! Whole turns over a real connection to a service: attempts, pauses, and what goes back to it.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use super::*;
use crate::provider::anthropic::Anthropic;
use crate::provider::http::upstream::{Sent, Step, Upstream, plain, streamed};
use crate::provider::http::{Api, Translate, recorded};
use crate::provider::openai::Openai;
use crate::provider::{self, Factory, Options as ModelOptions};

fn recording(name: &str) -> Vec<Step> {
    let path = format!("{}/tests/fixtures/anthropic/{name}.sse", env!("CARGO_MANIFEST_DIR"));
    vec![Step::Write(streamed([std::fs::read(path).unwrap().as_slice()]))]
}

/// A runtime whose agent asks the service at `base_url`.
fn asking(base_url: &str) -> Runtime {
    let options: ModelOptions = toml::from_str(&format!("kind = 'anthropic'\nmodel = 'river-1'\nbase_url = '{base_url}'")).unwrap();
    of(provider::factory(&options, std::path::Path::new(".")).unwrap(), provider::attempts(&options))
}

/// A runtime whose agent asks such a provider.
fn of(factory: Factory, attempts: u32) -> Runtime {
    let agent: AgentOptions = toml::from_str("llm = \"river\"").unwrap();
    let runtime = Runtime::new(
        Options {
            agents: BTreeMap::from([(AgentId::from("bot"), agent)]),
            llms: BTreeMap::from([("river".to_owned(), Llm { factory, attempts, abilities: Abilities::default() })]),
            workers: BTreeMap::new(),
            dialling: Hub::default(),
            limits: toml::from_str(LIMITS).unwrap(),
        },
        Arc::new(Memory::new()),
    );
    runtime.enter();
    runtime
}

/// Runs in real time, on one thread, with local tasks.
fn run_live<F: Future<Output = ()>>(test: F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(tokio::task::LocalSet::new().run_until(test));
}

async fn sent(upstream: &mut Upstream, count: usize) -> Vec<Sent> {
    let mut requests = Vec::new();
    for _ in 0..count {
        requests.push(upstream.request().await);
    }
    requests
}

#[test]
fn a_turn_over_refusals_and_calls_sends_its_thinking_back() {
    run_live(async {
        let limited =
            plain(429, "retry-after-ms: 5\r\n", "{\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"Slow down\"}}");
        let answers = vec![limited, recording("error_overloaded"), recording("thinking_and_tool"), recording("text")];
        let mut upstream = Upstream::start(answers).await;
        let runtime = asking(&upstream.base_url);
        let submitted = runtime.submit(&key(), input("t1", &[("u1", Role::User, "hello")])).await.unwrap();
        let events = rest(reader(submitted)).await;
        let failed = |event: &&Event| matches!(event.body, EventBody::CallFailed { .. });
        assert_eq!(events.iter().filter(failed).count(), 2);
        assert!(matches!(events.last().unwrap().body, EventBody::TurnCompleted { .. }), "{:?}", events.last());

        let requests = sent(&mut upstream, 4).await;
        assert_eq!(requests[0].body, requests[2].body);
        let reply = &requests[3].body["messages"][1]["content"];
        let kinds: Vec<&str> = reply.as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["thinking", "text", "tool_use"]);
        assert_eq!(reply[0]["thinking"], "The weather is asked for.");
        assert!(reply[0]["signature"].as_str().unwrap().starts_with("EqQBCgIYAhIM"));
        // Nobody offers the tool; the model reads that.
        let result = &requests[3].body["messages"][2]["content"][0];
        assert_eq!((&result["type"], &result["tool_use_id"], &result["is_error"]), (&"tool_result".into(), &reply[2]["id"], &true.into()));

        // What is opaque is in the log, and in nothing that a reader gets.
        let told = serde_json::to_string(&events).unwrap();
        let page = serde_json::to_string(&runtime.session(&key()).await.unwrap()).unwrap();
        let tree = runtime.tree(&key(), TreeQuery { view: TreeView::Raw, after: None, limit: 100 }).await.unwrap();
        for shown in [told, page, serde_json::to_string(&tree).unwrap()] {
            assert!(
                shown.contains("The weather is asked for.") && !shown.contains("EqQBCgIYAhIM") && !shown.contains("encrypted"),
                "{shown}"
            );
        }
    });
}

#[test]
fn a_refusal_keeps_what_was_said_and_fails_the_turn() {
    run_live(async {
        let upstream = Upstream::start(vec![recording("refusal"), recording("refusal_without_text")]).await;
        let runtime = asking(&upstream.base_url);
        for (turn, message, kept) in
            [("t1", "the provider's filter stopped the reply", 2), ("t2", "the provider's filter withheld the whole reply", 3)]
        {
            let body = InputBody::Append { messages: vec![Message::text(Role::User, "hello")] };
            let submitted = runtime.submit(&key(), Input { body, ..input(turn, &[]) }).await.unwrap();
            let events = rest(reader(submitted)).await;
            match &events.last().unwrap().body {
                EventBody::TurnFailed { code, message: told, .. } => assert_eq!((*code, told.as_str()), (Code::LlmRefused, message)),
                other => panic!("{other:?}"),
            }
            assert_eq!(runtime.session(&key()).await.unwrap().messages.len(), kept);
        }
    });
}

/// A provider whose reply is cut after so many bytes.
struct Cut<T> {
    bytes: Arc<Vec<u8>>,
    at: Arc<AtomicUsize>,
    translator: std::marker::PhantomData<T>,
}

impl<T: Translate + Default> Provider for Cut<T> {
    fn start(&self, _: CallRequest) -> Attempt {
        let bytes = Bytes::copy_from_slice(&self.bytes[..self.at.load(Ordering::Relaxed)]);
        recorded::reply::<T>(stream::iter([Ok(bytes)]).boxed()).boxed_local()
    }
}

/// Cuts a recording at every byte; how many of the turns completed. Whatever happens, only a whole reply is a node.
async fn cut_everywhere<T: Translate + Default>(name: &str) -> usize {
    let path = format!("{}/tests/fixtures/{}/{name}.sse", env!("CARGO_MANIFEST_DIR"), T::SERVICE);
    let (bytes, at) = (Arc::new(std::fs::read(path).unwrap()), Arc::new(AtomicUsize::new(0)));
    let (given, told) = (bytes.clone(), at.clone());
    let factory: Factory =
        Arc::new(move || Box::new(Cut::<T> { bytes: given.clone(), at: told.clone(), translator: std::marker::PhantomData }));
    let runtime = of(factory, 1);
    let mut completed = 0;
    for cut in 0..=bytes.len() {
        at.store(cut, Ordering::Relaxed);
        let key = SessionKey { session: SessionId::from(format!("cut-{cut}")), ..key() };
        let submitted = runtime.submit(&key, input("t1", &[("u1", Role::User, "hello")])).await.unwrap();
        let end = match submitted.following {
            Following::Running(reader) => rest(reader).await.pop().unwrap().body,
            Following::Ended(end) => panic!("{end:?}"),
        };
        let page = runtime.tree(&key, TreeQuery { view: TreeView::Raw, after: None, limit: 100 }).await.unwrap();
        let nodes = match end {
            EventBody::TurnCompleted { .. } => 2,
            EventBody::TurnFailed { code: Code::LlmCut, .. } => 1,
            other => panic!("{name} cut at byte {cut}: {other:?}"),
        };
        assert_eq!(page.nodes.len(), nodes, "{name} cut at byte {cut}");
        assert_eq!(page.head_id.as_ref() == Some(&"u1".into()), nodes == 1, "{name} cut at byte {cut}");
        completed += nodes - 1;
    }
    completed
}

#[test]
fn b08_a_reply_that_is_cut_at_any_byte_leaves_no_node() {
    run(async {
        // All but the last line's end is enough of it.
        assert_eq!(cut_everywhere::<<Anthropic as Api>::Translator>("redacted_thinking").await, 3);
        assert!(cut_everywhere::<<Openai as Api>::Translator>("reasoning").await > 0);
    });
}
