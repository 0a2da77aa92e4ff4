//! Runs `tests/scenarios/*.txt`: conversations as files. A line `> …` is a step; what it gives stands below it. The runner does the
//! steps and compares the whole file with what came out. `HEADWATER_BLESS=1` writes what came out: read it before you keep it.
//!
//! Submits: `view FLAG… MESSAGE…` · `message FLAG… MESSAGE` · `append FLAG… MESSAGE…` · `result FLAG… MESSAGE` · `event FLAG… MESSAGE` · `action FLAG… NAME`, with the flags `+append
//! +fork +run +norun +queue +merge +steer +cancel +show +turn:ID +agent:ID +tools:NAME,… +state:TEXT-OR-JSON`. What else happens: `reply NAME` (names the running
//! call's reply) · `finish NAME TEXT [CALL:TOOL[:ARGUMENTS]…]` (with `'` for `"`) · `agent ID SYSTEM CONTEXT-JSON` (its context) · `client-state ID ignore|offer|accept` · `reports TOKENS` (what the
//! next reply's model says that it read) · `idle SECS` · `room` (makes room for a held call) · `summary TEXT` (what the hidden call says) · `job` (begins a summary in the background) · `job-summary TEXT [ATTEMPT]` · `job-fail KIND
//! [ATTEMPT]` · `job-wake` · `fail KIND [retry-after ms]` · `wake` · `written TEXT` (what readers saw of the
//! running reply) · `cancel [TURN]` · `recover` · `head NODE|-|stay|to:LABEL [as:LABEL]` · `update [title:TEXT] [untitled] [archived]
//! [unarchived]` · `fork [NODE]` (goes on in the fork; `source` goes back) · `custom ID` · `compact ID keep=N [reset] [pinned]` · `node JSON` (a
//! `message.new` under the head, by hand) · `log JSON`. Workers: `worker AGENT` (it has one) · `unhire AGENT` · `asked` (what it is asked)
//! · `answer JSON` (with `$held`, `$ready`, `$NODE` for ids) · `accept` (what is proposed) · `repeat` · `remember`, `late` · `unanswered CODE` · `wait`. Interrupts: `resume FLAG… ok:ID[:JSON]… no:ID… [with MESSAGE…]` · `interrupts`. Tools: `tools AGENT TOOL…` (its own) · `execute CALL` (what is asked about it) · `carried CALL
//! TEXT|!ERROR|!?ERROR` (the last may be tried again) · `say CALL JSON` (the worker's answer) · `lost CALL`, `unreached CALL` · `later`. What is looked at: `reconcile MESSAGE…` (what a view comes to; nothing is written) ·
//! `draw` · `tree` (raw) · `read` · `prompt` · `session` · `page` · `state` (at the head, with what is overridden).

mod answers;
mod changes;
mod decisions;
mod interrupts;
mod tools;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use headwater::draw::draw;
use headwater::engine::record::{Body, Record};
use headwater::engine::{self, Effect, MessageNew, News, View};
use headwater::ids::{DecisionId, NodeId, SERVER_PREFIX, TurnId};
use headwater::protocol::{CallErrorKind, Json, Message, OnBusy, PartialView, Refusal, Role, SameIdEdit, ToolCall};

use crate::talk::{Asked, Kind, Talk, listed};
use crate::told::{message, page, raw, refused, state, told, words};

#[test]
fn scenarios_go_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    assert!(files.len() > 20, "the scenarios are there");
    let wrong: Vec<String> = files.iter().filter_map(|file| differs(file)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is different, in a readable form.
fn differs(file: &Path) -> Option<String> {
    let written = std::fs::read_to_string(file).unwrap();
    let came = Play::default().play(&written);
    if std::env::var_os("HEADWATER_BLESS").is_some() {
        std::fs::write(file, &came).unwrap();
        return None;
    }
    if came == written {
        return None;
    }
    let mut out = format!("{}: - as written, + as it came\n", file.file_name().unwrap().display());
    let (old, new): (Vec<&str>, Vec<&str>) = (written.lines().collect(), came.lines().collect());
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    for line in &old[same.saturating_sub(4)..same] {
        let _ = writeln!(out, "  {line}");
    }
    for (mark, lines) in [("-", &old[same..]), ("+", &new[same..])] {
        for line in lines.iter().take(12) {
            let _ = writeln!(out, "{mark} {line}");
        }
    }
    Some(out)
}

/// A scenario as it is played.
#[derive(Default)]
struct Play {
    talk: Talk,
    /// What a fork was made from.
    source: Option<Talk>,
    /// Short names for ids that the engine made, with their roles.
    names: HashMap<String, (NodeId, Role)>,
    shorts: HashMap<NodeId, String>,
    /// A decision that was open once.
    remembered: Option<DecisionId>,
    out: String,
}

impl Drop for Play {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let lines: Vec<&str> = self.out.lines().collect();
            eprintln!("so far:\n{}", lines[lines.len().saturating_sub(12)..].join("\n"));
        }
    }
}

impl Play {
    fn play(mut self, text: &str) -> String {
        for line in text.lines() {
            if line.starts_with('#') || line.is_empty() {
                self.line(line);
            } else if let Some(step) = line.strip_prefix("> ") {
                self.line(line);
                // Shown when the step breaks.
                let before = self.out.len();
                println!("{line}");
                self.step(step);
                print!("{}", &self.out[before..]);
            }
        }
        self.talk.replays();
        if let Some(source) = &self.source {
            source.replays();
        }
        std::mem::take(&mut self.out)
    }

    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{}", text.trim_end());
    }

    fn step(&mut self, step: &str) {
        let words = words(step);
        let (verb, rest) = words.split_first().expect("a step has a verb");
        let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
        let records = match verb.as_str() {
            "view" => return self.submit(Kind::View, &rest),
            "message" => return self.submit(Kind::Message, &rest),
            "append" => return self.submit(Kind::Append, &rest),
            "result" => return self.submit(Kind::Result, &rest),
            "event" => return self.submit(Kind::Event, &rest),
            "action" => return self.submit(Kind::Action, &rest),
            "head" => return self.head(&rest),
            "update" => return self.update(&rest),
            "fork" => return self.fork(rest.first().copied()),
            "source" => {
                self.talk = self.source.take().expect("a fork was made");
                return;
            }
            "reply" => {
                let id = self.talk.reply_id().expect("a call runs");
                return self.call_it(rest[0], id, Role::Assistant);
            }
            "finish" => self.finish(&rest),
            "agent" => {
                let options = serde_json::from_str(rest[2]).unwrap();
                return self.talk.configure(rest[0], Some(rest[1]), &options);
            }
            "client-state" => return self.talk.takes(rest[0], serde_json::from_value(rest[1].into()).unwrap()),
            "reports" => {
                self.talk.reports = Some(rest[0].parse().unwrap());
                return;
            }
            "idle" => {
                self.talk.now += rest[0].parse::<u64>().unwrap() * 1000;
                return;
            }
            "room" => self.talk.make_room(),
            "summary" => {
                let (_, records) = self.talk.finish(rest.first().unwrap_or(&""), Vec::new());
                records
            }
            "fail" => self.talk.fail(kind(rest[0]), rest.get(1).map(|ms| ms.parse().unwrap())),
            "job" => self.talk.begin_job(),
            "job-summary" => self.talk.job_says(rest[0], rest.get(1).map(|attempt| attempt.parse().unwrap())),
            "job-fail" => self.talk.job_fails(kind(rest[0]), rest.get(1).map(|attempt| attempt.parse().unwrap())),
            "job-wake" => self.talk.job_wakes(),
            "wake" => self.talk.wake(),
            "written" => {
                self.talk.written = Some(Message::text(Role::Assistant, rest[0]));
                return;
            }
            "cancel" => self.talk.cancel(rest.first().map(|&turn| TurnId::from(turn)).as_ref()),
            "recover" => self.talk.recover(),
            "custom" => self.talk.custom(rest[0]),
            "compact" => self.compact(&rest),
            "node" => self.node(rest[0]),
            "log" => self.log(rest[0]),
            "reconcile" => return self.reconcile(&rest),
            verb if self.decide(verb, &rest) || self.answers(verb, &rest) || self.carry(verb, &rest) => return,
            verb => return self.show(verb),
        };
        self.wrote(&records);
    }

    fn submit(&mut self, kind: Kind, rest: &[&str]) {
        let asked = Asked { kind, ..self.asked(rest) };
        let seq = self.talk.session.seq;
        match self.talk.submit(&asked) {
            Err(refusal) => {
                assert_eq!(self.talk.session.seq, seq, "a refusal writes nothing");
                self.refused(&refusal);
            }
            Ok((records, accepted)) => {
                self.names_of(&records);
                self.accepted(&accepted, asked.messages.len());
                self.wrote(&records);
            }
        }
    }

    fn asked(&self, rest: &[&str]) -> Asked {
        let mut asked = Asked::default();
        for &word in rest {
            match word.split_once(':').unwrap_or((word, "")) {
                ("+append", _) => asked.options.partial_view = PartialView::Append,
                ("+fork", _) => asked.options.same_id_edit = SameIdEdit::Fork,
                ("+run", _) => asked.run = Some(true),
                ("+norun", _) => asked.run = Some(false),
                ("+queue", _) => asked.on_busy = OnBusy::Queue,
                ("+merge", _) => asked.on_busy = OnBusy::Merge,
                ("+cancel", _) => asked.on_busy = OnBusy::Cancel,
                ("+steer", _) => asked.on_busy = OnBusy::Steer,
                ("+show", _) => asked.show = true,
                ("+turn", id) => asked.turn_id = Some(id.into()),
                ("+agent", id) => asked.agent = id.into(),
                ("+tools", names) => asked = asked.with_tools(&names.split(',').collect::<Vec<_>>()),
                ("+state", text) => {
                    asked.client.state = Some(serde_json::from_str(text).unwrap_or_else(|_| Json::from_value(&text).unwrap()));
                }
                _ => asked.messages.push(message(word, &self.names)),
            }
        }
        asked
    }

    fn refused(&mut self, refusal: &Refusal) {
        let text = self.short(&refused(refusal));
        self.line(&text);
    }

    fn id(&self, name: &str) -> NodeId {
        self.names.get(name).map_or_else(|| name.into(), |(id, _)| id.clone())
    }

    fn reconcile(&mut self, rest: &[&str]) {
        let Asked { messages, options, .. } = self.asked(rest);
        let view = View::new(messages);
        let found = match engine::reconcile(&self.talk.session.tree, self.talk.session.head, &view, options) {
            Ok(found) => found,
            Err(refusal) => return self.refused(&refusal),
        };
        let tree = &self.talk.session.tree;
        let news: Vec<String> = found
            .news
            .iter()
            .map(|news| match news {
                News::Result(index) => format!("result {index}"),
                News::Message { index, edit_of } => format!("message {index}{}", if edit_of.is_some() { " (edit)" } else { "" }),
                News::Copy(ix) => format!("copy {}", tree.id(*ix)),
            })
            .collect();
        let landing = found.landing.map_or("the empty path".to_owned(), |ix| tree.id(ix).to_string());
        let ignored: Vec<String> = found.ignored.iter().map(|one| format!("{}: {:?}", one.index, one.reason)).collect();
        let text = format!("lands on {landing}, news [{}], ignored [{}]", news.join(", "), ignored.join(", "));
        let text = self.short(&text);
        self.line(&text);
    }

    fn finish(&mut self, rest: &[&str]) -> Vec<Record> {
        let calls = rest[2..].iter().map(|call| {
            let mut parts = call.splitn(3, ':');
            let (id, tool) = parts.next().zip(parts.next()).expect("CALL:TOOL");
            ToolCall::new(id.into(), tool, parts.next().unwrap_or("{}").replace('\'', "\""))
        });
        let (id, records) = self.talk.finish(rest[1], calls.collect());
        self.call_it(rest[0], id, Role::Assistant);
        records
    }

    fn compact(&mut self, rest: &[&str]) -> Vec<Record> {
        let keep = rest.iter().find_map(|word| word.strip_prefix("keep=")).map_or(0, |n| n.parse().unwrap());
        let summary = (!rest.contains(&"reset")).then_some("a summary");
        self.talk.compact(rest[0], keep, summary, rest.contains(&"pinned"))
    }

    fn node(&mut self, json: &str) -> Vec<Record> {
        let mut new: MessageNew = serde_json::from_str(json).unwrap();
        new.parent = self.talk.head_id();
        new.copied_from = new.copied_from.map(|id| self.names.get(id.as_str()).map_or(id, |(id, _)| id.clone()));
        self.talk.write(vec![Body::MessageNew(Box::new(new))])
    }

    fn log(&mut self, json: &str) -> Vec<Record> {
        let records = vec![Record::decode(json.as_bytes()).unwrap()];
        self.talk.take(&records);
        records
    }

    fn show(&mut self, verb: &str) {
        let session = &self.talk.session;
        let text = match verb {
            "draw" => {
                let (head, nodes) = listed(session);
                draw(&nodes, head.as_ref())
            }
            "tree" => raw(&self.talk),
            "page" => page(session),
            "read" => self.ids(&self.talk.reader_view()),
            "prompt" => {
                let read = engine::prompt(session).unwrap();
                read.iter().fold(String::new(), |text, message| {
                    let call = message.tool_call_id.as_ref().map(|id| format!(" for {id}")).unwrap_or_default();
                    let calls: Vec<String> = message.tool_calls.iter().map(|call| format!(" [{}]", call.id)).collect();
                    let error =
                        message.error.as_ref().map(|error| format!(" [{error}]")).filter(|_| message.content.is_none()).unwrap_or_default();
                    text + &format!("{:?}{call}: {}{}{error}\n", message.role, message.joined_text().replace('\n', "\\n"), calls.concat())
                })
            }
            "state" => state(session),
            "session" => {
                let does = if session.is_waiting() { "waits" } else { "runs" };
                let turn = session.turn.as_ref().map_or("no turn".to_owned(), |turn| format!("turn {} {does}", turn.id));
                format!("{turn}, head {}, newer {:?}", self.talk.head_id().map_or("-".to_owned(), |id| id.to_string()), session.newer)
            }
            verb => panic!("unknown step {verb}"),
        };
        let text = self.short(text.trim_end());
        for line in text.lines() {
            self.line(line);
        }
    }

    /// Tells what was written and what is now to be done.
    fn wrote(&mut self, records: &[Record]) {
        self.names_of(records);
        if records.is_empty() {
            return self.line("wrote nothing");
        }
        let told: Vec<String> = records.iter().map(|record| told(&record.body)).collect();
        let wants = match self.talk.call() {
            // What is executed is told below.
            None | Some(Effect::Execute { .. } | Effect::WakeExecution { .. }) => String::new(),
            Some(Effect::Call { attempt, .. }) => format!(" → call, attempt {attempt}"),
            Some(Effect::Room { .. }) => " → make room".to_owned(),
            Some(Effect::Ask { attempt, .. }) => format!(" → ask, attempt {attempt}"),
            Some(Effect::Wake { at, attempt, .. } | Effect::WakeDecision { at, attempt, .. }) => {
                format!(" → wait {} ms after attempt {attempt}", at - self.talk.now)
            }
            Some(Effect::Job { .. }) => unreachable!("a job isn't the turn's"),
        };
        let wants = wants + &self.executions();
        let job: Vec<String> = self.talk.job_wants().iter().map(|effect| self.job(effect)).collect();
        let job = if job.is_empty() { String::new() } else { format!(" ⇉ {}", job.join(", ")) };
        let text = self.short(&format!("wrote {}{wants}{job}", told.join(" · ")));
        self.line(&text);
    }

    fn job(&self, effect: &Effect) -> String {
        match effect {
            Effect::Job { attempt, .. } => format!("job, attempt {attempt}"),
            Effect::Wake { at, .. } => format!("wait {} ms", at - self.talk.now),
            Effect::Call { .. }
            | Effect::Room { .. }
            | Effect::Ask { .. }
            | Effect::WakeDecision { .. }
            | Effect::Execute { .. }
            | Effect::WakeExecution { .. } => {
                unreachable!("that is the turn's")
            }
        }
    }

    fn call_it(&mut self, short: &str, id: NodeId, role: Role) {
        self.names.insert(short.to_owned(), (id.clone(), role));
        self.shorts.insert(id, short.to_owned());
    }

    /// Gives a short name to each node that the engine named: that of the original with a mark, or one that counts.
    fn names_of(&mut self, records: &[Record]) {
        for record in records {
            let Body::MessageNew(new) = &record.body else { continue };
            if self.shorts.contains_key(&new.id) || (!new.id.is_reserved() && new.copied_from.is_none()) {
                continue;
            }
            let tree = &self.talk.session.tree;
            let role = tree.node(tree.find(&new.id).unwrap()).role;
            if !new.id.is_reserved() {
                self.call_it(&new.id.to_string(), new.id.clone(), role);
                continue;
            }
            let of = |id: &NodeId| self.shorts.get(id).cloned().unwrap_or_else(|| id.to_string());
            let stem = match (&new.copied_from, &new.edit_of) {
                (Some(original), _) => format!("{}'", of(original)),
                (None, Some(edited)) => format!("{}*", of(edited)),
                (None, None) => "n".to_owned(),
            };
            let mut numbered = (1..).map(|n| format!("{stem}{n}"));
            let short = if stem == "n" || self.names.contains_key(&stem) {
                numbered.find(|short| !self.names.contains_key(short)).unwrap()
            } else {
                stem
            };
            self.call_it(&short, new.id.clone(), role);
        }
    }

    fn ids(&self, ids: &[NodeId]) -> String {
        let ids: Vec<&str> = ids.iter().map(NodeId::as_str).collect();
        self.short(&ids.join(" "))
    }

    /// With short names in the place of the engine's.
    fn short(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(SERVER_PREFIX) {
            let (before, after) = rest.split_at(at);
            out.push_str(before);
            let made = after[SERVER_PREFIX.len()..].chars().take_while(char::is_ascii_hexdigit).count() == 32;
            let id = &after[..SERVER_PREFIX.len() + if made { 32 } else { 0 }];
            out.push_str(if made { self.shorts.get(id).map_or("?", String::as_str) } else { id });
            rest = &after[id.len()..];
        }
        out + rest
    }
}

fn kind(word: &str) -> CallErrorKind {
    match word {
        "cut" => CallErrorKind::Cut,
        "limited" => CallErrorKind::RateLimited,
        "long" => CallErrorKind::TooLong,
        "refused" => CallErrorKind::Refused,
        "nonsense" => CallErrorKind::Nonsense,
        _ => panic!("unknown failure {word}"),
    }
}
