//! Readers of one session: what is told is rendered once for all of them, and one that falls behind holds nothing and misses nothing.

use std::cell::RefCell;

use super::*;
use crate::protocol::Frames;

/// One reader, of one of three kinds.
enum OneOf {
    Turn(Reader),
    Session(EventStream),
    Run(Box<RunEvents>),
}

impl OneOf {
    async fn of(runtime: &Runtime, n: usize) -> Self {
        match n % 3 {
            0 => Self::Turn(runtime.join(&key()).await.unwrap().running.expect("a turn runs").1),
            1 => Self::Session(runtime.events(&key(), None).await.unwrap()),
            _ => match runtime.run(&key(), &"t1".into(), None).await.unwrap() {
                Run::Begun(resumed) => Self::Run(Box::new(resumed.events)),
                Run::Queued(..) | Run::Ended(_) => panic!("it runs"),
            },
        }
    }

    /// What is here of what happens now.
    async fn next(&mut self) -> Option<Arc<Batch>> {
        let next = async {
            match self {
                Self::Turn(reader) => reader.next().await.ok(),
                Self::Session(events) => events.next().await.ok(),
                Self::Run(events) => events.next().await.ok().map(|told| told.batch),
            }
        };
        tokio::time::timeout(Duration::from_millis(1), next).await.ok().flatten()
    }
}

/// A turn that so many readers of all kinds and dialects read, word by word; batches that they got, and how often one was rendered.
async fn renderings(readers: usize) -> (usize, usize) {
    let limits = LIMITS.replace("readers_max = 4", "readers_max = 1000").replace("requests_max = 3", "requests_max = 1000");
    let mut bench = Bench::new();
    bench.runtime = made(&bench.model, bench.store.clone(), &limits);
    let _turn = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
    let (_, model) = bench.model.asked().await;
    let mut list = Vec::new();
    for n in 0..readers {
        let mut reader = OneOf::of(&bench.runtime, n).await;
        // Where it begins is its own.
        while reader.next().await.is_some() {}
        list.push((reader, n / 3 % bus::DIALECTS));
    }
    let (batches, rendered) = (RefCell::new(Vec::<Arc<Batch>>::new()), RefCell::new(0));
    for n in 0..50 {
        model.send(says(&format!("word {n} "))).unwrap();
        for (reader, dialect) in &mut list {
            let mut got = 0;
            while let Some(batch) = reader.next().await {
                got += 1;
                batch.rendered(*dialect, |_| {
                    *rendered.borrow_mut() += 1;
                    Frames::default()
                });
                if !batches.borrow().iter().any(|known| Arc::ptr_eq(known, &batch)) {
                    batches.borrow_mut().push(batch);
                }
            }
            assert!(got > 0, "each reader is told each word");
        }
    }
    (batches.into_inner().len(), rendered.into_inner())
}

#[test]
fn renderings_do_not_depend_on_the_number_of_readers() {
    run(async {
        assert_eq!(renderings(1).await, (50, 50));
        assert_eq!(renderings(10).await, (50, 50 * bus::DIALECTS));
        assert_eq!(renderings(100).await, (50, 50 * bus::DIALECTS));
    });
}

#[test]
fn a_turns_reader_that_fell_behind_goes_on_where_it_was() {
    run(async {
        let bench = Bench::new();
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let Following::Running(mut reader) = submitted.following else { panic!("it runs") };
        let (_, model) = bench.model.asked().await;
        let (mut seen, mut at) = (String::new(), submitted.cursor);
        let mut read = |batch: &Batch| {
            at = batch.events.iter().rev().find_map(|event| event.cursor).unwrap_or(at);
            seen.push_str(&text(&batch.events));
            at
        };
        let mut wanted = String::new();
        for n in 0..120 {
            let word = format!("é{n} ");
            model.send(says(&word)).unwrap();
            wanted.push_str(&word);
            tokio::time::sleep(Duration::from_millis(1)).await;
            if n < 5 {
                read(&reader.next().await.unwrap());
            }
        }
        let place = loop {
            match reader.next().await {
                Ok(batch) => drop(read(&batch)),
                Err(end) => {
                    assert_eq!(end, ReadEnd::Slow);
                    break read(&Batch::new(Vec::new()));
                }
            }
        };
        let Run::Begun(mut rest) = bench.runtime.catch_up(&key(), &"t1".into(), Some(place)).await.unwrap() else { panic!("it runs") };
        assert!(rest.opening.is_none());
        model.send(Ok(Chunk::Finished(Finish::Stop))).unwrap();
        while let Ok(told) = rest.events.next().await {
            read(&told.batch);
        }
        assert_eq!(seen, wanted);
    });
}

#[test]
fn a_reader_that_comes_back_takes_a_long_reply_in_parts() {
    run(async {
        let mut bench = Bench::new();
        bench.runtime = made(&bench.model, bench.store.clone(), &LIMITS.replace("reply_bytes_max = 1000", "reply_bytes_max = 10000000"));
        let _turn = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let (_, model) = bench.model.asked().await;
        let long = "🦀".repeat(1 << 20);
        model.send(says(&long)).unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        let mut stream = bench.runtime.events(&key(), Some(Cursor::after(0))).await.unwrap();
        let mut seen = String::new();
        while seen.len() < long.len() {
            let batch = stream.next().await.unwrap();
            let part = text(&batch.events);
            assert!(part.len() <= 64 << 10, "{}", part.len());
            seen.push_str(&part);
        }
        assert!(seen == long);
    });
}
