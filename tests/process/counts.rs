//! What a turn costs in system calls, counted by strace: socket writes, and that small writes aren't held back.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use super::gateway::Gateway;

/// Turns that are counted.
const TURNS: usize = 20;
/// Socket writes that a turn of 64 tokens may take, the request to the model included.
const SENDS_A_TURN_MAX: usize = 4;

#[test]
fn a_burst_of_64_tokens_takes_at_most_four_sends() {
    let model = burst_model();
    let home = tempfile::tempdir().unwrap();
    let config = format!("[llm.burst]\nkind = \"openai\"\nmodel = \"m\"\nbase_url = \"http://{model}/v1\"\n[agent.bot]\nllm = \"burst\"\n");
    std::fs::write(home.path().join("headwater.toml"), config).unwrap();
    let gateway = Gateway::start(home.path());
    // Connections to the model are opened outside the count.
    gateway.run("warm").read(usize::MAX);
    let trace = Trace::attach(gateway.pid(), home.path());
    for n in 0..TURNS {
        let seen = gateway.run(&format!("s{n}")).read(usize::MAX);
        assert!(seen.contains("RUN_FINISHED"), "{seen}");
        assert_eq!(seen.matches("word ").count(), 64, "{seen}");
    }
    let lines = trace.detach();
    let sends = lines.iter().filter(|line| line.contains("<TCP") && !line.contains("setsockopt")).count();
    assert!(sends >= TURNS * 2, "strace saw too little to count: {lines:?}");
    assert!(sends <= TURNS * SENDS_A_TURN_MAX, "{sends} sends for {TURNS} turns: {lines:#?}");
    let accepted: Vec<&String> = lines.iter().filter(|line| line.contains("TCP_NODELAY, [1]")).collect();
    assert!(accepted.len() >= TURNS, "each connection has TCP_NODELAY: {lines:#?}");
}

/// strace on all threads of a process.
struct Trace {
    strace: Child,
    file: std::path::PathBuf,
}

impl Trace {
    fn attach(pid: u32, home: &std::path::Path) -> Self {
        let file = home.join("trace");
        let mut strace = Command::new("strace")
            .args(["-f", "-yy", "-s", "0", "-e", "trace=write,writev,sendto,sendmsg,setsockopt", "-e", "status=successful", "-o"])
            .arg(&file)
            .args(["-p", &pid.to_string()])
            .stderr(Stdio::piped())
            .spawn()
            .expect("strace is installed (./test.sh does that)");
        let mut lines = BufReader::new(strace.stderr.take().unwrap()).lines();
        let first = lines.next().and_then(Result::ok).unwrap_or_default();
        assert!(first.contains("attached"), "strace: {first}");
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Self { strace, file }
    }

    fn detach(mut self) -> Vec<String> {
        // SIGINT makes strace detach; it writes everything before it ends.
        Command::new("kill").args(["-INT", &self.strace.id().to_string()]).status().expect("kill");
        self.strace.wait().expect("strace ends");
        std::fs::read_to_string(&self.file).expect("the trace").lines().map(str::to_owned).collect()
    }
}

/// A model that answers every request with 64 tokens in one piece, over connections that stay open.
fn burst_model() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer_all(stream));
        }
    });
    address
}

fn answer_all(stream: TcpStream) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() || writer.write_all(burst().as_bytes()).is_err() {
            return;
        }
    }
}

fn burst() -> String {
    let token = r#"data: {"choices":[{"index":0,"delta":{"content":"word "}}]}"#;
    let mut events = format!("{token}\n\n").repeat(64);
    events += "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{events}", events.len())
}
