//! Summaries that are written while turns go on.

use super::*;
use crate::engine::context::originals;
use crate::engine::{Record, Session};
use crate::store::Store as _;

const AGENT: &str = "llm = \"played\"\n[context]\nwindow = 2000000\n[[context.strategy]]\nuse = \"summarize\"\nover_tokens = 60\n\
                     keep_turns = 1\nbackground = true\n";

fn bench(store: Arc<Faulty>) -> Bench {
    let model = Played::default();
    let runtime = Runtime::new(options(&model, AGENT), store.clone());
    runtime.enter();
    Bench { runtime, model, store }
}

fn new() -> Bench {
    bench(Arc::new(Faulty::new(Arc::new(Memory::new()))))
}

/// A turn in which the model says something long; what it was asked. Other calls are left as they are.
async fn turn(bench: &Bench, n: usize, others: &mut Vec<Asked>) -> CallRequest {
    let submitted = bench.add(&format!("t{n}"), &format!("u{n}"), OnBusy::Refuse).await.unwrap();
    let request = loop {
        let (request, model) = bench.model.asked().await;
        if request.hidden {
            others.push((request, model));
            continue;
        }
        model.send(says(&format!("answer {n:>60}"))).unwrap();
        model.send(Ok(Chunk::Finished(Finish::Stop))).unwrap();
        break request;
    };
    let events = rest(reader(submitted)).await;
    assert!(matches!(events.last().unwrap().body, EventBody::TurnCompleted { .. }));
    request
}

/// The session as its log makes it.
async fn folded(bench: &Bench) -> Session {
    let mut session = Session::default();
    let mut from = 1;
    loop {
        let page = bench.store.read(&key(), from, 1_000).await.unwrap();
        if page.is_empty() {
            return session;
        }
        from += page.len() as u64;
        for bytes in &page {
            session.evolve(Record::decode(bytes).unwrap()).unwrap();
        }
    }
}

#[test]
fn turns_go_on_while_a_summary_is_written_and_the_next_one_adopts_it() {
    run(async {
        let bench = new();
        let mut jobs = Vec::new();
        let mut n = 0;
        while jobs.is_empty() {
            turn(&bench, n, &mut jobs).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
            jobs.extend(bench.model.0.lock().unwrap().pop());
            n += 1;
        }
        // It stalls, and three turns pass.
        for _ in 0..3 {
            turn(&bench, n, &mut jobs).await;
            n += 1;
        }
        assert_eq!(jobs.len(), 1, "one job a session");
        let (request, model) = jobs.pop().unwrap();
        assert!(request.hidden && request.tools.is_empty() && request.messages[0].joined_text().contains("says u0"));
        model.send(says("They talked.")).unwrap();
        model.send(Ok(Chunk::Finished(Finish::Stop))).unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
        let read = turn(&bench, n, &mut jobs).await;
        let read: Vec<String> = read.messages.iter().map(|message| message.joined_text()).collect();
        assert!(read[0].ends_with("They talked.") && read.len() < 2 * n, "{read:?}");
        assert_eq!(read.last().unwrap(), &format!("says u{n}"));
        let page = bench.runtime.session(&key()).await.unwrap();
        assert_eq!(page.messages.len(), 2 * (n + 1), "people read on as before");
        assert!(!page.messages.iter().any(|message| message.joined_text().contains("They talked")));
        let session = folded(&bench).await;
        assert_eq!((session.tree.epoch(session.head), originals(&session.tree, session.head).len()), (1, 2 * (n + 1)));
    });
}

#[test]
fn a_lost_or_stalled_job_is_tried_again_and_keeps_its_session_in_memory() {
    run(async {
        let mut bench = new();
        let mut jobs = Vec::new();
        for n in 0..6 {
            turn(&bench, n, &mut jobs).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
            jobs.extend(bench.model.0.lock().unwrap().pop());
        }
        assert_eq!(jobs.len(), 1);
        tokio::time::sleep(Duration::from_secs(200)).await;
        assert_eq!(*bench.runtime.0.living.borrow(), 1, "it isn't retired");
        // Past its deadline.
        let (_, again) = bench.model.asked().await;
        assert!(jobs[0].1.is_closed(), "the first attempt is given up");
        bench.runtime.0.stop_all();
        bench.runtime.0.living.subscribe().wait_for(|&tasks| tasks == 0).await.unwrap();
        assert!(again.is_closed());
        bench = super::jobs::bench(bench.store.clone());
        assert_eq!(bench.runtime.recover().await.unwrap(), 1);
        bench.model.answers("They talked.").await;
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(*bench.runtime.0.living.borrow(), 0, "nothing goes on");
        let read = turn(&bench, 6, &mut jobs).await;
        assert!(read.messages[0].joined_text().ends_with("They talked."));
    });
}

/// What this thread has used of a processor so far, in the kernel's ticks of 10 ms.
fn ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
}

fn median(part: &[u64]) -> u64 {
    let mut part = part.to_vec();
    part.sort_unstable();
    part[part.len() / 2]
}

/// 5,000 turns, or as many as `HEADWATER_SOAK_TURNS` says.
#[test]
fn a_long_soak_stays_flat() {
    let turns = std::env::var("HEADWATER_SOAK_TURNS").ok().and_then(|turns| turns.parse().ok()).unwrap_or(5_000);
    run(async move {
        let bench = new();
        let (mut jobs, mut read, mut kept, mut used) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut began = ticks();
        for n in 0..turns {
            let request = turn(&bench, n, &mut jobs).await;
            read.push(request.messages.len());
            jobs.append(&mut bench.model.0.lock().unwrap());
            // Every summary takes the time of two turns.
            if n % 3 == 2 {
                for (_, model) in jobs.drain(..) {
                    let _ = model.send(says(&format!("Summary of {n}.")));
                    let _ = model.send(Ok(Chunk::Finished(Finish::Stop)));
                }
            }
            if n % 100 == 99 {
                used.push(ticks() - began);
            }
            if n % 1_000 == 999 {
                kept.push(folded(&bench).await.seq);
            }
            if n % 100 == 99 {
                began = ticks();
            }
        }
        let session = folded(&bench).await;
        let most = |part: &[usize]| part.iter().copied().max().unwrap_or_default();
        let (early, late) = (most(&read[turns / 5..2 * turns / 5]), most(&read[turns - turns / 5..]));
        assert!(late <= early + 2, "the model reads no more: {early}, {late} messages");
        let records: Vec<u64> = kept.windows(2).map(|pair| pair[1] - pair[0]).collect();
        if let (Some(first), Some(last)) = (records.first(), records.last()) {
            assert!(last * 100 <= first * 103, "records a turn: {records:?}");
        }
        // Medians of ten stretches of 100 turns each: a machine that is busy with something else doesn't change them.
        if used.len() >= 40 {
            let (early, late) = (median(&used[5..15]), median(&used[used.len() - 10..]));
            eprintln!("ticks of 100 turns: {early} early, {late} late");
            assert!(late * 2 <= early * 3 + 2, "processor time of 100 turns: {used:?}");
        }
        assert!(session.tree.epoch(session.head) as usize > turns / 20, "{} epochs", session.tree.epoch(session.head));
        let found = originals(&session.tree, session.head);
        assert_eq!(found.len(), 2 * turns, "every original is reachable through the links");
        assert_eq!(crate::engine::reader_nodes(&session).into_iter().map(|ix| session.tree.node(ix).original).collect::<Vec<_>>(), found);
    });
}
