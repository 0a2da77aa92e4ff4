//! Several worker threads, many clients, sessions that come and go: nothing hangs, and every log that is left makes a session.

use std::thread::JoinHandle;

use futures_util::future::join_all;
use tokio::sync::watch;

use super::*;
use crate::engine::{self, Record, Session};
use crate::store::Store as _;

const WORKERS: usize = 3;
const CLIENTS: u8 = 8;
const ACTS: u32 = 150;
const SESSIONS: u32 = 4;

/// A model that answers at once, now and then badly.
struct Quick;

impl Provider for Quick {
    fn start(&self, request: CallRequest) -> Attempt {
        if request.messages.len().is_multiple_of(7) {
            let cut = || Err(CallError::new(CallErrorKind::Refused, "no"));
            return stream::iter([says("Half"), cut()]).boxed_local();
        }
        stream::iter([says("Hi "), says("there."), Ok(Chunk::Finished(Finish::Stop))]).boxed_local()
    }
}

fn quick(store: Arc<Memory>) -> Runtime {
    let agent: AgentOptions = toml::from_str("llm = \"quick\"").unwrap();
    let limits = LIMITS.replace("readers_max = 4", "readers_max = 100").replace("idle_secs = 60", "idle_secs = 1");
    let options = Options {
        agents: BTreeMap::from([(AgentId::from("bot"), agent)]),
        llms: BTreeMap::from([(
            "quick".to_owned(),
            Llm { factory: Arc::new(|| Box::new(Quick)), attempts: 1, abilities: Abilities::default() },
        )]),
        workers: BTreeMap::new(),
        dialling: Hub::default(),
        limits: toml::from_str(&limits.replace("session_requests_max = 3", "session_requests_max = 64")).unwrap(),
    };
    Runtime::new(options, store)
}

/// A worker thread, until `stop` says so.
fn worker(runtime: Runtime, mut stop: watch::Receiver<bool>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let thread = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        thread.block_on(tokio::task::LocalSet::new().run_until(async move {
            runtime.enter();
            drop(stop.wait_for(|stop| *stop).await);
        }));
    })
}

async fn client(runtime: Runtime, seed: u8) {
    for n in 0..ACTS {
        let name = format!("{seed}.{n}");
        let chance = blake3::hash(name.as_bytes());
        let chance = u32::from(chance.as_bytes()[0]) | u32::from(chance.as_bytes()[1]) << 8;
        // Those that were erased are followed by others.
        let session = format!("s{}.{}", n / 25, chance % SESSIONS);
        let act = act(&runtime, SessionKey { session: session.into(), ..key() }, chance / SESSIONS, name);
        tokio::time::timeout(Duration::from_mins(1), act).await.expect("nobody waits for ever");
    }
}

async fn act(runtime: &Runtime, key: SessionKey, pick: u32, name: String) {
    match pick % 12 {
        0..5 => {
            let on_busy = [OnBusy::Queue, OnBusy::Merge, OnBusy::Steer, OnBusy::Cancel, OnBusy::Refuse][pick as usize / 12 % 5];
            let message = Message::text(Role::User, "more").with_id(format!("u{name}").as_str().into());
            let body = InputBody::Append { messages: vec![message] };
            if let Ok(Submitted { following: Following::Running(mut reader), .. }) =
                runtime.submit(&key, Input { on_busy, body, ..input(&name, &[]) }).await
            {
                while reader.next().await.is_ok() {}
            }
        }
        5 => drop(runtime.cancel(&key, None).await),
        6 => drop(runtime.move_head(&key, HeadMove { to: HeadTo::Node(None), label: None }).await),
        7 => drop(runtime.fork(&key, ForkInput { session_id: Some(format!("fork {name}").into()), at: None }).await),
        8 => {
            if let Ok(mut stream) = runtime.events(&key, Some(Cursor::after(0))).await {
                let _ = tokio::time::timeout(Duration::from_millis(20), async { while stream.next().await.is_ok() {} }).await;
            }
        }
        9 => drop(runtime.update(&key, SessionUpdate { title: Some(Some(name)), archived: None }).await),
        10 if (pick / 12).is_multiple_of(4) => drop(runtime.erase(&key).await),
        _ => drop(runtime.session(&key).await),
    }
}

#[test]
fn nothing_hangs_and_every_log_makes_a_session() {
    let store = Arc::new(Memory::new());
    let runtime = quick(store.clone());
    let stop = watch::Sender::new(false);
    let workers: Vec<_> = (0..WORKERS).map(|_| worker(runtime.clone(), stop.subscribe())).collect();
    let clients = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    clients.block_on(async {
        let _ = runtime.0.entered.subscribe().wait_for(|&entered| entered == WORKERS).await;
        let clients: Vec<_> = (0..CLIENTS).map(|seed| tokio::spawn(client(runtime.clone(), seed))).collect();
        for ended in join_all(clients).await {
            ended.unwrap();
        }
        runtime.drain().await;
        assert_eq!((*runtime.0.living.borrow(), *runtime.0.running.borrow()), (0, 0));
        let listed = store.sessions(&key().tenant, None, usize::MAX, None).await.unwrap();
        let mut records = 0;
        for listed in listed {
            let key = SessionKey { session: listed.session, ..key() };
            let mut session = Session::default();
            for bytes in store.read(&key, 1, usize::MAX).await.unwrap() {
                session.evolve(Record::decode(&bytes).unwrap()).unwrap();
            }
            records += session.seq;
            engine::check(&session).unwrap();
            assert!(session.turn.is_none() && session.queue.is_empty(), "{key}");
        }
        assert!(records > 1_000, "{records} are left");
    });
    stop.send_replace(true);
    for worker in workers {
        worker.join().unwrap();
    }
}
