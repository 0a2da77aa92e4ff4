//! What services say when they refuse a call (`tests/fixtures/refusals`): what means that it is too long, and what only sounds like it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value;

use super::{KINDS, asked, beginning, cases, provider, request};
use crate::protocol::{CallErrorKind, CallRequest};
use crate::provider::Chunk;
use crate::provider::http::recorded::Items;
use crate::provider::http::upstream::{Step, Upstream, plain, streamed};

/// One refusal, as it comes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// Whose words they are.
    service: String,
    /// What is special about them.
    #[serde(rename = "case")]
    about: String,
    /// The kind of provider that meets them.
    through: String,
    status: u16,
    content_type: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// JSON, or a text as it is.
    body: Value,
    /// As the answer, or in the middle of a stream.
    r#as: Vec<Place>,
    /// The event's name in a stream.
    event: Option<String>,
    kind: CallErrorKind,
    /// In a stream, where that is something else, since there is no status.
    event_kind: Option<CallErrorKind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Place {
    Answer,
    Event,
}

impl Case {
    fn body(&self) -> String {
        self.body.as_str().map_or_else(|| self.body.to_string(), str::to_owned)
    }

    fn answer(&self, status: u16) -> Vec<Step> {
        let mut headers = format!("content-type: {}\r\n", self.content_type);
        for (name, value) in &self.headers {
            write!(headers, "{name}: {value}\r\n").unwrap();
        }
        plain(status, &headers, &self.body())
    }

    fn stream(&self) -> Vec<Step> {
        let name = self.event.as_ref().map(|name| format!("event: {name}\n")).unwrap_or_default();
        let error = format!("{name}data: {}\n\n", self.body());
        vec![Step::Write(streamed([beginning(&self.through).as_bytes(), error.as_bytes()]))]
    }

    fn steps(&self, place: Place) -> Vec<Step> {
        match place {
            Place::Answer => self.answer(self.status),
            Place::Event => self.stream(),
        }
    }

    fn expected(&self, place: Place) -> CallErrorKind {
        match place {
            Place::Answer => self.kind,
            Place::Event => self.event_kind.unwrap_or(self.kind),
        }
    }
}

fn too_long() -> Vec<Case> {
    cases("refusals/too_long.jsonl")
}

fn near_misses() -> Vec<Case> {
    cases("refusals/near_misses.jsonl")
}

/// What was said before the error, and its kind. There is one, last.
fn end(items: &Items, place: Place) -> Option<CallErrorKind> {
    let (last, before) = items.split_last()?;
    let said = before.iter().filter(|item| !matches!(item, Ok(Chunk::Usage(_))));
    let expected = [Ok(Chunk::Text("One".to_owned()))];
    let expected = if place == Place::Event { &expected[..] } else { &[] };
    last.as_ref().err().filter(|_| said.eq(expected)).map(|error| error.kind)
}

/// Asks once for each `answer`, in order, through the provider that each names.
async fn check(answers: Vec<(Case, Vec<Step>, Place, CallErrorKind)>, request: &CallRequest) {
    let upstream = Upstream::start(answers.iter().map(|(_, steps, _, _)| steps.clone()).collect()).await;
    let providers = KINDS.map(|kind| (kind, provider(kind, &upstream.base_url)));
    let mut others = String::new();
    for (case, _, place, expected) in &answers {
        let (_, provider) = providers.iter().find(|(kind, _)| *kind == case.through).unwrap();
        let items = asked(&**provider, request.clone()).await;
        if end(&items, *place) != Some(*expected) {
            writeln!(others, "{}: {}, as {place:?}: {expected:?} is expected, not {items:?}", case.service, case.about).unwrap();
        }
    }
    assert!(others.is_empty(), "{others}");
}

async fn check_each(cases: Vec<Case>, request: &CallRequest) {
    let places = cases.into_iter().flat_map(|case| case.r#as.clone().into_iter().map(move |place| (case.clone(), place)));
    let answers = places.map(|(case, place)| (case.clone(), case.steps(place), place, case.expected(place)));
    check(answers.collect(), request).await;
}

#[tokio::test]
async fn each_wording_of_too_long_is_known() {
    check_each(too_long(), &request()).await;
}

#[tokio::test]
async fn a_hidden_call_fails_in_the_same_words() {
    check_each(too_long(), &CallRequest { hidden: true, system: Some("Summarize.".to_owned()), ..request() }).await;
}

#[tokio::test]
async fn what_only_sounds_like_too_long_is_not() {
    check_each(near_misses(), &request()).await;
}

/// Whatever else it says, a 429 asks for a pause.
#[tokio::test]
async fn a_429_is_never_too_long() {
    let all = too_long().into_iter().chain(near_misses()).filter(|case| case.r#as.contains(&Place::Answer));
    let answers = all.map(|case| (case.clone(), case.answer(429), Place::Answer, CallErrorKind::RateLimited));
    check(answers.collect(), &request()).await;
}

/// Whatever else it says, who may not ask, or has not paid, gains nothing by a shorter request.
#[tokio::test]
async fn who_may_not_ask_is_never_too_long() {
    let all = || too_long().into_iter().filter(|case| case.r#as.contains(&Place::Answer));
    let refused = [401, 402, 403, 404].into_iter().flat_map(|status| all().map(move |case| (status, case)));
    let answers = refused.map(|(status, case)| (case.clone(), case.answer(status), Place::Answer, CallErrorKind::Refused));
    check(answers.collect(), &request()).await;
}

#[test]
fn the_cases_cover_the_services() {
    let (hits, misses) = (too_long(), near_misses());
    assert!(hits.iter().all(|case| case.kind == CallErrorKind::TooLong && case.event_kind.is_none()));
    assert!(misses.iter().all(|case| case.kind != CallErrorKind::TooLong && case.event_kind != Some(CallErrorKind::TooLong)));
    assert!(misses.len() >= hits.len() && hits.len() >= 100, "{} and {}", hits.len(), misses.len());
    let services = |cases: &[Case], place| -> BTreeSet<String> {
        cases.iter().filter(|case| case.r#as.contains(&place)).map(|case| case.service.clone()).collect()
    };
    for service in [
        "openai",
        "azure",
        "anthropic",
        "bedrock",
        "gemini",
        "vertex",
        "mistral",
        "groq",
        "openrouter",
        "llama.cpp",
        "vllm",
        "ollama",
        "together",
        "deepseek",
        "xai",
        "cohere",
        "lm studio",
        "tgi",
        "sambanova",
        "fireworks",
    ] {
        for place in [Place::Answer, Place::Event] {
            assert!(services(&hits, place).contains(service), "{service} has no hit as {place:?}");
        }
        assert!(services(&misses, Place::Answer).contains(service), "{service} has no near miss");
    }
    let names: BTreeSet<_> =
        hits.iter().chain(&misses).map(|case| (&case.service, &case.about, case.kind == CallErrorKind::TooLong)).collect();
    assert_eq!(names.len(), hits.len() + misses.len(), "two cases have one name");
}
