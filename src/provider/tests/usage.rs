//! Reports of tokens, as services stream them (`tests/fixtures/usage.jsonl`): what each comes to, counted once, in our own sense.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value;

use super::{asked, beginning, cases, ending, provider, request};
use crate::protocol::{Finish, Usage};
use crate::provider::Chunk;
use crate::provider::http::upstream::{Step, Upstream, streamed};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// The kind of provider.
    through: String,
    #[serde(rename = "case")]
    about: String,
    /// The data of the events with the reports, in the middle of a whole reply.
    events: Vec<Value>,
    /// What it comes to; nothing when nothing may be believed.
    usage: Option<Usage>,
}

impl Case {
    /// A reply that says `One` and is done, whatever it reports.
    fn stream(&self) -> Vec<Step> {
        let events = self.events.iter().map(|event| format!("data: {event}\n\n"));
        // Where the API reports at the very start, the case does.
        let (first, rest): (Vec<_>, Vec<_>) = events.partition(|event| event.contains("message_start"));
        let said = beginning(&self.through);
        let said = said.split_inclusive("\n\n").filter(|event| !event.contains("message_start"));
        let whole: String = first.into_iter().chain(said.map(str::to_owned)).chain(rest).chain([ending(&self.through)]).collect();
        vec![Step::Write(streamed([whole.as_bytes()]))]
    }
}

#[tokio::test]
async fn each_report_comes_to_what_was_meant() {
    let cases: Vec<Case> = cases("usage.jsonl");
    let upstream = Upstream::start(cases.iter().map(Case::stream).collect()).await;
    let mut others = String::new();
    for case in &cases {
        let items = asked(&*provider(&case.through, &upstream.base_url), request()).await;
        let reports: Vec<&Usage> =
            items.iter().filter_map(|item| if let Ok(Chunk::Usage(usage)) = item { Some(usage) } else { None }).collect();
        let figures = reports.first().map(|&usage| Usage { model: None, provider: None, ..usage.clone() });
        let is_fine = items.first() == Some(&Ok(Chunk::Text("One".to_owned()))) && items.last() == Some(&Ok(Chunk::Finished(Finish::Stop)));
        if reports.len() > 1 || figures != case.usage || !is_fine {
            writeln!(others, "{}: {}: {:?} is expected, not {items:?}", case.through, case.about, case.usage).unwrap();
        }
    }
    assert!(others.is_empty(), "{others}");
    assert!(cases.len() > 50, "{}", cases.len());
}
