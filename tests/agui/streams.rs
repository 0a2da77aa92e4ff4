//! Any conversation, cut into any batches, is a legal stream for both clients, says the same, and can be joined and resumed at
//! every place that has a cursor.

use std::collections::BTreeMap;

use headwater::agui::{Dialect, Outcome, render, run_finished, run_started, snapshot};
use headwater::protocol::{Event, Frames};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::checker::Client;
use crate::conversation::{Conversation, step};
use crate::frames::{events, sent};
use crate::schema::assert_valid;

fn started(dialect: Dialect) -> Frames {
    run_started(dialect, &"thread".into(), &"run".into(), 1)
}

fn finished(dialect: Dialect) -> Frames {
    run_finished(dialect, &"thread".into(), &"run".into(), Outcome::Success, &[], 2)
}

fn batches(dialect: Dialect, events: &[Event], cuts: &[usize]) -> Frames {
    let mut frames = Vec::new();
    let mut rest = events;
    let mut cuts = cuts.iter().cycle();
    while !rest.is_empty() {
        let (batch, after) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
        frames.push(render(dialect, batch));
        rest = after;
    }
    Frames::concat(&frames)
}

/// What the client holds, by id.
fn held(client: &Client) -> BTreeMap<String, Value> {
    let one = |message: &Value| {
        let calls = message["toolCalls"].as_array().into_iter().flatten();
        let calls: Vec<_> = calls.map(|call| (call["id"].clone(), call["function"]["arguments"].clone())).collect();
        let says = if message["content"].is_null() { json!("") } else { message["content"].clone() };
        (message["id"].as_str().unwrap().to_owned(), json!({"says": says, "calls": calls}))
    };
    client.messages.iter().map(one).collect()
}

fn check(dialect: Dialect, frames: &[Frames], conversation: &Conversation) -> Vec<Value> {
    let stream = [&[started(dialect)], frames, &[finished(dialect)]].concat();
    let events = events(&Frames::concat(&stream));
    let client = Client::read(&events).unwrap_or_else(|fault| panic!("{fault}\n{events:#?}"));
    assert!(client.ended());
    assert_eq!(held(&client), conversation.held(dialect));
    events
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_stream_is_legal_and_says_the_same(steps in vec(step(), 0..40), cuts in vec(1..9usize, 1..6)) {
        let conversation = Conversation::of(&steps);
        for dialect in Dialect::ALL {
            assert_valid(&check(dialect, &[batches(dialect, &conversation.events, &cuts)], &conversation));
        }
    }

    #[test]
    fn a_snapshot_and_what_follows_is_the_whole(steps in vec(step(), 0..24), cuts in vec(1..9usize, 1..6)) {
        let conversation = Conversation::of(&steps);
        for dialect in Dialect::ALL {
            for (index, join) in conversation.joins.iter().enumerate() {
                let Some(join) = join else { continue };
                let cursor = conversation.events[index].cursor;
                let tail = batches(dialect, &conversation.events[index + 1..], &cuts);
                check(dialect, &[snapshot(dialect, join, cursor), tail], &conversation);
            }
        }
    }

    #[test]
    fn a_reader_resumes_after_any_id(steps in vec(step(), 0..24), cuts in vec(1..9usize, 1..6)) {
        let conversation = Conversation::of(&steps);
        for dialect in Dialect::ALL {
            let whole = batches(dialect, &conversation.events, &cuts);
            let ids: Vec<_> = sent(&whole).into_iter().map(|sent| sent.id).collect();
            prop_assert!(ids.iter().flatten().collect::<Vec<_>>().is_sorted_by(|one, next| one < next));
            for (read, id) in ids.iter().enumerate().filter(|(_, id)| id.is_some()) {
                let before = Frames { sse: whole.sse.clone(), events: whole.events[..=read].to_vec() };
                let had = |event: &Event| event.cursor.is_some_and(|cursor| Some(cursor) <= *id);
                let from = conversation.events.iter().rposition(had).map_or(0, |last| last + 1);
                let rest = render(dialect, &conversation.events[from..]).after(id.unwrap());
                let texts: Vec<Value> = before.texts().map(|text| serde_json::from_slice(&text).unwrap()).chain(events(&rest)).collect();
                let texts = [events(&started(dialect)), texts, events(&finished(dialect))].concat();
                let client = Client::read(&texts).map_err(TestCaseError::fail)?;
                prop_assert_eq!(held(&client), conversation.held(dialect));
            }
        }
    }
}
