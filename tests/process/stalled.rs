//! A thousand readers that stopped reading, at the real program: the others get every token as soon as they did before, and what was
//! held for those is freed.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use headwater::clock;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::gateway::Gateway;
use super::sockets::{TEXT, descriptors, frame, head, memory, next, peak, thin, until_descriptors, upgrade_at};

/// Readers that read, half of them streams and half of them sockets.
const HEALTHY: usize = 20;
const STALLED: usize = 1000;
/// Tokens of a round, and how far they are apart.
const TOKENS: usize = 300;
const APART: Duration = Duration::from_millis(5);
/// The tokens before a turn is under way; their lag is held to a bound of its own.
const FIRST: usize = 30;
const FIRST_MAX: Duration = Duration::from_millis(100);
/// More than a connection of a stalled reader takes.
const FLOOD: usize = 640 << 10;

const CONFIG: &str = r#"
[server]
readers_max = 2000
write_secs = WRITE_SECS
[llm.own]
kind = "openai"
model = "m"
base_url = "http://MODEL/v1"
[agent.bot]
llm = "own"
"#;

/// How far the model may go in what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// A word.
    Word,
    /// More than a reader takes that doesn't read.
    Flood,
    /// Tokens, one after another.
    Tokens,
}

/// A model that says a word, more than a connection takes, and tokens, each when it is told to; or only what it is asked for.
struct Model {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    stage: Mutex<(Stage, usize)>,
    changed: Condvar,
    /// When it said which token.
    said: Mutex<Vec<Instant>>,
}

impl Model {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let shared = Arc::new(Shared { stage: Mutex::new((Stage::Word, 0)), changed: Condvar::new(), said: Mutex::default() });
        let (address, answering) = (listener.local_addr().unwrap(), shared.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = answering.clone();
                std::thread::spawn(move || answer(&stream, &shared));
            }
        });
        Self { address, shared }
    }

    /// Two answers begin.
    fn prepare(&self) {
        *self.shared.stage.lock().unwrap() = (Stage::Word, 0);
        self.shared.said.lock().unwrap().clear();
    }

    fn go_on(&self, stage: Stage) {
        self.shared.stage.lock().unwrap().0 = stage;
        self.shared.changed.notify_all();
    }

    /// Waits until so many stages of answers were said.
    fn until_said(&self, stages: usize) {
        let patience = Duration::from_secs(20);
        let stage = self.shared.stage.lock().unwrap();
        let (_stage, timeout) = self.shared.changed.wait_timeout_while(stage, patience, |stage| stage.1 < stages).unwrap();
        assert!(!timeout.timed_out(), "the model says it");
    }

    fn said(&self) -> Vec<Instant> {
        self.shared.said.lock().unwrap().clone()
    }
}

impl Shared {
    /// One stage was said; waits for the next.
    fn until(&self, stage: Stage) {
        let mut now = self.stage.lock().unwrap();
        now.1 += 1;
        self.changed.notify_all();
        drop(self.changed.wait_while(now, |now| now.0 < stage).unwrap());
    }
}

/// Answers one request as its last message asks.
fn answer(stream: &TcpStream, shared: &Shared) {
    stream.set_nodelay(true).unwrap();
    let asked = read_body(BufReader::new(stream));
    let asked = asked["messages"].as_array().unwrap().last().unwrap()["content"].to_string();
    let write = |text: &str| (&mut &*stream).write_all(text.as_bytes()).expect("it reads");
    let say = |text: &str| write(&format!("data: {}\n\n", json!({ "choices": [{ "index": 0, "delta": { "content": text } }] })));
    let flood = || (0..FLOOD / 4096).for_each(|_| say(&"x".repeat(4096)));
    write("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n");
    say("a word");
    if asked.contains("flood") {
        flood();
    } else if !asked.contains("word") {
        shared.until(Stage::Flood);
        flood();
        shared.until(Stage::Tokens);
        let (started, is_timed) = (clock::instant(), asked.contains("timed"));
        for n in 0..TOKENS {
            let due = started + APART * u32::try_from(n).unwrap();
            std::thread::sleep(due.saturating_duration_since(clock::instant()));
            if is_timed {
                shared.said.lock().unwrap().push(clock::instant());
            }
            say(&token(n));
        }
    }
    write("data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n");
}

fn token(n: usize) -> String {
    format!("#{n:04};")
}

fn read_body(mut stream: impl BufRead) -> Value {
    let mut length = 0;
    loop {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).expect("a head") > 0, "it ends early");
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).expect("a body");
    serde_json::from_slice(&body).expect("JSON")
}

fn start(write_secs: u32) -> (TempDir, Model, Gateway) {
    let (home, model) = (tempfile::tempdir().unwrap(), Model::start());
    let config = CONFIG.replace("MODEL", &model.address.to_string()).replace("WRITE_SECS", &write_secs.to_string());
    std::fs::write(home.path().join("headwater.toml"), config).unwrap();
    // The child inherits it.
    let most = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: most.maximum, ..most }).expect("as many descriptors as are allowed");
    let gateway = Gateway::start(home.path());
    (home, model, gateway)
}

/// One turn of a session, to its end.
fn turn(gateway: &Gateway, session: &str, words: &str) {
    begin(gateway, session, words);
    gateway.until_idle(session).expect("it is there");
}

/// Begins a turn; its id.
fn begin(gateway: &Gateway, session: &str, words: &str) -> String {
    let input = json!({ "type": "client.message", "agent_id": "bot", "message": { "role": "user", "content": words } });
    let (status, accepted) = gateway.post(&format!("/v1/sessions/{session}/inputs"), &input);
    assert_eq!(status, 202, "{accepted}");
    accepted["turn_id"].as_str().unwrap().to_owned()
}

/// A stream of a session's events, from now on.
fn events(mut stream: TcpStream, session: &str) -> TcpStream {
    write!(stream, "GET /v1/sessions/{session}/events HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("it reads");
    let head = head(&mut stream);
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("chunked"), "{head}");
    stream
}

/// A session's run, as a stream.
fn joined(mut stream: TcpStream, session: &str) -> TcpStream {
    let body = json!({ "threadId": session }).to_string();
    let head_of = "POST /agents/bot/connect HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    write!(stream, "{head_of}content-length: {}\r\n\r\n{body}", body.len()).expect("it reads");
    let head = head(&mut stream);
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("chunked"), "{head}");
    stream
}

/// A stream of a session's events on a socket.
fn subscribed(stream: TcpStream, session: &str) -> TcpStream {
    let mut stream = upgrade_at(stream, "/v1/ws");
    let subscribe = json!({ "type": "subscribe", "session_id": session }).to_string();
    stream.write_all(&frame(TEXT, subscribe.as_bytes())).unwrap();
    let (_, ack) = next(&mut stream).expect("an ack");
    assert!(String::from_utf8_lossy(&ack).contains("\"ack\""), "{}", String::from_utf8_lossy(&ack));
    stream
}

/// A chunk of an HTTP body. It may end within a line.
fn chunk(stream: &mut impl BufRead) -> Vec<u8> {
    let mut line = String::new();
    stream.read_line(&mut line).expect("a chunk");
    let mut bytes = vec![0; usize::from_str_radix(line.trim_end(), 16).expect("its length") + 2];
    stream.read_exact(&mut bytes).expect("all of it");
    bytes.truncate(bytes.len() - 2);
    bytes
}

/// When a reader got which token: every one, in order.
fn arrivals(mut more: impl FnMut() -> Vec<u8>) -> Vec<Instant> {
    let (mut arrived, mut seen) = (Vec::with_capacity(TOKENS), Vec::new());
    while arrived.len() < TOKENS {
        seen.extend(more());
        let now = clock::instant();
        let mut read = 0;
        while let Some(at) = seen[read..].iter().position(|byte| *byte == b'#')
            && let Some(found) = seen.get(read + at..read + at + 6)
        {
            assert_eq!(String::from_utf8_lossy(found), token(arrived.len()), "every token comes, in order");
            arrived.push(now);
            read += at + 6;
        }
        // A token that isn't complete stays.
        let rest = seen[read..].iter().position(|byte| *byte == b'#').map_or(seen.len(), |at| read + at);
        seen.drain(..rest);
    }
    arrived
}

/// A reader of a session, in one of four ways: its events as a stream and on a socket, its run as a stream and on a socket.
fn reader(n: usize, stream: TcpStream, session: &str, turn: &str) -> TcpStream {
    match n % 4 {
        0 => events(stream, session),
        1 => subscribed(stream, session),
        2 => joined(stream, session),
        _ => upgrade_at(stream, &format!("/agents/bot?threadId={session}&runId={turn}&offset=-1")),
    }
}

/// One round: two sessions, the turns of both told at the same time.
struct Round {
    /// How long after it was said each healthy reader of the first session got each token, from the first one on.
    lags: Vec<Vec<Duration>>,
    /// Memory before the readers came, and with all that they don't take, in KiB.
    memory: [usize; 2],
}

impl Round {
    /// With so many readers that don't read.
    fn play(gateway: &Gateway, model: &Model, stalled: usize, name: &str) -> Self {
        let sessions = ["near", "far"].map(|place| format!("{place}-{name}"));
        model.prepare();
        let turns = sessions.each_ref().map(|session| begin(gateway, session, if session.starts_with("near") { "timed" } else { "far" }));
        model.until_said(2);
        let before = memory(gateway, "VmRSS");
        let open = descriptors(gateway);
        let stalled: Vec<TcpStream> =
            (0..stalled).map(|n| reader(n, thin(gateway.address()), &sessions[n / 4 % 2], &turns[n / 4 % 2])).collect();
        let connect = |n| {
            let stream = TcpStream::connect(gateway.address()).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            BufReader::new(reader(n, stream, &sessions[0], &turns[0]))
        };
        let (arrived, full) = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..HEALTHY)
                .map(|n| {
                    let mut stream = connect(n);
                    scope.spawn(move || {
                        if n % 2 == 0 { arrivals(|| chunk(&mut stream)) } else { arrivals(|| next(&mut stream).expect("a frame").1) }
                    })
                })
                .collect();
            model.go_on(Stage::Flood);
            model.until_said(4);
            until_still(gateway, stalled.len());
            let full = memory(gateway, "VmRSS");
            // Nobody asks how far they are: that would be in the way.
            model.go_on(Stage::Tokens);
            (readers.into_iter().map(|reader| reader.join().expect("it gets everything")).collect::<Vec<_>>(), full)
        });
        assert!(held(gateway).0 >= stalled.len(), "they are there all the time");
        drop(stalled);
        for session in &sessions {
            gateway.until_idle(session).expect("it is there");
        }
        until_descriptors(gateway, open, Duration::from_secs(20));
        let said = model.said();
        let lags = arrived.iter().map(|times| times.iter().zip(&said).map(|(got, said)| got.duration_since(*said)).collect());
        Self { lags: lags.collect(), memory: [before, full] }
    }

    /// The longest of the first tokens.
    fn first(&self) -> Duration {
        *self.lags.iter().flat_map(|lags| &lags[..FIRST]).max().unwrap()
    }

    /// All others.
    fn rest(&self) -> impl Iterator<Item = Duration> + '_ {
        self.lags.iter().flat_map(|lags| &lags[FIRST..]).copied()
    }
}

/// How many connections of the gateway hold bytes that their peers don't take, and how many bytes.
fn held(gateway: &Gateway) -> (usize, usize) {
    let port = gateway.address().parse::<SocketAddr>().unwrap().port();
    let table = std::fs::read_to_string(format!("/proc/{}/net/tcp", gateway.pid())).unwrap();
    let own = format!(":{port:04X}");
    let queues = table.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (local, queues) = (fields.next()?, fields.nth(2)?);
        let waiting = usize::from_str_radix(queues.split(':').next()?, 16).ok()?;
        (local.ends_with(&own) && waiting > 0).then_some(waiting)
    });
    queues.fold((0, 0), |(count, bytes), queue| (count + 1, bytes + queue))
}

/// Waits until nothing more goes to anybody, and so many don't take what there is.
fn until_still(gateway: &Gateway, stalled: usize) {
    let deadline = clock::instant() + Duration::from_secs(20);
    let (mut before, mut same) = ((0, 0), 0);
    while same < 5 {
        assert!(clock::instant() < deadline, "{before:?} of {stalled} are full");
        std::thread::sleep(Duration::from_millis(50));
        let now = held(gateway);
        same = if now == before && now.0 == stalled { same + 1 } else { 0 };
        before = now;
    }
}

/// Lags of several rounds.
#[derive(Default)]
struct Lags(Vec<Duration>);

impl Lags {
    fn at(&self, per_thousand: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        sorted[(sorted.len() * per_thousand / 1000).min(sorted.len() - 1)]
    }

    fn over(&self, other: &Self, per_thousand: usize) -> f64 {
        self.at(per_thousand).as_secs_f64() / other.at(per_thousand).as_secs_f64()
    }
}

/// `HEADWATER_STALLED_ROUNDS`: for figures of an optimized build; they are printed. Each round is played alone, beside stalled readers, and
/// alone again: what the two alone differ by is the machine's doing.
#[test]
fn a_thousand_stalled_readers_delay_nobody() {
    let rounds = std::env::var("HEADWATER_STALLED_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3);
    let (_home, model, gateway) = start(60);
    Round::play(&gateway, &model, 0, "warm");
    let [mut alone, mut beside, mut again]: [Lags; 3] = Default::default();
    let (mut first, mut grown) = (Duration::ZERO, Vec::new());
    for n in 0..rounds {
        for (how, stalled, lags) in [("alone", 0, &mut alone), ("beside", STALLED, &mut beside), ("again", 0, &mut again)] {
            let round = Round::play(&gateway, &model, stalled, &format!("{how}-{n}"));
            let these = Lags(round.rest().collect());
            let [p50, p99, most] = [500, 990, 1000].map(|place| these.at(place));
            let [before, full] = round.memory;
            println!("{n} {how}: p50 {p50:?} p99 {p99:?} max {most:?}, first {:?}; {before} KiB, then {full} KiB", round.first());
            lags.0.extend(these.0);
            if stalled > 0 {
                first = first.max(round.first());
                grown.push(full.saturating_sub(before));
            }
        }
    }
    for (place, name) in [(500, "p50"), (900, "p90"), (990, "p99"), (999, "p99.9")] {
        println!(
            "{name}: alone {:?}, again {:?} ({:.3}), beside {STALLED} stalled {:?} ({:.3} and {:.3} of alone)",
            alone.at(place),
            again.at(place),
            again.over(&alone, place),
            beside.at(place),
            beside.over(&alone, place),
            beside.over(&again, place),
        );
    }
    println!("{STALLED} stalled took {grown:?} KiB; the first tokens lagged {first:?} at most");
    assert!(first < FIRST_MAX, "the first tokens lag {first:?}");
    // On a busy machine the two alone differ by so much, too; and of a build that isn't optimized one token in a hundred waits until a
    // thousand connections have been looked after.
    let rarely = Duration::from_millis(if cfg!(debug_assertions) { 20 } else { 3 });
    for (place, slack) in [(500, Duration::from_micros(500)), (900, Duration::from_millis(3)), (990, rarely)] {
        let (lag, without) = (beside.at(place), alone.at(place).max(again.at(place)));
        assert!(lag < without * 5 / 4 + slack, "alone {without:?}, beside stalled readers {lag:?}");
    }
    // What their connections don't take, and nothing else.
    assert!(grown.iter().all(|grown| *grown < STALLED * 112), "they took {grown:?} KiB");
}

#[test]
fn a_thousand_streams_that_stall_are_cut_and_freed() {
    let (_home, _model, gateway) = start(1);
    turn(&gateway, "s1", "a word");
    turn(&gateway, "s1", "flood");
    let (open, before) = (descriptors(&gateway), peak(&gateway));
    let mut peaks = [0; 7];
    for most in &mut peaks {
        let stalled: Vec<TcpStream> = (0..STALLED).map(|_| events(thin(gateway.address()), "s1")).collect();
        assert!(descriptors(&gateway) >= open + STALLED);
        turn(&gateway, "s1", "flood");
        // The store may have opened another connection to read the log.
        until_descriptors(&gateway, open + 8, Duration::from_secs(20));
        drop(stalled);
        *most = peak(&gateway);
    }
    println!("{before} KiB before, at most {peaks:?} KiB with {STALLED} stalled streams, each thousand after the one before was cut");
    // What their connections don't take; what they are told is shared.
    assert!(peaks.iter().all(|most| most - before < STALLED * 192), "from {before} KiB it grew to {peaks:?} KiB");
    // The allocator keeps what it had; the next thousand need no more. While the machine is busy elsewhere a thousand wait longer to be
    // cut, and hold more meanwhile; what is left of those that were cut is there in each round that follows.
    assert!(peaks[5].min(peaks[6]) < peaks[2] + (32 << 10), "something is left of those that were cut: {peaks:?} KiB");
}
