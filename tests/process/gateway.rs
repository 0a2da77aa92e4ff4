//! The real program as a child, and just enough HTTP to talk to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use headwater::clock;
use serde_json::{Value, json};

/// Everything here must happen within so long.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running gateway.
pub struct Gateway {
    child: Child,
    address: String,
    said: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

/// Where a log line, of either format, says that it listens.
fn listens_at(line: &str) -> Option<String> {
    match serde_json::from_str::<Value>(line) {
        Ok(line) => line.get("address")?.as_str().map(str::to_owned),
        Err(_) => line.split(' ').find_map(|word| word.strip_prefix("address=")).map(str::to_owned),
    }
}

impl Gateway {
    /// Starts it in `home`, where its configuration and its data are.
    pub fn start(home: &Path) -> Self {
        Self::start_at(home, "127.0.0.1:0")
    }

    /// Starts it at an address that clients know already.
    pub fn start_at(home: &Path, address: &str) -> Self {
        Self::start_with(home, address, &[("HEADWATER__LOG__FORMAT", "json")])
    }

    /// Starts it with more in its environment.
    pub fn start_with(home: &Path, address: &str, environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
        command.args(["serve", "--config", "headwater.toml", "--listen", address]).envs(environment.iter().copied());
        Self::started(home, command)
    }

    /// Starts it where no file may grow beyond so many blocks of 512 bytes: then nothing more can be written, as on a full disk.
    pub fn start_where_files_end(home: &Path, blocks: usize) -> Self {
        let mut command = Command::new("sh");
        // Else the signal ends the process instead of the write.
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" serve --config headwater.toml --listen 127.0.0.1:0");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_headwater")]);
        Self::started(home, command)
    }

    fn started(home: &Path, mut command: Command) -> Self {
        let mut child = command.current_dir(home).stderr(Stdio::piped()).spawn().expect("the program starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
        let said = Arc::new(Mutex::new(Vec::new()));
        let address = lines
            .by_ref()
            .inspect(|line| said.lock().unwrap().push(line.clone()))
            .find_map(|line| listens_at(&line))
            .expect("it says where it listens");
        // Its log lines must go somewhere, or it would wait for us.
        let keep = said.clone();
        let reader = std::thread::spawn(move || lines.for_each(|line| keep.lock().unwrap().push(line)));
        Self { child, address, said, reader: Some(reader) }
    }

    /// Ends it without a word.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Asks it to stop, as a service manager does; its exit code and how long it took.
    pub fn terminate(&mut self) -> (Option<i32>, Duration) {
        let asked = clock::instant();
        Command::new("kill").args(["-TERM", &self.pid().to_string()]).status().expect("kill");
        let status = self.child.wait().expect("it ends");
        (status.code(), clock::instant().duration_since(asked))
    }

    /// Ends it without a word; all of its log lines.
    pub fn kill_and_tell(&mut self) -> Vec<String> {
        self.kill();
        if let Some(reader) = self.reader.take() {
            reader.join().expect("its lines are read");
        }
        std::mem::take(&mut *self.said.lock().unwrap())
    }

    /// Where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        stream
    }

    /// Sends the first message of `session`; the answer is read by the caller.
    pub fn run(&self, session: &str) -> Run {
        let input = json!({ "threadId": session, "runId": format!("{session}-r1"), "messages": [{ "id": "u1", "role": "user", "content": "count" }] });
        let body = input.to_string();
        let mut stream = self.connect();
        let head = format!(
            "POST /agents/bot HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).expect("it reads");
        Run(stream)
    }

    /// A JSON answer; nothing for a 404.
    pub fn get(&self, path: &str) -> Option<Value> {
        let mut stream = self.connect();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
        match head.split(' ').nth(1) {
            Some("200") => Some(serde_json::from_str(body).expect("JSON")),
            Some("404") => None,
            status => panic!("{path}: {status:?} {body}"),
        }
    }

    /// An answer as it is.
    pub fn ask(&self, request: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = Vec::new();
        // A connection that is cut ends too.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Sends JSON; the answer's status and its JSON.
    pub fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let body = body.to_string();
        let mut stream = self.connect();
        let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all((head + &body).as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        (status, serde_json::from_str(body).unwrap_or_else(|_| panic!("{path}: {status} {body}")))
    }

    /// Asks for a stream.
    pub fn stream(&self, path: &str) -> Run {
        let mut stream = self.connect();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n").expect("it reads");
        Run(stream)
    }

    /// The session's page once no turn runs in it; nothing when there is no such session.
    pub fn until_idle(&self, session: &str) -> Option<Value> {
        let deadline = clock::instant() + PATIENCE;
        loop {
            let page = self.get(&format!("/v1/sessions/{session}"))?;
            if page["status"] == "idle" {
                return Some(page);
            }
            assert!(clock::instant() < deadline, "{session}: the turn doesn't end: {page}");
            std::thread::yield_now();
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // After `kill` there is nothing left to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An answer on its way.
pub struct Run(TcpStream);

impl Run {
    /// What comes next.
    pub fn more(&mut self) -> String {
        let mut buffer = [0; 4096];
        match self.0.read(&mut buffer) {
            Ok(read @ 1..) => String::from_utf8(buffer[..read].to_vec()).expect("plain text"),
            Ok(0) | Err(_) => panic!("it ended"),
        }
    }

    /// Reads until `text` was there.
    pub fn until(&mut self, text: &str) {
        let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
        while !String::from_utf8_lossy(&seen).contains(text) {
            match self.0.read(&mut buffer) {
                Ok(read @ 1..) => seen.extend_from_slice(&buffer[..read]),
                Ok(0) | Err(_) => panic!("it ended without {text:?}: {}", String::from_utf8_lossy(&seen)),
            }
        }
    }

    /// Reads at least `bytes` of it, or to the terminal. Dropped early, it stops the turn.
    pub fn read(&mut self, bytes: usize) -> String {
        let (mut seen, mut buffer) = (Vec::new(), [0; 256]);
        while seen.len() < bytes && !String::from_utf8_lossy(&seen).contains("\"RUN_FINISHED\"") {
            match self.0.read(&mut buffer) {
                Ok(0) | Err(_) => break,
                Ok(read) => seen.extend_from_slice(&buffer[..read]),
            }
        }
        String::from_utf8_lossy(&seen).into_owned()
    }
}
