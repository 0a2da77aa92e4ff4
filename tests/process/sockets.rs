//! Sockets and streams that misbehave, at the real program: its memory stays flat, its descriptors come back, nobody else notices.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use headwater::clock;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use socket2::{Domain, Socket, Type};
use tempfile::TempDir;

use super::gateway::Gateway;

pub(super) const TEXT: u8 = 0x81;
const TEXT_BEGINS: u8 = 0x01;
const CONTINUES: u8 = 0x00;
const CLOSE: u8 = 0x88;
const PING: u8 = 0x89;

const SERVER: &str = r#"
[server]
ping_secs = 1
write_secs = 1
reader_bytes_max = 2097152
reply_bytes_max = 16777216
drain_secs = 10
socket_frames_per_sec = 1000000
socket_frames_burst = 1000000
[llm.paced]
kind = "script"
file = "rules.toml"
[agent.bot]
llm = "paced"
"#;

/// 10 MB in six seconds, about a second of small words, and one word.
const RULES: &str = r#"
[[rule]]
when = { starts_with = "flood" }
text = "WORD "
repeat = 5000
pace = { tokens_per_sec = 800 }
[[rule]]
when = { starts_with = "talk" }
text = "word "
repeat = 100
pace = { tokens_per_sec = 100 }
[[rule]]
text = "word"
"#;

fn gateway() -> (TempDir, Gateway) {
    gateway_with(SERVER)
}

fn gateway_with(config: &str) -> (TempDir, Gateway) {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("headwater.toml"), config).unwrap();
    std::fs::write(home.path().join("rules.toml"), RULES.replace("WORD", &"x".repeat(2000))).unwrap();
    // The child inherits it.
    let most = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: most.maximum, ..most }).expect("as many descriptors as are allowed");
    let gateway = Gateway::start(home.path());
    // What it opens once is open now.
    assert!(gateway.run("warm").read(usize::MAX).contains("RUN_FINISHED"));
    gateway.until_idle("warm").expect("it is there");
    (home, gateway)
}

/// A connection that keeps little of what it doesn't read.
fn small(address: &str) -> TcpStream {
    connect(address, None)
}

/// A connection of which the other side keeps little, too, as over a real network.
pub(super) fn thin(address: &str) -> TcpStream {
    connect(address, Some(536))
}

fn connect(address: &str, segment: Option<u32>) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    if let Some(bytes) = segment {
        socket.set_tcp_mss(bytes).unwrap();
    }
    socket.connect(&address.parse::<SocketAddr>().unwrap().into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// Opens a socket on `stream`.
fn upgrade(stream: TcpStream) -> TcpStream {
    upgrade_at(stream, "/agents/bot")
}

/// Opens a socket at a path.
pub(super) fn upgrade_at(mut stream: TcpStream, path: &str) -> TcpStream {
    let request = "HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
                   sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(format!("GET {path} {request}").as_bytes()).expect("it reads");
    let head = head(&mut stream);
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    stream
}

/// The head of an answer, and not a byte more.
pub(super) fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        assert_eq!(stream.read(&mut byte).expect("it answers"), 1, "{}", String::from_utf8_lossy(&head));
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).into_owned()
}

fn socket(gateway: &Gateway) -> TcpStream {
    upgrade(small(gateway.address()))
}

pub(super) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match payload.len() {
        length @ 0..126 => bytes.push(0x80 | u8::try_from(length).unwrap()),
        length @ 126..65536 => {
            bytes.push(0xfe);
            bytes.extend(u16::try_from(length).unwrap().to_be_bytes());
        }
        length => {
            bytes.push(0xff);
            bytes.extend((length as u64).to_be_bytes());
        }
    }
    bytes.extend([0; 4]);
    bytes.extend(payload);
    bytes
}

/// The server's frames on a socket: kind and payload.
pub(super) fn next(stream: &mut impl Read) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 2];
    stream.read_exact(&mut head).ok()?;
    let length = match head[1] {
        126 => {
            let mut length = [0; 2];
            stream.read_exact(&mut length).ok()?;
            usize::from(u16::from_be_bytes(length))
        }
        127 => {
            let mut length = [0; 8];
            stream.read_exact(&mut length).ok()?;
            usize::try_from(u64::from_be_bytes(length)).ok()?
        }
        length => usize::from(length),
    };
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).ok()?;
    Some((head[0], payload))
}

/// What a run is asked with.
fn run(session: &str, words: &str) -> String {
    json!({ "threadId": session, "runId": format!("{session}-r1"), "messages": [{ "id": "u1", "role": "user", "content": words }] })
        .to_string()
}

/// Asks for a stream and never reads it, or leaves that to the caller.
fn post(mut stream: TcpStream, path: &str, body: &str) -> TcpStream {
    write!(stream, "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}", body.len()).expect("it reads");
    stream
}

/// A number of `/proc/<pid>/status`, in KiB.
pub(super) fn memory(gateway: &Gateway, field: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).expect(field);
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The most memory that it took since this was last asked, in KiB.
pub(super) fn peak(gateway: &Gateway) -> usize {
    let peak = memory(gateway, "VmHWM");
    std::fs::write(format!("/proc/{}/clear_refs", gateway.pid()), "5").expect("the peak can be forgotten");
    peak
}

pub(super) fn descriptors(gateway: &Gateway) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", gateway.pid())).unwrap().count()
}

/// Waits until it has at most so many descriptors.
pub(super) fn until_descriptors(gateway: &Gateway, most: usize, within: Duration) {
    let deadline = clock::instant() + within;
    while descriptors(gateway) > most {
        assert!(clock::instant() < deadline, "{} descriptors, not {most}", descriptors(gateway));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Writes as much as is taken.
fn pour(mut stream: TcpStream, bytes: &[u8], times: usize) {
    for _ in 0..times {
        if stream.write_all(bytes).is_err() {
            break;
        }
    }
}

#[test]
fn hostile_frames_leave_memory_flat() {
    let (_home, gateway) = gateway();
    let (before, open) = (peak(&gateway), descriptors(&gateway));
    let megabyte = vec![b' '; 1 << 20];
    let announced = [vec![TEXT, 0xff], (256u64 << 20).to_be_bytes().to_vec(), vec![0; 4]].concat();
    let b26_empty_continuations = frame(CONTINUES, b"").repeat(100_000);
    let pieces = frame(CONTINUES, &[b' '; 4096]).repeat(256);
    let pings = frame(PING, &[b'x'; 125]).repeat(5_000);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            for (first, more, times) in [
                (announced.clone(), &megabyte, 32),
                (frame(TEXT_BEGINS, b"x"), &b26_empty_continuations, 20),
                (frame(TEXT_BEGINS, b"x"), &pieces, 32),
                (Vec::new(), &pings, 20),
            ] {
                let mut stream = socket(&gateway);
                scope.spawn(move || {
                    stream.write_all(&first).unwrap();
                    pour(stream, more, times);
                });
            }
        }
    });
    until_descriptors(&gateway, open, Duration::from_secs(20));
    let grown = peak(&gateway).saturating_sub(before);
    println!("{grown} KiB at most for 32 hostile sockets");
    // Eight messages of at most 4 MiB were being put together at a time; 256 MB were announced eight times.
    assert!(grown < 48 << 10, "it grew by {grown} KiB");
    gateway.run("after").read(usize::MAX);
}

#[test]
fn b29_readers_that_stop_reading_are_freed_and_delay_nobody() {
    let (_home, gateway) = gateway();
    let healthy = |session: &str| {
        let started = clock::instant();
        let mut stream = post(TcpStream::connect(gateway.address()).unwrap(), "/agents/bot", &run(session, "flood"));
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let (mut seen, mut buffer, mut tail) = (0, vec![0; 1 << 16], Vec::new());
        while !String::from_utf8_lossy(&tail).contains("RUN_FINISHED") {
            assert!(!String::from_utf8_lossy(&tail).contains("RUN_ERROR"), "it failed: {}", String::from_utf8_lossy(&tail));
            let read = stream.read(&mut buffer).expect("it goes on");
            assert!(read > 0, "it ended early: {}", String::from_utf8_lossy(&tail));
            seen += read;
            tail.extend_from_slice(&buffer[..read]);
            tail.drain(..tail.len().saturating_sub(600));
        }
        (seen, clock::instant().duration_since(started))
    };
    let (alone_bytes, alone) = healthy("alone");
    let open = descriptors(&gateway);
    let alone_peak = peak(&gateway);

    // Some join, some run a flood of their own; none reads a byte more than the kernel does.
    let mut watcher = socket(&gateway);
    let (stalled, (bytes, took)) = std::thread::scope(|scope| {
        // The heartbeat goes on for those that answer.
        scope.spawn(|| {
            for _ in 0..4 {
                let (kind, payload) = next(&mut watcher).expect("a ping");
                assert_eq!(kind, PING);
                watcher.write_all(&frame(0x8a, &payload)).unwrap();
            }
            watcher.write_all(&frame(CLOSE, b"")).unwrap();
        });
        let beside = scope.spawn(|| healthy("beside"));
        let deadline = clock::instant() + Duration::from_secs(10);
        while gateway.get("/v1/sessions/beside").is_none() {
            assert!(clock::instant() < deadline, "the session begins");
        }
        let mut stalled: Vec<TcpStream> = (0..20)
            .map(|n| {
                post(
                    small(gateway.address()),
                    "/agents/bot/connect",
                    &json!({ "threadId": "beside", "runId": format!("j{n}") }).to_string(),
                )
            })
            .collect();
        for n in 0..2 {
            let mut stream = socket(&gateway);
            stream.write_all(&frame(TEXT, run(&format!("own{n}"), "flood").as_bytes())).unwrap();
            stalled.push(stream);
        }
        (stalled, beside.join().expect("the healthy reader gets everything"))
    });
    assert!(bytes >= 10_000_000 && alone_bytes >= 10_000_000, "{bytes} and {alone_bytes} bytes");
    println!("alone {alone:?}, beside {} stalled readers {took:?}", stalled.len());
    assert!(took < alone * 3 + Duration::from_secs(3), "alone {alone:?}, beside stalled readers {took:?}");

    // Nothing of the others stays.
    until_descriptors(&gateway, open, Duration::from_secs(20));
    let grown = peak(&gateway).saturating_sub(alone_peak);
    println!("{grown} KiB more than the {alone_peak} KiB that it took with one healthy reader");
    // Two floods more, each about what one takes without the program itself.
    assert!(grown < alone_peak * 3 / 2, "it grew by {grown} KiB over {alone_peak} KiB");
    drop(stalled);
    for n in 0..2 {
        gateway.until_idle(&format!("own{n}")).expect("its turn went on");
    }
}

#[test]
fn b29_sockets_that_vanish_without_a_word_are_freed() {
    let (_home, gateway) = gateway();
    let open = descriptors(&gateway);
    let silent: Vec<TcpStream> = (0..50).map(|_| socket(&gateway)).collect();
    assert!(descriptors(&gateway) >= open + 50);
    // Two pings without an answer, one second apart.
    until_descriptors(&gateway, open, Duration::from_secs(8));
    drop(silent);
}

#[test]
fn ten_thousand_connects_at_once_are_survived() {
    let (_home, gateway) = gateway();
    let open = descriptors(&gateway);
    let most = usize::try_from(getrlimit(Resource::Nofile).current.unwrap_or(1 << 20)).unwrap();
    let count = 10_000.min(most.saturating_sub(1000));
    let address = gateway.address().parse::<SocketAddr>().unwrap().into();
    let started = clock::instant();
    let connections: Vec<Socket> = (0..count)
        .map(|_| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            // It goes on by itself; it may also be refused.
            let _ = socket.connect(&address);
            socket
        })
        .collect();
    println!("{} connects in {:?}", connections.len(), clock::instant().duration_since(started));
    assert!(gateway.run("during").read(usize::MAX).contains("RUN_FINISHED"), "it answers while they are there");
    drop(connections);
    until_descriptors(&gateway, open + 8, Duration::from_secs(20));
    assert!(gateway.run("after").read(usize::MAX).contains("RUN_FINISHED"));
}

#[test]
fn it_takes_as_many_descriptors_as_it_may_have() {
    let most = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(256), ..most }).unwrap();
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("headwater.toml"), "").unwrap();
    let gateway = Gateway::start(home.path());
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", gateway.pid())).unwrap();
    let files: Vec<&str> = limits.lines().find(|line| line.starts_with("Max open files")).unwrap().split_whitespace().collect();
    assert_eq!(files[3], files[4], "{limits}");
    assert_ne!(files[3], "256");
}

#[test]
fn idle_sockets_take_little() {
    let (_home, gateway) = gateway_with(&SERVER.replace("ping_secs = 1", "ping_secs = 60"));
    let count = std::env::var("HEADWATER_IDLE_SOCKETS").ok().and_then(|count| count.parse().ok()).unwrap_or(2000);
    let warm: Vec<TcpStream> = (0..50).map(|_| socket(&gateway)).collect();
    drop(warm);
    let before = memory(&gateway, "VmRSS");
    let idle: Vec<TcpStream> = (0..count).map(|_| socket(&gateway)).collect();
    let taken = memory(&gateway, "VmRSS") - before;
    println!("{count} idle sockets: {taken} KiB");
    assert!(taken <= 20 * count, "{taken} KiB for {count} sockets");
    drop(idle);
}

#[test]
fn sigterm_ends_idle_sockets_at_once_and_running_ones_after_their_run() {
    let (_home, mut gateway) = gateway();
    let mut idle = socket(&gateway);
    let mut running = socket(&gateway);
    running.write_all(&frame(TEXT, run("s1", "talk").as_bytes())).unwrap();
    let (kind, started) = next(&mut running).expect("the run starts");
    assert!(kind == TEXT && String::from_utf8_lossy(&started).contains("RUN_STARTED"));
    let reading = std::thread::spawn(move || {
        let mut texts = Vec::new();
        loop {
            match next(&mut running) {
                Some((TEXT, text)) => texts.push(String::from_utf8(text).unwrap()),
                Some((CLOSE, reason)) => return (texts, reason),
                Some(_) => {}
                None => panic!("no close frame after {texts:?}"),
            }
        }
    });
    let closed = std::thread::spawn(move || {
        loop {
            let (kind, reason) = next(&mut idle).expect("a close frame");
            if kind == CLOSE {
                return reason;
            }
        }
    });
    let (code, took) = gateway.terminate();
    let (texts, reason) = reading.join().unwrap();
    assert_eq!(reason[..2], 1012u16.to_be_bytes(), "{}", String::from_utf8_lossy(&reason));
    assert!(texts.last().unwrap().contains("RUN_FINISHED"), "the run ends first: {texts:?}");
    assert_eq!(closed.join().unwrap()[..2], 1012u16.to_be_bytes());
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(8), "it took {took:?}");
}
