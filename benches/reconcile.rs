//! What reconciling a view costs a message, on small and large trees, and what folding a log costs. Without JSON where that is
//! possible: views are made ready before.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use headwater::engine::{MessageNew, Record, Session, Tree, View, reconcile};
use headwater::ids::NodeId;
use headwater::protocol::{Message, Role, ViewOptions};

/// Ids as front ends and the engine make them: 36 and 35 characters, without order.
fn id(n: usize) -> NodeId {
    let mixed = (n as u128 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
    if n.is_multiple_of(2) {
        let hex = format!("{mixed:032x}");
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]).into()
    } else {
        format!("hw_{mixed:032x}").into()
    }
}

fn message(n: usize) -> Message {
    Message::text(if n.is_multiple_of(2) { Role::User } else { Role::Assistant }, format!("message {n}"))
}

/// A tree of `nodes` nodes; after each one of the path (of `length`) come side branches of up to twenty nodes.
fn tree(nodes: usize, length: usize) -> (Tree, Vec<NodeId>) {
    let mut tree = Tree::default();
    let mut path: Vec<NodeId> = Vec::with_capacity(length);
    let side = nodes / length - 1;
    let mut made = 0;
    for _ in 0..length {
        let here = id(made);
        add(&mut tree, &here, path.last().cloned(), made);
        made += 1;
        let mut above = here.clone();
        for n in 0..side {
            let next = id(made);
            add(&mut tree, &next, Some(if n % 20 == 0 { here.clone() } else { above }), made);
            above = next;
            made += 1;
        }
        path.push(here);
    }
    (tree, path)
}

fn add(tree: &mut Tree, id: &NodeId, parent: Option<NodeId>, n: usize) {
    tree.add(n as u64, n as u64, &MessageNew::plain(id.clone(), parent, message(n))).expect("fits");
}

/// The whole path and one message more, as a front end sends it.
fn view(tree: &Tree, path: &[NodeId]) -> View {
    let known = path.iter().map(|id| {
        let node = tree.node(tree.find(id).expect("there"));
        let n = usize::try_from(node.seq).expect("small");
        message(n).with_id(id.as_str().into())
    });
    View::new(known.chain([Message::text(Role::User, "new").with_id("new".into())]).collect())
}

fn reconciling(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("reconcile");
    for (length, sizes) in [(100, &[1_000, 100_000, 1_000_000][..]), (500, &[1_000, 1_000_000]), (10_000, &[100_000, 1_000_000])] {
        group.throughput(Throughput::Elements(length as u64 + 1));
        for &nodes in sizes {
            let (tree, path) = tree(nodes, length);
            let view = view(&tree, &path);
            let head = path.last().and_then(|id| tree.find(id));
            group.bench_function(BenchmarkId::new(format!("view of {length}"), nodes), |bencher| {
                bencher.iter(|| reconcile(black_box(&tree), head, black_box(&view), ViewOptions::default()).expect("taken"));
            });
        }
    }
    group.finish();
}

fn folding(criterion: &mut Criterion) {
    const RECORDS: usize = 100_000;
    let mut above = None;
    let log: Vec<Vec<u8>> = (0..RECORDS)
        .map(|n| {
            let new = MessageNew::plain(id(n), above.replace(id(n)), message(n));
            Record { at: n as u64, body: headwater::engine::record::Body::MessageNew(Box::new(new)) }.encode()
        })
        .collect();
    let mut group = criterion.benchmark_group("fold");
    group.throughput(Throughput::Elements(RECORDS as u64));
    group.sample_size(10);
    group.bench_function("decode and fold 100k records", |bencher| {
        bencher.iter(|| {
            let mut session = Session::default();
            for stored in &log {
                session.evolve(Record::decode(stored).expect("a record")).expect("fits");
            }
            session
        });
    });
    let records: Vec<Record> = log.iter().map(|stored| Record::decode(stored).expect("a record")).collect();
    group.bench_function("fold 100k records", |bencher| {
        let fold = |records: Vec<Record>| {
            let mut session = Session::default();
            for record in records {
                session.evolve(record).expect("fits");
            }
            session
        };
        bencher.iter_batched(|| records.clone(), fold, BatchSize::PerIteration);
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    targets = reconciling, folding
}
criterion_main!(benches);
