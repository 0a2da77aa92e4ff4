//! A thousand readers that stopped reading, at the real program: the others get every token as soon as they did before, and what was
//! held for those is freed.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
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
const FIRST_MAX: Duration = Duration::from_millis(500);
/// More than a connection of a stalled reader takes.
const FLOOD: usize = 240 << 10;

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

/// A model that says what it is asked for.
struct Model {
    address: SocketAddr,
    /// When it said which token.
    said: Arc<Mutex<Vec<Instant>>>,
}

impl Model {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, said) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<Instant>>>::default());
        let stamps = said.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let stamps = stamps.clone();
                std::thread::spawn(move || answer(&stream, &stamps));
            }
        });
        Self { address, said }
    }
}

/// Answers one request as its last message asks.
fn answer(stream: &TcpStream, stamps: &Mutex<Vec<Instant>>) {
    stream.set_nodelay(true).unwrap();
    let asked = read_body(BufReader::new(stream));
    let asked = asked["messages"].as_array().unwrap().last().unwrap()["content"].to_string();
    let write = |text: &str| (&mut &*stream).write_all(text.as_bytes()).expect("it reads");
    let say = |text: &str| write(&format!("data: {}\n\n", json!({ "choices": [{ "index": 0, "delta": { "content": text } }] })));
    write("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n");
    if asked.contains("flood") {
        (0..FLOOD / 4096).for_each(|_| say(&"x".repeat(4096)));
    } else if asked.contains("tokens") {
        let (started, is_timed) = (clock::instant(), asked.contains("timed"));
        for n in 0..TOKENS {
            let due = started + APART * u32::try_from(n).unwrap();
            std::thread::sleep(due.saturating_duration_since(clock::instant()));
            if is_timed {
                stamps.lock().unwrap().push(clock::instant());
            }
            say(&token(n));
        }
    } else {
        say("a word");
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

/// Begins a turn.
fn begin(gateway: &Gateway, session: &str, words: &str) {
    let input = json!({ "type": "client.message", "agent_id": "bot", "message": { "role": "user", "content": words } });
    let (status, accepted) = gateway.post(&format!("/v1/sessions/{session}/inputs"), &input);
    assert_eq!(status, 202, "{accepted}");
}

/// A stream of a session's events, from now on.
fn stream(mut stream: TcpStream, session: &str) -> TcpStream {
    write!(stream, "GET /v1/sessions/{session}/events HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("it reads");
    let head = head(&mut stream);
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("chunked"), "{head}");
    stream
}

/// The same on a socket.
fn socket(stream: TcpStream, session: &str) -> TcpStream {
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

/// How long after it was said each healthy reader got each token of one turn, sorted.
fn lags(gateway: &Gateway, model: &Model, near: &str, far: &str) -> Vec<Duration> {
    model.said.lock().unwrap().clear();
    let connect = || {
        let stream = TcpStream::connect(gateway.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    };
    let mut lags: Vec<Duration> = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..HEALTHY)
            .map(|n| {
                if n % 2 == 0 {
                    let mut stream = BufReader::new(stream(connect(), near));
                    scope.spawn(move || arrivals(|| chunk(&mut stream)))
                } else {
                    let mut stream = BufReader::new(socket(connect(), near));
                    scope.spawn(move || arrivals(|| next(&mut stream).expect("a frame").1))
                }
            })
            .collect();
        // Nobody asks how far they are: that would be in the way.
        begin(gateway, far, "tokens");
        begin(gateway, near, "timed tokens");
        let arrived: Vec<_> = readers.into_iter().map(|reader| reader.join().expect("it gets everything")).collect();
        let said = model.said.lock().unwrap();
        let lags = arrived.iter().map(|times| times.iter().zip(&*said).map(|(got, said)| got.duration_since(*said)).collect::<Vec<_>>());
        let lags: Vec<_> = lags.collect();
        let first = lags.iter().flat_map(|lags| &lags[..FIRST]).max().unwrap();
        println!("{near}: the first {FIRST} tokens lag {first:?} at most");
        assert!(*first < FIRST_MAX, "{near}: the first tokens lag {first:?}");
        lags.iter().flat_map(|lags| &lags[FIRST..]).copied().collect()
    });
    for session in [near, far] {
        gateway.until_idle(session).expect("it is there");
    }
    assert_eq!(lags.len(), HEALTHY * (TOKENS - FIRST));
    lags.sort_unstable();
    lags
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

/// Readers of both sessions, streams and sockets, that were told more than they take and read nothing.
fn stall(gateway: &Gateway, sessions: [&str; 2]) -> Vec<TcpStream> {
    let stalled: Vec<TcpStream> = (0..STALLED)
        .map(|n| {
            let (connection, session) = (thin(gateway.address()), sessions[n / 2 % 2]);
            if n % 2 == 0 { stream(connection, session) } else { socket(connection, session) }
        })
        .collect();
    for session in sessions {
        turn(gateway, session, "flood");
    }
    until_full(gateway);
    stalled
}

/// Waits until nothing more goes to those that don't read.
fn until_full(gateway: &Gateway) {
    let deadline = clock::instant() + Duration::from_secs(20);
    let (mut before, mut same) = ((0, 0), 0);
    while same < 5 {
        assert!(clock::instant() < deadline, "{before:?} of {STALLED} are full");
        std::thread::sleep(Duration::from_millis(50));
        let now = held(gateway);
        same = if now == before && now.0 >= STALLED { same + 1 } else { 0 };
        before = now;
    }
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// `HEADWATER_STALLED_ROUNDS`: for figures of an optimized build; they are printed.
#[test]
fn a_thousand_stalled_readers_delay_nobody() {
    let rounds = std::env::var("HEADWATER_STALLED_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3);
    let (_home, model, gateway) = start(60);
    let sessions = |round: usize, how: &str| {
        let names = [format!("near-{how}-{round}"), format!("far-{how}-{round}")];
        for session in &names {
            turn(&gateway, session, "hello");
        }
        names
    };
    let [near, far] = sessions(0, "warm");
    lags(&gateway, &model, &near, &far);
    let open = descriptors(&gateway);
    let (mut alone, mut beside) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for round in 0..rounds {
        let [near, far] = sessions(round, "alone");
        for session in [&near, &far] {
            turn(&gateway, session, "flood");
        }
        let lags_alone = lags(&gateway, &model, &near, &far);
        let [near, far] = sessions(round, "stalled");
        let before = memory(&gateway, "VmRSS");
        let stalled = stall(&gateway, [&near, &far]);
        let full = memory(&gateway, "VmRSS");
        let lags_beside = lags(&gateway, &model, &near, &far);
        let after = memory(&gateway, "VmRSS");
        assert!(held(&gateway).0 >= STALLED, "they are there all the time");
        drop(stalled);
        until_descriptors(&gateway, open + HEALTHY, Duration::from_secs(20));
        println!(
            "round {round}: alone p50 {:?} p99 {:?} max {:?}; beside {STALLED} stalled p50 {:?} p99 {:?} max {:?}; {before} KiB, {full} KiB with them, {after} KiB after it",
            percentile(&lags_alone, 50),
            percentile(&lags_alone, 99),
            percentile(&lags_alone, 100),
            percentile(&lags_beside, 50),
            percentile(&lags_beside, 99),
            percentile(&lags_beside, 100),
        );
        for (index, percent) in [50, 99].into_iter().enumerate() {
            alone[index].push(percentile(&lags_alone, percent));
            beside[index].push(percentile(&lags_beside, percent));
        }
    }
    let ([p50_alone, p99_alone], [p50_beside, p99_beside]) = (alone.map(median), beside.map(median));
    println!("medians: alone p50 {p50_alone:?} p99 {p99_alone:?}; beside {STALLED} stalled p50 {p50_beside:?} p99 {p99_beside:?}");
    assert!(p99_beside < p99_alone * 2 + Duration::from_millis(5), "alone {p99_alone:?}, beside stalled readers {p99_beside:?}");
}

#[test]
fn a_thousand_streams_that_stall_are_cut_and_freed() {
    let (_home, _model, gateway) = start(1);
    turn(&gateway, "s1", "hello");
    turn(&gateway, "s1", "flood");
    let (open, before) = (descriptors(&gateway), peak(&gateway));
    let mut peaks = [0; 6];
    for most in &mut peaks {
        let stalled: Vec<TcpStream> = (0..STALLED).map(|_| stream(thin(gateway.address()), "s1")).collect();
        assert!(descriptors(&gateway) >= open + STALLED);
        turn(&gateway, "s1", "flood");
        until_descriptors(&gateway, open, Duration::from_secs(20));
        drop(stalled);
        *most = peak(&gateway);
    }
    println!("{before} KiB before, at most {peaks:?} KiB with {STALLED} stalled streams, each thousand after the one before was cut");
    // Each may hold 4 MiB and was told far less; what they are told is shared.
    assert!(peaks[0] - before < STALLED * 256, "it grew by {} KiB", peaks[0] - before);
    // The allocator keeps what it had; the next thousand need no more.
    assert!(peaks[5] < peaks[2] + (32 << 10), "something is left of those that were cut: {peaks:?} KiB");
}
