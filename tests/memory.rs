//! What sessions take of memory, counted at the allocator: an inactive node is light, contents follow the active path, a session that
//! left memory costs nothing, and a turn in a long session does no more work than one in a short session. `SQLite`'s own memory
//! isn't counted, nor is a log that is stored there.

use std::alloc::System;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use headwater::engine::record::{Body, CallCompleted, CallStarted, HeadMoved, SessionCreated, StateUpdated, TurnCompleted, TurnStarted};
use headwater::engine::{MessageNew, Record, Session, snapshot};
use headwater::ids::{AgentId, NodeId, SessionKey, Tenant};
use headwater::protocol::{CallRequest, Client, Digest, Finish, Input, InputBody, Message, OnBusy, Role, ToolCall, ViewOptions};
use headwater::provider::{Attempt, Chunk, Provider};
use headwater::runtime::{Following, Llm, Options, Runtime};
use headwater::store::memory::Memory;
use headwater::store::sqlite::Sqlite;
use headwater::store::{Append, Header, Position, Store, sqlite};
use headwater::worker::socket::Hub;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// One test at a time: they count what all threads do.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes that are in use.
fn live() -> usize {
    let stats = COUNTED.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// Ids as front ends and the engine make them.
fn id(n: usize) -> String {
    let mixed = (n as u128 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
    if n.is_multiple_of(2) {
        let hex = format!("{mixed:032x}");
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    } else {
        format!("hw_{mixed:032x}")
    }
}

/// The bodies of a log, one after another.
struct Log<T: FnMut(Body)> {
    take: T,
    messages: usize,
}

impl<T: FnMut(Body)> Log<T> {
    fn new(mut take: T) -> Self {
        take(Body::SessionCreated(SessionCreated { agent_id: "bot".into() }));
        Self { take, messages: 0 }
    }

    /// A message below another one; its number.
    fn message(&mut self, above: Option<usize>, message: Message) -> usize {
        let n = self.messages;
        self.messages += 1;
        let parent = above.map(|n| NodeId::from(id(n)));
        (self.take)(Body::MessageNew(Box::new(MessageNew::plain(id(n).into(), parent, message))));
        n
    }

    /// A turn below a node: what a person says, a reply that calls a tool, the result, another reply. The last one.
    fn turn(&mut self, above: Option<usize>, words: &str) -> usize {
        let first = self.messages;
        let turn_id = || id(1_000_000 + first).as_str().into();
        let call_id = || id(2_000_000 + first).as_str().into();
        let said = self.message(above, Message::text(Role::User, words));
        let client = Client::default();
        (self.take)(Body::TurnStarted(Box::new(TurnStarted {
            turn_id: turn_id(),
            agent_id: "bot".into(),
            digest: Digest([7; 16]),
            client,
        })));
        (self.take)(Body::CallStarted(CallStarted::of_path(turn_id(), call_id(), 1, id(first + 1).into())));
        let tool = format!("call_{first:022}");
        let calls = vec![ToolCall::new(tool.as_str().into(), "search", "{}")];
        let asks = self.message(Some(said), Message { tool_calls: calls, ..Message::text(Role::Assistant, words) });
        (self.take)(Body::CallCompleted(CallCompleted { call_id: call_id(), hidden: false, finish: Finish::ToolCalls, usage: None }));
        let result = self.message(Some(asks), Message { tool_call_id: Some(tool.as_str().into()), ..Message::text(Role::Tool, words) });
        let reply = self.message(Some(result), Message::text(Role::Assistant, words));
        (self.take)(Body::TurnCompleted(TurnCompleted { turn_id: turn_id() }));
        reply
    }

    fn head(&mut self, to: usize) {
        (self.take)(Body::HeadMoved(HeadMoved { to: Some(id(to).into()), ..HeadMoved::default() }));
    }
}

fn evolve(session: &mut Session) -> impl FnMut(Body) {
    |body| session.evolve(Record { at: 1_790_000_000_000 + session.seq, body }).unwrap()
}

/// A session of so many messages, a hundred of them on the active path. `turns`: with all that turns record, tool calls among it.
fn long(messages: usize, turns: bool) -> Session {
    let mut session = Session::default();
    let mut log = Log::new(evolve(&mut session));
    let (mut root, mut above) = (None, None);
    while log.messages < messages {
        above = Some(if turns { log.turn(above, "some words") } else { log.message(above, Message::text(Role::User, "some words")) });
        if log.messages <= 100 {
            root = above;
        } else if log.messages.is_multiple_of(20) {
            above = root;
        }
    }
    log.head(root.unwrap());
    drop(log);
    session
}

#[test]
fn an_inactive_node_takes_at_most_200_bytes() {
    let _alone = alone();
    for turns in [false, true] {
        // Before and after the hash table doubles, which is when there is most room in it.
        for messages in [20_000, 50_000, 58_000, 100_000, 114_000, 120_000] {
            let before = live();
            let mut session = long(messages, turns);
            // Contents off the path may stay up to a limit of their own.
            let others = long(100, turns);
            let fixed = (1 << 20) + 200_000;
            let each = (live() - before).saturating_sub(fixed) / (messages - 100);
            drop(others);
            assert!(each <= 200, "{each} bytes each of {messages}, turns: {turns}");
            // Opened from a snapshot it takes no more.
            let sheets = snapshot::save(&mut session, true);
            drop(session);
            let restored = snapshot::restore(sheets).unwrap();
            assert!(restored.tree.find(&id(7).into()).is_some() && restored.turns.get(&"none".into()).is_none());
            let each = (live() - before) / messages;
            assert!(each <= 200, "{each} bytes each of {messages} from a snapshot, turns: {turns}");
            eprintln!("{messages} messages, turns: {turns}: {each} bytes each");
        }
    }
}

fn key(session: &str) -> SessionKey {
    SessionKey { tenant: Tenant::default_tenant(), session: session.into() }
}

/// A model that says one word at once.
struct Brief;

impl Provider for Brief {
    fn start(&self, _request: CallRequest) -> Attempt {
        stream::iter([Ok(Chunk::Text("Yes.".to_owned())), Ok(Chunk::Finished(Finish::Stop))]).boxed_local()
    }
}

/// A runtime over `store`, entered by this thread, whose sessions leave memory after a second.
fn runtime(store: Arc<dyn Store>) -> Runtime {
    runtime_with(store, "")
}

/// The same, whose agent has this besides.
fn runtime_with(store: Arc<dyn Store>, more: &str) -> Runtime {
    let limits = "readers_max = 4\nsession_requests_max = 9\nreader_batches_max = 64\nreader_bytes_max = 4194304\ncalls_per_turn_max = 3\nqueue_turns_max = 4\n\
                  queue_messages_max = 8\nreply_bytes_max = 1000\nidle_secs = 1\ndrain_secs = 30";
    let agent = toml::from_str(&format!("llm = \"brief\"\n{more}")).unwrap();
    let options = Options {
        agents: BTreeMap::from([(AgentId::from("bot"), agent)]),
        llms: BTreeMap::from([(
            "brief".to_owned(),
            Llm { factory: Arc::new(|| Box::new(Brief)), attempts: 1, abilities: headwater::runtime::Abilities::default() },
        )]),
        workers: BTreeMap::new(),
        dialling: Hub::default(),
        limits: toml::from_str(limits).unwrap(),
    };
    let runtime = Runtime::new(options, store);
    runtime.enter();
    runtime
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(tokio::task::LocalSet::new().run_until(work))
}

/// Stores a log; how many messages it has.
async fn fill(store: &dyn Store, key: &SessionKey, make: impl FnOnce(&mut Log<&mut dyn FnMut(Body)>)) {
    let mut records = Vec::new();
    let mut take = |body: Body| records.push(Bytes::from(Record { at: 1, body }.encode()));
    make(&mut Log::new(&mut take));
    let mut at = Position::default();
    for records in records.chunks(1_000) {
        let append = Append::new(at, records.to_vec(), Header::default());
        at = append.end;
        store.append(key, append).await.unwrap();
    }
}

/// A view that names these and asks for nothing.
fn names(turn: &str, numbers: impl Iterator<Item = usize>, text: impl Fn(usize) -> Message) -> Input {
    let body = InputBody::Messages { messages: numbers.map(|n| text(n).with_id(id(n).into())).collect(), options: ViewOptions::default() };
    Input { agent_id: "bot".into(), turn_id: Some(turn.into()), run: Some(false), client: Client::default(), on_busy: OnBusy::Refuse, body }
}

/// Waits until memory is as small as `bytes`; what it was last.
async fn shrunk(bytes: usize) -> usize {
    let wait = async {
        while live() > bytes {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(20), wait).await;
    live()
}

#[test]
fn contents_follow_the_active_path() {
    const EACH: usize = 20_000;
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(Sqlite::open(&sqlite::Options { path: directory.path().to_owned() }).unwrap());
    let said = |n: usize| Message::text(if n.is_multiple_of(2) { Role::User } else { Role::Assistant }, format!("{n:<EACH$}"));
    // Forty branches of fifty messages of 20 kB each, from one root: 40 MB.
    let branch = |b: usize| std::iter::once(0).chain((1..=50).map(move |n| 50 * b + n));
    block_on(async {
        fill(&*store, &key("branches"), |log| {
            log.message(None, said(0));
            for _ in 0..40 {
                let mut above = 0;
                for _ in 0..50 {
                    above = log.message(Some(above), said(log.messages));
                }
            }
        })
        .await;
        let runtime = runtime(store.clone());
        let before = live();
        // A path is 1 MB: twice that and a spare megabyte may stay while branches change, and 2 MB are in pages and in flight.
        let most = before + 6_000_000;
        for b in (0..40).rev() {
            let input = names(&format!("turn {b}"), branch(b), said);
            assert!(!runtime.submit(&key("branches"), input).await.unwrap().accepted.reply);
            let page = runtime.session(&key("branches")).await.unwrap();
            let shown: Vec<String> = page.messages.iter().map(|message| message.joined_text()).collect();
            assert!(shown.iter().zip(branch(b)).all(|(text, n)| *text == format!("{n:<EACH$}")), "branch {b} is read again");
            drop((page, shown));
            assert!(live() < most, "{} bytes with branch {b}", live() - before);
        }
        runtime.drain().await;
    });
}

#[test]
fn a_session_that_left_memory_costs_nothing() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(Sqlite::open(&sqlite::Options { path: directory.path().to_owned() }).unwrap());
    block_on(async {
        for n in 0..20 {
            fill(&*store, &key(&format!("session {n}")), |log| {
                let mut above = None;
                for _ in 0..200 {
                    above = Some(log.turn(above, "some words of a conversation"));
                }
                log.head(above.unwrap());
            })
            .await;
        }
        let runtime = runtime(store.clone());
        let open = async |round: usize| {
            let mut pages = Vec::new();
            for n in 0..20 {
                let session = key(&format!("session {n}"));
                let message = Message::text(Role::User, "and now?").with_id(format!("said {round} {n}").as_str().into());
                let body = InputBody::Message { message };
                let input = Input { body, run: None, ..names(&format!("turn {round} {n}"), 0..0, |_| unreachable!()) };
                let Following::Running(mut reader) = runtime.submit(&session, input).await.unwrap().following else {
                    panic!("a turn runs")
                };
                while reader.next().await.is_ok() {}
                pages.push(runtime.session(&session).await.unwrap());
            }
            let open = live();
            drop(pages);
            open
        };
        // The first time tables of the process grow, which stay.
        open(0).await;
        let empty = shrunk(0).await;
        let most = open(1).await;
        assert!(most > empty + 20 * 100_000, "they were in memory: {empty}, {most}");
        // Less than one session of the twenty.
        let after = shrunk(empty + 20_000).await;
        assert!(after <= empty + 20_000, "{} bytes stay of {}", after - empty, most - empty);
        runtime.drain().await;
    });
}

#[test]
fn a_turn_in_a_long_session_does_no_more_work() {
    let _alone = alone();
    let work = |messages: usize| {
        let directory = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(Sqlite::open(&sqlite::Options { path: directory.path().to_owned() }).unwrap());
        block_on(async {
            let mut path = Vec::new();
            fill(&*store, &key("long"), |log| {
                let mut above = None;
                while log.messages < messages {
                    let said = log.message(above, Message::text(Role::User, "some words"));
                    above = Some(log.message(Some(said), Message::text(Role::Assistant, "some words")));
                    if path.len() < 100 {
                        path.extend([said, said + 1]);
                    } else if log.messages % 20 == 0 {
                        above = path.last().copied();
                    }
                }
                log.head(path[99]);
            })
            .await;
            let runtime = runtime(store.clone());
            runtime.session(&key("long")).await.unwrap();
            let mut least = (usize::MAX, usize::MAX);
            // The least of many: other threads work meanwhile.
            for n in 0..100 {
                let role = |n: usize| if n.is_multiple_of(2) { Role::User } else { Role::Assistant };
                let mut input = names(&format!("turn {n}"), path.iter().copied(), |n| Message::text(role(n), "some words"));
                if let InputBody::Messages { messages, .. } = &mut input.body {
                    messages.push(Message::text(Role::User, "and now?").with_id(format!("said {n}").as_str().into()));
                }
                let before = COUNTED.stats();
                let submitted = runtime.submit(&key("long"), Input { run: None, ..input }).await.unwrap();
                let Following::Running(mut reader) = submitted.following else { panic!("a turn runs") };
                while reader.next().await.is_ok() {}
                let after = COUNTED.stats();
                least.0 = least.0.min(after.allocations - before.allocations);
                least.1 = least.1.min(after.bytes_allocated - before.bytes_allocated);
            }
            runtime.drain().await;
            least
        })
    };
    let (short, long) = (work(100), work(100_000));
    eprintln!("allocations and bytes of a turn: {short:?} with 100 messages, {long:?} with 100,000");
    assert!(long.0 * 100 <= short.0 * 102, "allocations: {short:?}, {long:?}");
    assert!(long.1 * 100 <= short.1 * 110, "bytes: {short:?}, {long:?}");
}

/// A turn with one message, to its end; how much was allocated for it.
async fn turn(runtime: &Runtime, n: usize) -> (usize, usize) {
    let message = Message::text(Role::User, "and now, what is there to say?").with_id(format!("said {n}").as_str().into());
    let input = Input { body: InputBody::Message { message }, run: None, ..names(&format!("turn {n}"), 0..0, |_| unreachable!()) };
    let before = COUNTED.stats();
    let submitted = runtime.submit(&key("talk"), input).await.unwrap();
    let Following::Running(mut reader) = submitted.following else { panic!("a turn runs") };
    while reader.next().await.is_ok() {}
    let after = COUNTED.stats();
    (after.allocations - before.allocations, after.bytes_allocated - before.bytes_allocated)
}

#[test]
fn a_strategy_that_never_applies_allocates_nothing() {
    let _alone = alone();
    let work = |context: &str| {
        block_on(async {
            let runtime = runtime_with(Arc::new(Memory::new()), context);
            let mut least = usize::MAX;
            for n in 0..40 {
                least = least.min(turn(&runtime, n).await.0);
            }
            runtime.drain().await;
            least
        })
    };
    let strategies = "[context]\nwindow = 1000000\n[[context.strategy]]\nuse = \"reset\"\nidle_secs = 3600\n\
                      [[context.strategy]]\nuse = \"summarize\"\nover_tokens = 500000\nbackground = true\n\
                      [[context.strategy]]\nuse = \"summarize\"\n";
    // The first time tables of the process grow.
    work("");
    let (without, with) = (work(""), work(strategies));
    eprintln!("allocations of a turn: {without} without strategies, {with} with three that don't apply");
    assert!(with <= without, "{with} allocations, {without} without strategies");
}

fn median(mut numbers: Vec<usize>) -> usize {
    numbers.sort_unstable();
    numbers[numbers.len() / 2]
}

#[test]
fn a_session_whose_history_is_replaced_again_and_again_does_no_more_work() {
    const TURNS: usize = 2_000;
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(Sqlite::open(&sqlite::Options { path: directory.path().to_owned() }).unwrap());
    let strategy =
        "[context]\nwindow = 1000000\n[[context.strategy]]\nuse = \"summarize\"\nover_tokens = 100\nkeep_turns = 2\nbackground = true\n";
    block_on(async {
        let runtime = runtime_with(store.clone(), strategy);
        let (mut allocated, mut kept) = (Vec::new(), Vec::new());
        for n in 0..TURNS {
            allocated.push(turn(&runtime, n).await.1);
            kept.push(live());
        }
        let part = |numbers: &[usize], from: usize| median(numbers[from..from + TURNS / 4].to_vec());
        let (early, late) = (part(&allocated, TURNS / 8), part(&allocated, TURNS - TURNS / 4));
        let page = runtime.session(&key("talk")).await.unwrap();
        assert_eq!(page.messages.len(), 2 * TURNS);
        assert!(page.epoch > 3, "only {} epochs", page.epoch);
        let position = store.position(&key("talk")).await.unwrap();
        let growth = part(&kept, TURNS - TURNS / 4).saturating_sub(part(&kept, TURNS / 8)) / (TURNS * 5 / 8);
        eprintln!(
            "bytes allocated a turn: {early} early, {late} late; {growth} bytes a turn stay; {} records, {} epochs",
            position.seq, page.epoch
        );
        assert!(late * 100 <= early * 130, "a turn allocates {early} bytes early, {late} late");
        assert!(growth <= 1_000, "{growth} bytes stay of each turn");
        runtime.drain().await;
    });
}

/// A state of about 10 KB.
fn state(n: u64) -> StateUpdated {
    let state = serde_json::from_str(&format!("{{\"n\":{n},\"text\":\"{}\"}}", "word ".repeat(2_000))).unwrap();
    StateUpdated { state: Some(state), digest: Some(Digest(u128::from(n).to_be_bytes())), patch: None }
}

/// A session with so many messages, and whether each has a state of its own.
fn with_states(messages: usize, states: bool) -> Session {
    let mut session = Session::default();
    let mut log = Log::new(|body: Body| session.evolve(Record { at: 1, body }).unwrap());
    for n in 0..messages {
        log.message(n.checked_sub(1), Message::text(Role::User, "short"));
        if states {
            (log.take)(Body::StateUpdated(Box::new(state(n as u64))));
        }
    }
    session
}

#[test]
fn of_the_versions_of_a_state_only_the_current_one_is_in_memory() {
    const MESSAGES: usize = 10_000;
    let _alone = alone();
    let before = live();
    let plain = with_states(MESSAGES, false);
    let without = live() - before;
    let before = live();
    let full = with_states(MESSAGES, true);
    let with = live() - before;
    assert!(full.state().unwrap().is_some_and(|state| state.get().len() > 10_000), "the current one is there");
    // 36 bytes a version and its place, and one content.
    let states = with.saturating_sub(without);
    assert!(states < 1 << 20, "{MESSAGES} states of 10 KB take {states} bytes");
    drop((plain, full));
}
