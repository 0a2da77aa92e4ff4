//! What long sessions cost: opening one that left memory, and a turn in one. On the embedded store, through the runtime.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use futures_util::{StreamExt as _, stream};
use headwater::clock;
use headwater::engine::record::{Body, CallCompleted, CallStarted, HeadMoved, SessionCreated, TurnCompleted, TurnStarted};
use headwater::engine::{MessageNew, Record, Session, snapshot};
use headwater::ids::{AgentId, NodeId, SessionKey, Tenant};
use headwater::protocol::{CallRequest, Client, Digest, Finish, Input, InputBody, Message, OnBusy, Role, ViewOptions};
use headwater::provider::{Attempt, Chunk, Provider};
use headwater::runtime::{Following, Llm, Options, Runtime};
use headwater::store::memory::Memory;
use headwater::store::sqlite::Sqlite;
use headwater::store::{Append, Header, Position, Save, Store, sqlite};
use headwater::worker::socket::Hub;
use tempfile::TempDir;
use tokio::task::LocalSet;

/// The program's own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PATH: usize = 100;

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
    let role = if n.is_multiple_of(2) { Role::User } else { Role::Assistant };
    Message::text(role, format!("message {n:06}: some words that a person or a model would write")).with_id(id(n))
}

/// A session's log.
struct Log {
    records: Vec<Bytes>,
    end: Position,
    /// The messages of the active path.
    path: Vec<usize>,
}

/// A log of so many messages, `PATH` of them on the path; beside each of these stand branches of up to twenty. `turns`: with all that
/// turns record.
fn log(messages: usize, turns: bool) -> Log {
    let mut bodies = vec![Body::SessionCreated(SessionCreated { agent_id: "bot".into() })];
    let mut path: Vec<usize> = Vec::with_capacity(PATH);
    let mut above: Option<usize> = None;
    for n in 0..messages {
        if n.is_multiple_of(messages / PATH) {
            above = path.last().copied();
            path.push(n);
        } else if n.is_multiple_of(20) {
            above = path.last().copied();
        }
        let new = MessageNew::plain(id(n), above.replace(n).map(id), message(n));
        let said = Body::MessageNew(Box::new(new));
        if turns {
            turn(&mut bodies, n, said);
        } else {
            bodies.push(said);
        }
    }
    let to = path.last().map(|&n| id(n));
    bodies.push(Body::HeadMoved(HeadMoved { to, turn_id: None, digest: None, label: None, reads_as: None }));
    let record = |(body, at)| Bytes::from(Record { at: 1_790_000_000_000 + 1000 * at, body }.encode());
    let records: Vec<Bytes> = bodies.into_iter().zip(0_u64..).map(record).collect();
    let end = records.iter().fold(Position::default(), |end, record| end.then(record));
    Log { records, end, path }
}

/// What a turn records of a message: a user's begins it, a reply ends it.
fn turn(bodies: &mut Vec<Body>, n: usize, said: Body) {
    let (turn_id, call_id) = (id(2_000_000 + n / 2 * 2).as_str().into(), id(3_000_000 + n / 2).as_str().into());
    if n.is_multiple_of(2) {
        let digest = Digest(u128::try_from(n).unwrap_or_default().to_be_bytes());
        bodies.push(said);
        bodies.push(Body::TurnStarted(Box::new(TurnStarted { turn_id, agent_id: "bot".into(), digest, client: Client::default() })));
        let turn_id = id(2_000_000 + n).as_str().into();
        bodies.push(Body::CallStarted(CallStarted::of_path(turn_id, call_id, 1, id(n + 1))));
    } else {
        bodies.push(said);
        bodies.push(Body::CallCompleted(CallCompleted { call_id, hidden: false, finish: Finish::Stop, usage: None }));
        bodies.push(Body::TurnCompleted(TurnCompleted { turn_id }));
    }
}

fn key() -> SessionKey {
    SessionKey { tenant: Tenant::default_tenant(), session: "long".into() }
}

/// A model that says one word at once.
struct Brief;

impl Provider for Brief {
    fn start(&self, _request: CallRequest) -> Attempt {
        stream::iter([Ok(Chunk::Text("Yes.".to_owned())), Ok(Chunk::Finished(Finish::Stop))]).boxed_local()
    }
}

const LIMITS: &str = "readers_max = 4\nsession_requests_max = 9\nreader_batches_max = 64\nreader_bytes_max = 4194304\ncalls_per_turn_max = 3\nqueue_turns_max = 4\n\
                      queue_messages_max = 8\nreply_bytes_max = 1000\nidle_secs = 60\ndrain_secs = 30";

/// A runtime over `store`, entered by this thread.
fn runtime(store: Arc<dyn Store>) -> Runtime {
    let agent = toml::from_str("llm = \"brief\"").expect("an agent");
    let options = Options {
        agents: BTreeMap::from([(AgentId::from("bot"), agent)]),
        llms: BTreeMap::from([(
            "brief".to_owned(),
            Llm { factory: Arc::new(|| Box::new(Brief)), attempts: 1, abilities: headwater::runtime::Abilities::default() },
        )]),
        workers: BTreeMap::new(),
        dialling: Hub::default(),
        limits: toml::from_str(LIMITS).expect("limits"),
    };
    let runtime = Runtime::new(options, store);
    runtime.enter();
    runtime
}

/// On this thread, as a web server's worker does.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(LocalSet::new().run_until(work))
}

async fn fill(store: &dyn Store, log: &Log) {
    let mut at = Position::default();
    for records in log.records.chunks(10_000) {
        let append = Append::new(at, records.to_vec(), Header::default());
        at = append.end;
        store.append(&key(), append).await.expect("appended");
    }
}

async fn keep(store: &dyn Store, log: &Log) {
    let mut session = Session::default();
    for record in &log.records {
        session.evolve(Record::decode(record).expect("a record")).expect("fits");
    }
    let sheets = snapshot::save(&mut session, true).into_iter().map(|sheet| (sheet.number, sheet.bytes)).collect();
    assert!(store.save(&key(), Save { at: log.end, onto: None, sheets }).await.expect("kept"));
}

/// The path's messages as a front end sends them, the last one replaced by `last`.
fn view(log: &Log, turn: &str, last: Option<Message>, run: Option<bool>) -> Input {
    let known = log.path.iter().take(PATH - usize::from(last.is_some())).map(|&n| message(n));
    let body = InputBody::Messages { messages: known.chain(last).collect(), options: ViewOptions::default() };
    Input { agent_id: "bot".into(), turn_id: Some(turn.into()), run, client: Client::default(), on_busy: OnBusy::Refuse, body }
}

/// Opens the session and reads it, then, when asked, decides a view of it that changes nothing.
async fn open(store: Arc<dyn Store>, submit: Option<Input>) -> Duration {
    let runtime = runtime(store);
    let begun = clock::instant();
    match submit {
        None => {
            let page = runtime.session(&key()).await.expect("it is there");
            assert_eq!(page.messages.len(), PATH);
        }
        Some(input) => {
            let submitted = runtime.submit(&key(), input).await.expect("taken");
            assert!(!submitted.accepted.reply);
        }
    }
    let took = begun.elapsed();
    runtime.drain().await;
    took
}

fn opening(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("open 100k messages");
    group.sample_size(20);
    for (name, turns) in [("messages", false), ("turns", true)] {
        for (kind, kept) in [("from a snapshot", true), ("whole", false)] {
            // Made for the first figure that is asked for.
            let made = OnceCell::new();
            for (what, submits) in [("read", false), ("submit", true)] {
                group.bench_function(format!("{name}, {kind}, {what}"), |bencher| {
                    let Stored { log, store, .. } = made.get_or_init(|| stored(turns, kept));
                    let input = submits.then(|| view(log, "t", None, Some(false)));
                    let times = |count: u64| (0..count).map(|_| block_on(open(store.clone(), input.clone()))).sum();
                    bencher.iter_custom(times);
                });
            }
        }
    }
    group.finish();
}

/// A log in a store of its own.
struct Stored {
    log: Log,
    store: Arc<dyn Store>,
    _directory: TempDir,
}

fn stored(turns: bool, kept: bool) -> Stored {
    let log = log(100_000, turns);
    let directory = tempfile::tempdir().expect("a directory");
    let open = || Arc::new(Sqlite::open(&sqlite::Options { path: directory.path().to_owned() }).expect("a store"));
    block_on(async {
        let store = open();
        fill(&*store, &log).await;
        if kept {
            keep(&*store, &log).await;
        }
    });
    // What is cold isn't in the write-ahead log any more.
    let store: Arc<dyn Store> = open();
    Stored { log, store, _directory: directory }
}

/// A session in use, whose turns can be timed.
struct Used<'a> {
    log: &'a Log,
    runtime: Runtime,
    tokio: tokio::runtime::Runtime,
    local: LocalSet,
    turns: usize,
}

impl<'a> Used<'a> {
    /// Opened, and far beyond its first snapshot.
    fn new(log: &'a Log) -> Self {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let local = LocalSet::new();
        let runtime = local.block_on(&tokio, async {
            let store: Arc<dyn Store> = Arc::new(Memory::new());
            fill(&*store, log).await;
            runtime(store)
        });
        let mut used = Self { log, runtime, tokio, local, turns: 0 };
        used.time(WARM_UP);
        used
    }

    /// So many turns, each with a view of the path and one message more.
    fn time(&mut self, count: usize) -> Duration {
        let Self { log, runtime, tokio, local, turns } = self;
        let input = |n: usize| {
            let said = Message::text(Role::User, "and now?").with_id(format!("said {n}").as_str().into());
            view(log, &format!("turn {n}"), Some(said), None)
        };
        local.block_on(tokio, async {
            let mut took = Duration::ZERO;
            for n in *turns..*turns + count {
                let input = input(n);
                let begun = clock::instant();
                let submitted = runtime.submit(&key(), input).await.expect("taken");
                let Following::Running(mut reader) = submitted.following else { panic!("a turn runs") };
                while reader.next().await.is_ok() {}
                took += begun.elapsed();
            }
            *turns += count;
            took
        })
    }
}

/// Turns before any is timed: enough for a few snapshots.
const WARM_UP: usize = 600;
/// About so many are timed in one session.
const TURNS_MAX: usize = 1_000;

fn turns(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("turn with a view of 100");
    for messages in [PATH, 100_000] {
        let made = OnceCell::new();
        let used = RefCell::new(None);
        group.bench_function(format!("of {messages} stored"), |bencher| {
            let log = made.get_or_init(|| log(messages, true));
            bencher.iter_custom(|count| {
                let (mut used, mut took) = (used.borrow_mut(), Duration::ZERO);
                let mut left = usize::try_from(count).expect("small");
                while left > 0 {
                    // Turns make a session long: when they have, another one takes its place.
                    let fresh = used.take_if(|used: &mut Used| used.turns < WARM_UP + TURNS_MAX).unwrap_or_else(|| Used::new(log));
                    let some = left.min(TURNS_MAX);
                    took += used.insert(fresh).time(some);
                    left -= some;
                }
                took
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(4));
    targets = opening, turns
}
criterion_main!(benches);
