//! Runs `tests/scenarios/*.txt`: conversations as files. A line `> …` is a step; what it gives stands below it. The runner does the
//! steps and compares the whole file with what came out. `HEADWATER_BLESS=1` writes what came out: read it before you keep it.
//!
//! Steps: `view [+append] [+fork] [+run] [+norun] [+turn:ID] MESSAGE…` · `reply NAME` (names the running call's reply) · `finish
//! NAME TEXT [CALL:TOOL…]` · `fail KIND [retry-after ms]` · `wake` · `written TEXT` (what readers saw of the running reply) · `cancel [TURN]` ·
//! `recover` · `custom ID` · `compact ID keep=N [reset] [pinned]` · `ask TURN` and `end TURN` (a turn by hand, without a call) ·
//! `node JSON` (a `message.new` under the head, by hand) · `reconcile MESSAGE…` (what a view comes to; nothing is written) · `answer MESSAGE…`
//! (writes the results that a view brings) · `log JSON` · `draw` · `tree` (raw) · `read` · `prompt` · `session`.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use headwater::draw::draw;
use headwater::engine::record::{Body, MessageNew, Record, TurnCompleted, TurnStarted};
use headwater::engine::{self, Effect, News, View};
use headwater::ids::{NodeId, SERVER_PREFIX, TurnId};
use headwater::protocol::{CallErrorKind, Client, Digest, Message, NodeKind, PartialView, Refusal, Role, SameIdEdit, ToolCall};

use crate::talk::{Asked, Talk, listed, message};

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
    /// Short names for ids that the engine made, with their roles.
    names: HashMap<String, (NodeId, Role)>,
    shorts: HashMap<NodeId, String>,
    out: String,
}

impl Play {
    fn play(mut self, text: &str) -> String {
        for line in text.lines() {
            if line.starts_with('#') || line.is_empty() {
                self.line(line);
            } else if let Some(step) = line.strip_prefix("> ") {
                self.line(line);
                self.step(step);
            }
        }
        self.talk.replays();
        self.out
    }

    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{}", text.trim_end());
    }

    fn step(&mut self, step: &str) {
        let words = words(step);
        let (verb, rest) = words.split_first().expect("a step has a verb");
        let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
        let records = match verb.as_str() {
            "view" => return self.view(&rest),
            "reply" => {
                let id = self.talk.reply_id().expect("a call runs");
                return self.call_it(rest[0], id, Role::Assistant);
            }
            "finish" => self.finish(&rest),
            "fail" => self.talk.fail(kind(rest[0]), rest.get(1).map(|ms| ms.parse().unwrap())),
            "wake" => self.talk.wake(),
            "written" => {
                self.talk.written = Some(Message::text(Role::Assistant, rest[0]));
                return;
            }
            "cancel" => self.talk.cancel(rest.first().map(|&turn| TurnId::from(turn)).as_ref()),
            "recover" => self.talk.recover(),
            "custom" => self.talk.custom(rest[0]),
            "compact" => self.compact(&rest),
            "ask" => self.talk.write(vec![started(rest[0])]),
            "end" => self.talk.write(vec![Body::TurnCompleted(TurnCompleted { turn_id: rest[0].into() })]),
            "node" => self.node(rest[0]),
            "answer" => self.answer(&rest),
            "log" => self.log(rest[0]),
            "reconcile" => return self.reconcile(&rest),
            verb => return self.show(verb),
        };
        self.wrote(&records);
    }

    fn view(&mut self, rest: &[&str]) {
        let asked = self.asked(rest);
        match self.talk.submit(&asked) {
            Err(refusal) => self.refused(&refusal),
            Ok((records, accepted)) => {
                self.names_of(&records);
                let mut says = vec![format!("accepted {}", accepted.turn_id)];
                says.push(if accepted.reply { "a reply is due" } else { "no reply" }.to_owned());
                let flags = [(accepted.duplicate, "duplicate"), (accepted.root_branch, "root branch"), (accepted.resync, "resync")];
                says.extend(flags.iter().filter(|(set, _)| *set).map(|(_, says)| (*says).to_owned()));
                says.extend(accepted.new_from.filter(|&from| from < asked.messages.len()).map(|from| format!("new from {from}")));
                if accepted.implied_count > 0 {
                    says.push(format!("implied {}: {}", accepted.implied_count, self.ids(&accepted.implied)));
                }
                says.extend(accepted.ignored.iter().map(|ignored| format!("ignored {}: {:?}", ignored.index, ignored.reason)));
                if !accepted.ignored_edits.is_empty() {
                    says.push(format!("ignored edits: {}", self.ids(&accepted.ignored_edits)));
                }
                let says = self.short(&says.join(" · "));
                self.line(&says);
                self.wrote(&records);
            }
        }
    }

    fn asked(&self, rest: &[&str]) -> Asked {
        let mut asked = Asked::default();
        for &word in rest {
            match word {
                "+append" => asked.options.partial_view = PartialView::Append,
                "+fork" => asked.options.same_id_edit = SameIdEdit::Fork,
                "+run" => asked.run = Some(true),
                "+norun" => asked.run = Some(false),
                _ if word.starts_with("+turn:") => asked.turn_id = Some(word["+turn:".len()..].into()),
                _ => asked.messages.push(message(word, &self.names)),
            }
        }
        asked
    }

    fn refused(&mut self, refusal: &Refusal) {
        let details: Vec<String> = refusal.details.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let text = self.short(&format!("refused {} {}", refusal.code, details.join(" ")));
        self.line(&text);
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
                News::Copy(ix) => format!("copy {}", tree.node(*ix).id),
            })
            .collect();
        let landing = found.landing.map_or("the empty path", |ix| tree.node(ix).id.as_str());
        let ignored: Vec<String> = found.ignored.iter().map(|one| format!("{}: {:?}", one.index, one.reason)).collect();
        let text = format!("lands on {landing}, news [{}], ignored [{}]", news.join(", "), ignored.join(", "));
        let text = self.short(&text);
        self.line(&text);
    }

    fn answer(&mut self, rest: &[&str]) -> Vec<Record> {
        let Asked { messages, options, .. } = self.asked(rest);
        let view = View::new(messages);
        let found = engine::reconcile(&self.talk.session.tree, self.talk.session.head, &view, options).unwrap();
        let mut parent = found.landing.map(|ix| self.talk.session.tree.node(ix).id.clone());
        let mut bodies = Vec::new();
        for news in &found.news {
            let News::Result(index) = *news else { panic!("only results are answered with") };
            let message = view.messages[index].clone();
            let id = message.id.clone().expect("results have ids here");
            bodies.push(Body::MessageNew(Box::new(MessageNew::plain(id.clone(), parent.replace(id), message))));
        }
        self.talk.write(bodies)
    }

    fn finish(&mut self, rest: &[&str]) -> Vec<Record> {
        let calls = rest[2..].iter().map(|call| {
            let (id, tool) = call.split_once(':').expect("CALL:TOOL");
            ToolCall::new(id.into(), tool, "{}")
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
            "read" => self.ids(&self.talk.reader_view()),
            "prompt" => {
                let read = engine::prompt(session).unwrap();
                read.iter().fold(String::new(), |text, message| {
                    let call = message.tool_call_id.as_ref().map(|id| format!(" for {id}")).unwrap_or_default();
                    let calls: Vec<String> = message.tool_calls.iter().map(|call| format!(" [{}]", call.id)).collect();
                    text + &format!("{:?}{call}: {}{}\n", message.role, message.joined_text(), calls.concat())
                })
            }
            "session" => {
                let turn = session.turn.as_ref().map_or("no turn".to_owned(), |turn| format!("turn {} runs", turn.id));
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
            None => String::new(),
            Some(Effect::Call { attempt, .. }) => format!(" → call, attempt {attempt}"),
            Some(Effect::Wake { at, attempt, .. }) => format!(" → wait {} ms after attempt {attempt}", at - self.talk.now),
        };
        let text = self.short(&format!("wrote {}{wants}", told.join(" · ")));
        self.line(&text);
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
            let id = &after[..(SERVER_PREFIX.len() + 32).min(after.len())];
            out.push_str(self.shorts.get(id).map_or("?", String::as_str));
            rest = &after[id.len()..];
        }
        out + rest
    }
}

fn started(turn: &str) -> Body {
    let digest = Digest::default();
    Body::TurnStarted(Box::new(TurnStarted { turn_id: turn.into(), agent_id: "bot".into(), digest, client: Client::default() }))
}

fn kind(word: &str) -> CallErrorKind {
    match word {
        "cut" => CallErrorKind::Cut,
        "limited" => CallErrorKind::RateLimited,
        "refused" => CallErrorKind::Refused,
        "nonsense" => CallErrorKind::Nonsense,
        _ => panic!("unknown failure {word}"),
    }
}

fn told(body: &Body) -> String {
    match body {
        Body::SessionCreated(_) => "session.created".to_owned(),
        Body::MessageNew(new) => {
            let parent = new.parent.as_ref().map_or("-", NodeId::as_str);
            let flags = [(new.partial, " partial"), (new.aside, " aside"), (new.hidden, " hidden")];
            let flags: String = flags.iter().filter(|(set, _)| *set).map(|(_, text)| *text).collect();
            format!("message.new {} under {parent}{flags}", new.id)
        }
        Body::HeadMoved(moved) => format!("head.moved {}", moved.to.as_ref().map_or("-", NodeId::as_str)),
        Body::TurnStarted(_) => "turn.started".to_owned(),
        Body::TurnCompleted(_) => "turn.completed".to_owned(),
        Body::TurnFailed(failed) => format!("turn.failed {}", failed.code),
        Body::TurnCancelled(_) => "turn.cancelled".to_owned(),
        Body::TurnRecovered(_) => "turn.recovered".to_owned(),
        Body::CallStarted(_) => "llm.call.started".to_owned(),
        Body::CallCompleted(_) => "llm.call.completed".to_owned(),
        Body::CallFailed(failed) => format!("llm.call.failed {}", failed.error.kind.code()),
        Body::CallVoided(_) => "call.voided".to_owned(),
        Body::Unknown(unknown) => format!("unknown {}", unknown.kind),
    }
}

/// Every node with its parent, as a program of the server's reads the tree.
fn raw(talk: &Talk) -> String {
    let tree = &talk.session.tree;
    let mut out = String::new();
    for ix in 0..u32::try_from(tree.len()).unwrap() {
        let node = tree.node(ix);
        let parent = tree.parent(ix).map_or("-", |parent| tree.node(parent).id.as_str());
        let kind = match node.kind {
            NodeKind::Message => "",
            NodeKind::Epoch => " epoch",
            NodeKind::Custom => " custom",
        };
        let reads: Vec<&str> = tree.reader_up(Some(ix)).map(|ix| tree.shown_id(ix).as_str()).collect();
        let reads: Vec<&str> = reads.into_iter().rev().collect();
        let head = if talk.session.head == Some(ix) { "  <- head" } else { "" };
        let _ = writeln!(out, "{}{kind} under {parent} reads [{}]{head}", node.id, reads.join(" "));
    }
    out
}

/// Splits at spaces outside of quotes; `{…}` to the end of the line is one word.
fn words(step: &str) -> Vec<String> {
    let (step, json) = step.find(" {").map_or((step, None), |at| (&step[..at], Some(step[at + 1..].to_owned())));
    let mut words = vec![String::new()];
    let mut quoted = false;
    for char in step.chars() {
        match char {
            '"' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            _ => words.last_mut().unwrap().push(char),
        }
    }
    words.retain(|word| !word.is_empty());
    words.extend(json);
    words
}
