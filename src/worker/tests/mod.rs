//! A worker over real connections: what it is sent, what it may answer, and everything that it may do wrong.

mod answers;
mod documented;
mod faults;
mod sent;

use std::path::Path;
use std::time::Duration;

use super::{Configured, Error, HttpOptions, Worker};
use crate::clock;
use crate::ids::Millis;
use crate::protocol::{Action, Client, DecisionAnswer, DecisionRequest, Limits, LlmCall, Message, Role, Trigger};
use crate::provider::http::upstream::{PATIENCE, Step, Upstream, plain};

/// A decision that has so long.
fn request(within: Millis) -> DecisionRequest {
    DecisionRequest {
        session_id: "s1".into(),
        decision_id: "d1".into(),
        agent_id: "bot".into(),
        turn_id: "t1".into(),
        trigger: Trigger::ClientMessages { new_from: 0, client: Client::default() },
        state: None,
        agent: None,
        proposed: vec![Action::LlmCall(LlmCall::default())].into(),
        messages: vec![Message::text(Role::User, "Hello, CANARY.").with_id("u1".into()).into()],
        calls: Vec::new(),
        pending_calls: Vec::new(),
        attempt: 2,
        deadline: clock::now() + within,
    }
}

fn options(text: &str) -> HttpOptions {
    toml::from_str(text).unwrap()
}

fn configured(url: &str, more: &str) -> Configured {
    super::http(&options(&format!("url = \"{url}\"\n{more}")), &"bot".into(), Limits::DEFAULT, Path::new("")).unwrap()
}

/// A worker's program, and the worker that asks it.
struct Asked {
    program: Upstream,
    worker: Box<dyn Worker>,
}

impl Asked {
    async fn start(answers: Vec<Vec<Step>>, more: &str) -> Self {
        let program = Upstream::start(answers).await;
        let worker = (configured(&program.base_url, more).factory)();
        Self { program, worker }
    }

    async fn ask(&self) -> Result<DecisionAnswer, Error> {
        self.ask_within(20_000).await
    }

    async fn ask_within(&self, within: Millis) -> Result<DecisionAnswer, Error> {
        tokio::time::timeout(PATIENCE, self.worker.decide(request(within))).await.expect("an end")
    }
}

fn json(body: &str) -> Vec<Step> {
    plain(200, "content-type: application/json\r\n", body)
}

fn done() -> DecisionAnswer {
    vec![Action::Done].into()
}

#[test]
fn options_that_cannot_be_used_are_named() {
    let fault = |text: &str| super::http(&options(text), &"bot".into(), Limits::DEFAULT, Path::new("")).err().unwrap().to_string();
    for (text, said) in [
        ("url = \"agents.example.com\"", "url: relative URL without a base; it looks like \"https://agents.example.com/decide\""),
        ("url = \"https://me:canary@x.y\"", "url: has no user and no password in it; the key is `secret`; it looks like"),
        ("url = \"http://x.y\"\nattempts = 0", "attempts: is 0; 1 to 100 are allowed"),
        ("url = \"http://x.y\"\nattempt_secs = 0", "attempt_secs: is 0; 1 to 86400 are allowed"),
        ("url = \"http://x.y\"\nwithin_secs = 100000", "within_secs: is 100000; 1 to 86400 are allowed"),
        ("url = \"http://x.y\"\nanswer_bytes_max = 0", "answer_bytes_max: is 0; 1 to 1073741824 are allowed"),
        ("url = \"http://x.y\"\nbreaker_failures = 0", "breaker_failures: is 0; 1 to 1000000 are allowed"),
        ("url = \"http://x.y\"\ntriggers = []", "triggers: is empty: the worker would never be asked"),
        ("url = \"http://x.y\"\nbreaker_secs = 0", "breaker_secs: is 0; 1 to 86400 are allowed"),
        ("url = \"http://x.y\"\nconnect_secs = 0", "connect_secs: is 0; 1 to 86400 are allowed"),
        ("url = \"http://x.y\"\nsecret = { env = \"HEADWATER_NONE\" }", "secret = { env = \"HEADWATER_NONE\" }: the environment variable"),
        ("url = \"http://x.y\"\nold_secret = { file = \"/nowhere/at/all\" }", "old_secret = { file = … }: can't read /nowhere/at/all"),
    ] {
        let fault = fault(text);
        assert!(fault.starts_with(said) && !fault.contains("canary"), "{text}: {fault}");
    }
    let patience = configured("http://x.y", "attempt_secs = 3\nattempts = 4\nwithin_secs = 50").patience;
    assert_eq!((patience.attempt_secs, patience.attempts, patience.within_secs), (3, 4, 50));
}

/// Waits until something holds.
async fn until(holds: impl Fn() -> bool) {
    let waits = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waits).await.expect("it comes to hold");
}
