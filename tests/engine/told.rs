//! How scenarios spell messages, records and answers.

use std::collections::HashMap;
use std::fmt::Write as _;

use headwater::engine::record::{Body, Reads, Summary};
use headwater::engine::{self, Session};
use headwater::ids::{NodeId, SERVER_PREFIX, SessionId, TurnId};
use headwater::protocol::{Content, Message, NodeKind, Refusal, Role, ToolCall};

use crate::talk::Talk;

/// A message in short: `u1`, `u1="other text"`, `t9@call` (a result; with a text that begins with `!` an error), `a5[call:tool,…]`
/// (a reply that calls), `_="text"` (no id). The role goes by the first letter: `a` assistant, `s` system, `d` developer, `r`
/// reasoning (also `…:reasoning-1`), `c` activity, else user; ids in `names` stand for others and their roles are given.
pub fn message(text: &str, names: &HashMap<String, (NodeId, Role)>) -> Message {
    let (key, said) = text.split_once('=').map_or((text, None), |(key, said)| (key, Some(said.trim_matches('"'))));
    let (key, calls) = key.split_once('[').map_or((key, ""), |(key, calls)| (key, calls.trim_end_matches(']')));
    let calls = calls.split(',').filter_map(|call| call.split_once(':'));
    let tool_calls = calls.map(|(id, tool)| ToolCall::new(id.into(), tool, "{}")).collect();
    let (id, call) = key.split_once('@').map_or((key, None), |(id, call)| (id, Some(call)));
    let by_letter = match id.as_bytes().first() {
        _ if call.is_some() => Role::Tool,
        _ if id.contains(":reasoning") => Role::Reasoning,
        Some(b'a') => Role::Assistant,
        Some(b's') => Role::System,
        Some(b'd') => Role::Developer,
        Some(b'r') => Role::Reasoning,
        Some(b'c') => Role::Activity,
        _ => Role::User,
    };
    let (stem, suffix) = id.split_once(':').map_or((id, None), |(stem, suffix)| (stem, Some(suffix)));
    let (real, role) = match (names.get(id), names.get(stem), suffix) {
        (Some((real, role)), _, _) => (real.clone(), *role),
        (None, Some((real, _)), Some(suffix)) => (format!("{real}:{suffix}").into(), by_letter),
        (None, _, _) => (NodeId::from(id), by_letter),
    };
    let role = if call.is_some() { Role::Tool } else { role };
    let error = said.filter(|said| said.starts_with('!')).map(str::to_owned);
    let activity_type = (role == Role::Activity).then(|| "chart".to_owned());
    let content = if error.is_some() { None } else { Some(Content::Text(said.unwrap_or(id).to_owned())) };
    let message = Message { content, ..Message::empty(role) };
    let message = Message { tool_call_id: call.map(Into::into), error, activity_type, tool_calls, ..message };
    if id == "_" { message } else { message.with_id(real) }
}

/// A refusal in short.
pub fn refused(refusal: &Refusal) -> String {
    let details: Vec<String> = refusal.details.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("refused {} {}", refusal.code, details.join(" "))
}

/// A record in short.
#[expect(clippy::too_many_lines, reason = "one arm a kind of record")]
pub fn told(body: &Body) -> String {
    match body {
        Body::SessionCreated(_) => "session.created".to_owned(),
        Body::MessageNew(new) => {
            let parent = new.parent.as_ref().map_or("-", NodeId::as_str);
            let flags = [
                (new.is_event, " event"),
                (new.partial, " partial"),
                (new.aside, " aside"),
                (new.hidden, " hidden"),
                (new.sealed, " sealed"),
            ];
            let flags: String = flags.iter().filter(|(set, _)| *set).map(|(_, text)| *text).collect();
            let known_as = if new.known_as.is_empty() { String::new() } else { format!(" known as {}", join(&new.known_as)) };
            let edit_of = new.edit_of.as_ref().map_or(String::new(), |id| format!(" edit of {id}"));
            format!("message.new {} under {parent}{flags}{edit_of}{known_as}", new.id)
        }
        Body::SessionForked(forked) => {
            format!("session.forked at {}", forked.from.node_id.as_ref().map_or("-", NodeId::as_str))
        }
        Body::SessionUpdated(updated) => {
            let title = updated.title.as_ref().map_or(String::new(), |title| format!(" title {title:?}"));
            let archived = updated.archived.map_or(String::new(), |archived| format!(" archived {archived}"));
            format!("session.updated{title}{archived}")
        }
        Body::TurnQueued(queued) => {
            let ids: Vec<NodeId> = queued.messages.iter().filter_map(|message| message.id.clone()).collect();
            let into = queued.into.as_ref().map_or(String::new(), |into| format!(" into {into}"));
            format!("turn.queued {}{into} [{}]", queued.turn_id, join(&ids))
        }
        Body::TurnJoined(joined) => format!("turn.joined{} as {}", named(&joined.turn_id), joined.name),
        Body::TurnWaiting(waiting) => {
            let calls: Vec<&str> = waiting.calls.iter().map(headwater::ids::ToolCallId::as_str).collect();
            format!("turn.waiting{} [{}]", named(&waiting.turn_id), calls.join(" "))
        }
        Body::HeadMoved(moved) => {
            let label = moved.label.as_ref().map_or(String::new(), |label| format!(" as {label:?}"));
            format!("head.moved {}{label}", moved.to.as_ref().map_or("-", NodeId::as_str))
        }
        Body::TurnStarted(started) => {
            let agent = if started.agent_id.as_str() == "bot" { String::new() } else { format!(" of {}", started.agent_id) };
            format!("turn.started{}{agent}", named(&started.turn_id))
        }
        Body::TurnCompleted(completed) => format!("turn.completed{}", named(&completed.turn_id)),
        Body::TurnFailed(failed) => format!("turn.failed{} {}", named(&failed.turn_id), failed.code),
        Body::TurnCancelled(cancelled) => {
            let reason = cancelled.reason.map_or(String::new(), |reason| format!(" {reason:?}"));
            let lost = if cancelled.messages.is_empty() { String::new() } else { format!(" [{}]", join(&cancelled.messages)) };
            format!("turn.cancelled{}{reason}{lost}", named(&cancelled.turn_id))
        }
        Body::TurnRecovered(_) => "turn.recovered".to_owned(),
        Body::CallStarted(started) => {
            let summary = match &started.reads {
                Reads::Path => String::new(),
                Reads::Messages(messages) => format!(" reads {} messages", messages.len()),
                Reads::Summary(Summary { to, halved, .. }) => format!(" summary to {to}, halved {halved}"),
            };
            let arrivals = if started.arrivals > 0 { format!(" with {}", started.arrivals) } else { String::new() };
            format!("llm.call.started{}{summary}{arrivals}", hidden(started.hidden))
        }
        Body::CallCompleted(completed) => format!("llm.call.completed{}", hidden(completed.hidden)),
        Body::CallFailed(failed) => format!("llm.call.failed{} {}", hidden(failed.hidden), failed.error.kind.code()),
        Body::ContextLimited(limited) => {
            let strategy = limited.strategy.as_ref().map_or(String::new(), |strategy| format!(" {} {}", strategy.name, strategy.index));
            format!("context.limited {:?}{strategy} at {}", limited.reason, limited.tokens)
        }
        Body::ContextReplaced(replaced) => {
            let no_gain = if replaced.no_gain { " no gain" } else { "" };
            let background = if replaced.background { " background" } else { "" };
            format!("context.replaced {} {} at {}{no_gain}{background}", replaced.epoch, replaced.node_id, replaced.tokens)
        }
        Body::ContextKept(kept) => format!("context.kept {:?}", kept.reason),
        Body::JobStarted(started) => {
            let Summary { to, halved, .. } = &started.summary;
            let lost = if started.lost > 0 { format!(", lost {}", started.lost) } else { String::new() };
            format!("job.started {} summary to {to}, halved {halved}{lost}", started.attempt)
        }
        Body::JobFinished(finished) => format!("job.finished {}", finished.attempt),
        Body::JobFailed(failed) => format!("job.failed {} {}", failed.attempt, failed.error.kind.code()),
        Body::JobDropped(dropped) => format!("job.dropped {:?}", dropped.reason),
        Body::ArrivalQueued(queued) => {
            let ids: Vec<NodeId> = queued.messages.iter().filter_map(|message| message.id.clone()).collect();
            let joins = queued.joins.as_ref().map_or(" event".to_owned(), |joins| format!(" joins{}", named(joins)));
            format!("arrival.queued{}{joins} [{}]", named(&queued.turn_id), join(&ids))
        }
        Body::ArrivalConsumed(consumed) => {
            let ids: Vec<&str> = consumed.turn_ids.iter().map(TurnId::as_str).collect();
            let into = consumed.into.as_ref().map_or(String::new(), |into| format!(" into {into}"));
            format!("arrival.consumed [{}]{into}", ids.join(" "))
        }
        Body::DecisionAsked(asked) if asked.attempt == 1 => format!("decision.asked {}", asked.trigger.as_str()),
        Body::DecisionAsked(_) => "decision.asked again".to_owned(),
        Body::DecisionAnswered(answered) => format!("decision.answered [{}]", answered.actions.join(" ")),
        Body::DecisionFailed(failed) => format!("decision.failed {}", failed.code),
        Body::ToolCallsTaken(taken) => {
            let calls: Vec<&str> = taken.calls.iter().map(|call| call.tool_call_id.as_str()).collect();
            format!("tool.calls.taken [{}]", calls.join(" "))
        }
        Body::ToolCallStarted(started) if started.attempt == 1 => format!("tool.call.started {}", started.tool_call_id),
        Body::ToolCallStarted(started) => format!("tool.call.started {} again", started.tool_call_id),
        Body::ToolCallCompleted(completed) => format!("tool.call.completed {}", completed.tool_call_id),
        Body::ToolCallFailed(failed) => format!("tool.call.failed {} {}", failed.tool_call_id, failed.code),
        Body::StateUpdated(updated) => {
            let state = updated.state.as_ref().map_or("none", |state| state.get());
            let patch = updated.patch.as_ref().map_or(String::new(), |patch| format!(" by {}", patch.get()));
            format!("state.updated {state}{patch}")
        }
        Body::AgentUpdated(updated) => format!("agent.updated {}", serde_json::to_string(&updated.agent).unwrap()),
        Body::Custom(custom) => format!("custom {} {}", custom.name, custom.value.get()),
        Body::SessionInterrupted(interrupted) => {
            let open: Vec<&str> = interrupted.interrupts.iter().map(|open| open.id.as_str()).collect();
            format!("session.interrupted{} [{}]", named(&interrupted.turn_id), open.join(" "))
        }
        Body::InterruptResumed(resumed) => {
            let answers: Vec<String> =
                resumed.interrupts.iter().map(|answer| format!("{} {}", answer.interrupt_id, answer.status.as_str())).collect();
            format!("session.interrupt_resumed{} [{}]", named(&resumed.turn_id), answers.join(" · "))
        }
        Body::TurnSuspended(suspended) => format!("turn.suspended{}", named(&suspended.turn_id)),
        Body::CallVoided(_) => "call.voided".to_owned(),
        Body::Unknown(unknown) => format!("unknown {}", unknown.kind),
    }
}

fn hidden(hidden: bool) -> &'static str {
    if hidden { " hidden" } else { "" }
}

/// A turn's id, when a client gave it.
fn named(id: &TurnId) -> String {
    if id.as_str().starts_with(SERVER_PREFIX) { String::new() } else { format!(" {id}") }
}

fn join(ids: &[NodeId]) -> String {
    ids.iter().map(NodeId::as_str).collect::<Vec<_>>().join(" ")
}

/// A session's page, without its messages.
pub fn page(session: &Session) -> String {
    let page = engine::page(session, &SessionId::from("s")).expect("the session is there");
    let mut out = format!("{:?}, agent {}", page.status, page.agent_id);
    if let Some(running) = page.running_turn {
        let _ = write!(out, ", turn {}", running.turn_id);
    }
    if let Some(title) = page.title {
        let _ = write!(out, ", title {title:?}");
    }
    if page.archived {
        out.push_str(", archived");
    }
    if let Some(from) = page.forked_from {
        let _ = write!(out, ", forked from {}", from.node_id.as_ref().map_or("-", NodeId::as_str));
    }
    for queued in page.queue {
        let ids: Vec<NodeId> = queued.messages.iter().filter_map(|message| message.id.clone()).collect();
        let _ = write!(out, "\n{}. turn {} of {} [{}]", queued.position, queued.turn_id, queued.agent_id, join(&ids));
    }
    for arriving in page.arrivals {
        let ids: Vec<NodeId> = arriving.messages.iter().filter_map(|message| message.id.clone()).collect();
        let joins = arriving.joins.map_or("an event".to_owned(), |joins| format!("joins {joins}"));
        let _ = write!(out, "\narrival {} {joins} [{}]", arriving.turn_id, join(&ids));
    }
    for call in page.open_calls {
        let _ = write!(out, "\ncall {} of {}", call.id, call.name);
    }
    for open in page.interrupts {
        let _ = write!(out, "\ninterrupt {} {}", open.id, open.reason);
    }
    for suspended in page.suspended {
        let open: Vec<&str> = suspended.interrupts.iter().map(|open| open.id.as_str()).collect();
        let at = suspended.node_id.map_or("-".to_owned(), |id| id.to_string());
        let _ = write!(out, "\nsuspended {} at {at} [{}]", suspended.turn_id, open.join(" "));
    }
    for checkpoint in page.checkpoints {
        let _ = write!(out, "\n{:?} is {}", checkpoint.label, checkpoint.node_id);
    }
    out
}

/// Every node with its parent, as a program of the server's reads the tree.
pub fn raw(talk: &Talk) -> String {
    let tree = &talk.session.tree;
    let mut out = String::new();
    for ix in 0..u32::try_from(tree.len()).unwrap() {
        let node = tree.node(ix);
        let parent = tree.parent(ix).map_or("-".to_owned(), |parent| tree.id(parent).to_string());
        let kind = match node.kind {
            NodeKind::Message => "",
            NodeKind::Epoch => " epoch",
            NodeKind::Custom => " custom",
        };
        let mut reads: Vec<NodeId> = tree.reader_up(Some(ix)).map(|ix| tree.shown_id(ix)).collect();
        reads.reverse();
        let head = if talk.session.head == Some(ix) { "  <- head" } else { "" };
        let _ = writeln!(out, "{}{kind} under {parent} reads [{}]{head}", tree.id(ix), join(&reads));
    }
    out
}

/// Splits at spaces outside of quotes; `{…}` to the end of the line is one word.
pub fn words(step: &str) -> Vec<String> {
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

/// The state at the head, and what is overridden there.
pub fn state(session: &Session) -> String {
    let state = session.state().expect("it is in memory").map_or("none", headwater::protocol::Json::get);
    let overridden = session.all_overrides().map_or(String::new(), |all| format!(", overridden {}", serde_json::to_string(all).unwrap()));
    format!("state {state}{overridden}")
}
