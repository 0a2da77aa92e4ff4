//! Runs on a shared socket that wait for each other, while its peer takes little of what it is told.

use serde_json::{Value, json};

use crate::app::{TestApp, said, v1};
use crate::reader::words;
use crate::resume::model::{Piece, model};
use crate::shared_socket::Device;

/// A reply of so many pieces of text; one that calls a tool which nobody has goes on with the next.
fn reply(word: &str, pieces: usize, calls: bool) -> Vec<Piece> {
    let text = (0..pieces).flat_map(|_| [Piece::Long(word.to_owned(), 20_000), Piece::Wait(1)]);
    let call = [Piece::Call(0, "nobody's".to_owned()), Piece::Arguments(0, "{}".to_owned())];
    text.chain(call.into_iter().filter(|_| calls)).collect()
}

fn asks(run: &str, replies: &[Vec<Piece>]) -> Value {
    v1(said("s1", run, &serde_json::to_string(replies).unwrap()))
}

#[tokio::test]
async fn a_run_that_waits_for_the_one_before_it_to_be_told_is_told_whole() {
    let app = TestApp::over_limited(model(), "reader_bytes_max = 1048576", |options| {
        (options.outbox_bytes_max, options.write_secs) = (64 << 10, 60);
    });
    let mut device = Device::open(&app).await;
    // More than the connection takes at once, and less than may wait for a reader.
    let first = asks("r1", &[reply("a", 45, false)]);
    // More than may wait.
    let mut second = asks("r2", &[reply("b", 45, true), reply("c", 45, false)]);
    let before = first["messages"][0].clone();
    second["messages"].as_array_mut().unwrap().insert(0, before);
    second["forwardedProps"] = json!({"headwater": {"queue": true}});
    device.say(&first).await;
    device.say(&second).await;
    // The turns don't wait for their reader.
    let page = app.until("s1", |page| page["status"] == "idle" && page["messages"].as_array().is_some_and(|all| all.len() == 6)).await;
    device.ends("s1", 2).await;
    let told = device.reader("s1");
    assert_eq!((told.starts.clone(), told.ends.clone()), (vec!["r1".into(), "r2".into()], vec!["success".into(), "success".into()]));
    let expected: Vec<_> = page["messages"].as_array().unwrap().iter().map(words).collect();
    assert!(told.messages == expected, "what is told is what is there");
}
