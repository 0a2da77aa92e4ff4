//! How fast the embedded store appends: one after the other, and many at once, each on the disk before it is answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use headwater::clock;
use headwater::ids::SessionKey;
use headwater::store::sqlite::{Options, Sqlite};
use headwater::store::{Append, Header, Outcome, Position, Store};

const RECORD_BYTES: usize = 1_024;

fn record(n: u64) -> Bytes {
    let mut bytes = vec![0; RECORD_BYTES];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(u32::try_from(at % 64).unwrap_or_default()).to_le_bytes()[0];
    }
    bytes.into()
}

/// Appends `count` records to one session, one by one.
async fn append(store: Arc<dyn Store>, session: u64, count: u64) {
    let key = SessionKey { tenant: "tenant".into(), session: format!("session {session}").into() };
    let mut position = Position::default();
    for n in 0..count {
        let append = Append::new(position, vec![record(n)], Header { updated: n, ..Header::default() });
        position = append.end;
        assert!(matches!(store.append(&key, append).await, Ok(Outcome::Appended)));
    }
}

fn appends(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let directory = tempfile::tempdir().expect("a directory");
    let store: Arc<dyn Store> = Arc::new(Sqlite::open(&Options { path: directory.path().to_owned() }).expect("a store"));
    let sessions = AtomicU64::new(0);
    let mut group = criterion.benchmark_group("sqlite_append_1kb");
    group.throughput(Throughput::Elements(1));
    for tasks in [1_u64, 8, 64, 256] {
        group.bench_with_input(BenchmarkId::new("tasks", tasks), &tasks, |bencher, &tasks| {
            bencher.iter_custom(|count| {
                let begun = clock::instant();
                runtime.block_on(async {
                    let all: Vec<_> = (0..tasks)
                        .map(|task| {
                            let session = sessions.fetch_add(1, Ordering::Relaxed);
                            let share = count / tasks + u64::from(task < count % tasks);
                            tokio::spawn(append(Arc::clone(&store), session, share))
                        })
                        .collect();
                    for task in all {
                        task.await.expect("an appending task");
                    }
                });
                begun.elapsed()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, appends);
criterion_main!(benches);
