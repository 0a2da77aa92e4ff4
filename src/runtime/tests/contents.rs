//! A long conversation whose first messages have left memory, as the model reads a summary instead: what people are told is whole.

use super::*;
use crate::engine::context::originals;
use crate::engine::{Record, Session};
use crate::store::Store as _;

const AGENT: &str =
    "llm = \"played\"\n[context]\nwindow = 2000000\n[[context.strategy]]\nuse = \"summarize\"\nover_tokens = 250000\nkeep_turns = 1\n";
const TURNS: usize = 12;
const SUMMARY: &str = "They talked.";

fn bench() -> Bench {
    let store = Arc::new(Faulty::new(Arc::new(Memory::new())));
    let model = Played::default();
    let runtime = Runtime::new(options(&model, AGENT), store.clone());
    runtime.enter();
    Bench { runtime, model, store }
}

fn key_of(session: &str) -> SessionKey {
    SessionKey { session: session.into(), ..key() }
}

/// Long, so that few of them stay in memory.
fn question(n: usize) -> String {
    format!("question {n} {}", "word ".repeat(80_000))
}

/// What people read after all turns.
fn conversation() -> Vec<String> {
    (0..TURNS).flat_map(|n| [question(n), format!("answer {n}")]).collect()
}

async fn turn(bench: &Bench, n: usize) {
    let message = Message::text(Role::User, question(n)).with_id(format!("u{n}").as_str().into());
    let body = InputBody::Append { messages: vec![message] };
    let submitted = bench.runtime.submit(&key(), Input { body, ..input(&format!("t{n}"), &[]) }).await.unwrap();
    loop {
        let (request, model) = bench.model.asked().await;
        let words = if request.hidden { SUMMARY.to_owned() } else { format!("answer {n}") };
        model.send(says(&words)).unwrap();
        model.send(Ok(Chunk::Finished(Finish::Stop))).unwrap();
        if !request.hidden {
            break;
        }
    }
    rest(reader(submitted)).await;
}

fn same(what: &str, seen: &[String]) {
    // Not compared as a whole: a failure would print megabytes.
    assert_eq!(seen.len(), 2 * TURNS, "{what}");
    for (n, (seen, said)) in seen.iter().zip(conversation()).enumerate() {
        assert!(*seen == said, "{what}: message {n} is {} long", seen.len());
    }
}

async fn session(bench: &Bench, key: &SessionKey) -> Vec<String> {
    let page = bench.runtime.session(key).await.unwrap();
    page.messages.iter().map(|message| message.joined_text()).collect()
}

async fn tree(bench: &Bench, key: &SessionKey) -> Vec<String> {
    let page = bench.runtime.tree(key, TreeQuery { view: TreeView::Reader, after: None, limit: 100 }).await.unwrap();
    page.nodes.iter().map(|node| node.message.joined_text()).collect()
}

async fn everything_is_whole(bench: &Bench, fork: &str) {
    same("page", &session(bench, &key()).await);
    same("tree", &tree(bench, &key()).await);
    same("join", &texts(&bench.runtime.join(&key()).await.unwrap().snapshot));
    same("hydrate", &texts(&bench.runtime.hydrate(&key()).await.unwrap().snapshot));
    let asked = ForkInput { session_id: Some(fork.into()), at: None };
    bench.runtime.fork(&key(), asked).await.unwrap();
    same("fork", &session(bench, &key_of(fork)).await);
    same("tree of the fork", &tree(bench, &key_of(fork)).await);
}

/// The session as its log makes it.
async fn folded(bench: &Bench) -> Session {
    let mut session = Session::default();
    let records = bench.store.read(&key(), 1, 1_000).await.unwrap();
    for bytes in &records {
        session.evolve(Record::decode(bytes).unwrap()).unwrap();
    }
    session
}

#[test]
fn what_was_summarized_leaves_memory_and_people_are_told_all_of_it() {
    run(async {
        let bench = bench();
        for n in 0..TURNS {
            turn(&bench, n).await;
        }
        let folded = folded(&bench).await;
        assert!(folded.tree.epoch(folded.head) >= 2, "{} epochs", folded.tree.epoch(folded.head));
        let all = originals(&folded.tree, folded.head);
        assert_eq!(all.len(), 2 * TURNS);
        assert!(folded.missing(all).len() >= TURNS, "few stay in memory");
        assert!(folded.missing(folded.tree.up(folded.head)).is_empty(), "all that the model reads stays");

        everything_is_whole(&bench, "copy").await;
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(*bench.runtime.0.living.borrow(), 0, "they have left memory");
        everything_is_whole(&bench, "other").await;
    });
}

#[test]
fn an_export_has_every_original_and_can_be_read_again() {
    run(async {
        let bench = bench();
        for n in 0..TURNS {
            turn(&bench, n).await;
        }
        let mut records = Vec::new();
        let mut after = Some(0);
        while let Some(place) = after {
            let page = bench.runtime.records(&key(), place, 3).await.unwrap();
            records.extend(page.records.iter().map(|line| Bytes::copy_from_slice(line.record.get().as_bytes())));
            after = page.next;
        }
        let again = key_of("again");
        bench.runtime.import(&again, records).await.unwrap();
        same("import", &session(&bench, &again).await);
        same("tree of the import", &tree(&bench, &again).await);
    });
}

#[test]
fn what_waits_and_stands_on_another_branch_is_read_though_it_left_memory() {
    run(async {
        let bench = Bench::new();
        let long = "long ".repeat(300_000);
        let first = reader(bench.say("t1", &[("u1", Role::User, &long)]).await.unwrap());
        bench.model.answers("Hi.").await;
        rest(first).await;
        // So much that what is on the other branch leaves memory.
        let second = "longer ".repeat(500_000);
        drop(bench.say("t2", &[("v1", Role::User, &second)]).await.unwrap());
        drop(bench.model.asked().await);
        let body = InputBody::Append { messages: vec![Message::text(Role::User, &*long).with_id("u1".into())] };
        bench.runtime.submit(&key(), Input { on_busy: OnBusy::Steer, body, ..input("t3", &[]) }).await.map(drop).unwrap();
        bench.runtime.0.stop_all();
        bench.runtime.0.living.subscribe().wait_for(|&tasks| tasks == 0).await.unwrap();
        let bench = Bench::over(bench.store.clone());
        bench.runtime.recover().await.unwrap();
        bench.model.answers("One.").await;
        let read = bench.model.answers("Two.").await;
        let read: Vec<usize> = read.messages.iter().map(|message| message.joined_text().len()).collect();
        assert_eq!(read, [second.len(), 4, long.len()]);
    });
}
