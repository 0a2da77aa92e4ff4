//! Submits: a view is reconciled, and a turn starts, is refused, or isn't due.

use super::Context;
use super::reading::Ix;
use super::record::{Body, HeadMoved, Record, SessionCreated, TurnCompleted, TurnStarted};
use super::session::Session;
use super::tree::Tree;
use super::turn::Turn;
use super::view::{News, Reconciled, View, reconcile};
use super::write::Writer;
use crate::ids::{AgentId, SessionId, TurnId};
use crate::protocol::{Accepted, Client, Code, Digest, Input, InputBody, NodeKind, Refusal, Role, ViewOptions};

/// A submit, made ready to be decided.
#[derive(Clone, Debug)]
pub struct Submit {
    agent_id: AgentId,
    turn_id: Option<TurnId>,
    run: Option<bool>,
    client: Client,
    view: View,
    options: ViewOptions,
    digest: Digest,
}

impl From<Input> for Submit {
    fn from(input: Input) -> Self {
        let InputBody::Messages { messages, options } = input.body;
        let view = View::new(messages);
        let mut hasher = blake3::Hasher::new();
        hasher.update(input.agent_id.as_str().as_bytes()).update(&[
            b'\0',
            u8::from(input.run == Some(true)),
            u8::from(input.run == Some(false)),
        ]);
        hasher.update(&view.digest().0);
        let digest = Digest::of(&hasher);
        Self { agent_id: input.agent_id, turn_id: input.turn_id, run: input.run, client: input.client, view, options, digest }
    }
}

/// Decides a submit. No records: nothing changes.
pub fn submit(session: &Session, id: &SessionId, submit: &Submit, context: &Context) -> Result<(Vec<Record>, Accepted), Refusal> {
    if let Some(kind) = &session.newer {
        let text = format!("the session holds a record of type {kind}, which a newer version wrote; this instance can't serve it");
        return Err(Refusal::new(Code::NewerVersion, text));
    }
    if let Some(answer) = known_turn(session, id, submit)? {
        return Ok((Vec::new(), answer));
    }
    let mut found = reconcile(&session.tree, session.head, &submit.view, submit.options)?;
    let leaves = leaves_running(session, &found)?;
    let reply = reply_due(session, submit, &found)?;
    if !reply && found.news.is_empty() && session.tree.vertex(found.landing) == session.tree.vertex(session.head) {
        // Only custom nodes lie between; a view that asks for nothing leaves none behind.
        found.landing = session.head;
    }
    let mut writer = Writer::new(session, context);
    let turn_id = submit.turn_id.clone().unwrap_or_else(|| writer.fresh().into());
    if session.agent_id.is_none() && (reply || !found.news.is_empty()) {
        writer.push(Body::SessionCreated(SessionCreated { agent_id: submit.agent_id.clone() }));
    }
    if let Some(turn) = leaves {
        writer.cancel(turn, true);
    }
    write(&mut writer, session, submit, &found, &turn_id, reply);
    let accepted = accepted(id, turn_id, reply, found, &writer);
    Ok((writer.records, accepted))
}

/// A turn id that was used answers with its turn.
fn known_turn(session: &Session, id: &SessionId, submit: &Submit) -> Result<Option<Accepted>, Refusal> {
    let Some((turn_id, known)) = submit.turn_id.as_ref().and_then(|turn_id| session.turns.get_key_value(turn_id)) else {
        return Ok(None);
    };
    if known.digest != submit.digest {
        let text = format!("the turn id {turn_id} was used in this session with other content; use a new one for a new submit");
        return Err(Refusal::new(Code::TurnIdReused, text).with("turn_id", turn_id.as_str()));
    }
    Ok(Some(Accepted {
        duplicate: true,
        head_id: session.head.map(|head| session.tree.node(head).id.clone()),
        resync: true,
        ..Accepted::plain(id.clone(), turn_id.clone())
    }))
}

/// The running turn, when this view leaves it. With news, or on the turn's own nodes, the submit is refused instead.
fn leaves_running<'a>(session: &'a Session, found: &Reconciled) -> Result<Option<&'a Turn>, Refusal> {
    let Some(turn) = &session.turn else { return Ok(None) };
    let (readings, at) = (session.tree.readings(), session.tree.vertex(found.landing));
    let stays = readings.extends(session.tree.vertex(session.head), at) && readings.extends(at, turn.began);
    if found.news.is_empty() && !stays {
        return Ok(Some(turn));
    }
    let text = format!("turn {} is running in this session; wait for its end, or stop it first", turn.id);
    let refusal = Refusal::new(Code::TurnAlreadyActive, text);
    Err(refusal.with("turn_id", turn.id.as_str()).with("started_at", turn.started_at).with("queue_depth", 0))
}

/// Whether a reply is due: when the conversation then ends with a user message or with a complete set of results.
fn reply_due(session: &Session, submit: &Submit, found: &Reconciled) -> Result<bool, Refusal> {
    let tree = &session.tree;
    let answered = found.news.iter().filter(|news| matches!(news, News::Result(_))).count();
    if tree.open_calls().len() > answered && found.landing == session.head {
        return match submit.run {
            Some(true) => Err(Refusal::new(Code::CallsOpen, "tool calls are open; send their results before asking for a reply")),
            Some(false) | None => Ok(false),
        };
    }
    match submit.run {
        Some(true) if found.landing.is_none() && found.news.is_empty() => {
            return Err(Refusal::new(Code::BadRequest, "there is nothing to reply to; send a message"));
        }
        Some(run) => return Ok(run),
        None => {}
    }
    let role = match found.news.last() {
        Some(News::Message { index, .. }) => Some(submit.view.messages[*index].role),
        Some(News::Result(_)) => Some(Role::Tool),
        Some(News::Copy(ix)) => Some(tree.node(*ix).role),
        None => return Ok(reply_due_at(tree, found.landing)),
    };
    Ok(matches!(role, Some(Role::User | Role::Tool)))
}

/// Whether the last message that a reader sees at a node asks for a reply.
fn reply_due_at(tree: &Tree, landing: Option<Ix>) -> bool {
    let last = tree.reader_up(landing).find(|&ix| tree.node(ix).kind == NodeKind::Message);
    last.is_some_and(|ix| match tree.node(ix).role {
        Role::User => true,
        Role::Tool => tree.completes(tree.vertex(landing), tree.node(ix).original),
        Role::Assistant | Role::System | Role::Developer | Role::Reasoning | Role::Activity => false,
    })
}

fn write(writer: &mut Writer<'_>, session: &Session, submit: &Submit, found: &Reconciled, turn_id: &TurnId, reply: bool) {
    writer.parent = found.landing.map(|ix| session.tree.node(ix).id.clone());
    writer.news(&submit.view, &found.news);
    let moved = found.news.is_empty() && found.landing != session.head;
    if moved {
        let named = (!reply).then(|| turn_id.clone());
        let digest = named.is_some().then_some(submit.digest);
        writer.push(Body::HeadMoved(HeadMoved { to: writer.parent.clone(), turn_id: named, digest }));
    }
    let started =
        TurnStarted { turn_id: turn_id.clone(), agent_id: submit.agent_id.clone(), digest: submit.digest, client: submit.client.clone() };
    if reply {
        writer.start(started);
    } else if !found.news.is_empty() {
        writer.push(Body::TurnStarted(Box::new(started)));
        writer.push(Body::TurnCompleted(TurnCompleted { turn_id: turn_id.clone() }));
    }
}

fn accepted(id: &SessionId, turn_id: TurnId, reply: bool, found: Reconciled, writer: &Writer<'_>) -> Accepted {
    let edited = found.news.iter().any(|news| matches!(news, News::Message { edit_of: Some(_), .. }));
    Accepted {
        reply,
        head_id: writer.parent.clone(),
        recorded: writer.nodes.clone(),
        new_from: Some(found.new_from),
        implied: found.implied,
        implied_count: found.implied_count,
        ignored: found.ignored,
        ignored_edits: found.ignored_edits,
        root_branch: found.root_branch,
        resync: found.appended || edited,
        ..Accepted::plain(id.clone(), turn_id)
    }
}
