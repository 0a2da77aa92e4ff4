//! Submits: what an input comes to. A turn starts, waits for another, goes on, is refused, or isn't due.

mod action;
mod append;
mod follow;
mod interrupted;
mod results;
mod resume;
mod steer;
mod view;

use super::Context;
use super::queue::Queued;
use super::reading::Ix;
use super::record::{Body, Record, SessionCreated, TurnStarted};
use super::session::Session;
use super::state::offered;
use super::tools::tools_of;
use super::tree::Tree;
use super::turn::Turn;
use super::view::View;
use super::write::Writer;
use crate::ids::{AgentId, NodeId, SessionId, TurnId};
use crate::protocol::{
    Accepted, Client, ClientAction, Code, Digest, Input, InputBody, Json, Message, NodeKind, OnBusy, Refusal, Resume, Role, ViewOptions,
};

/// A submit, made ready to be decided.
#[derive(Clone, Debug)]
pub struct Submit {
    agent_id: AgentId,
    turn_id: Option<TurnId>,
    run: Option<bool>,
    client: Client,
    on_busy: OnBusy,
    body: Ready,
    digest: Digest,
}

impl Submit {
    /// The state that its client holds, as it says.
    pub fn client_state(&self) -> Option<&Json> {
        self.client.state.as_ref()
    }

    /// Its input's id, when it has one.
    pub fn turn_id(&self) -> Option<&TurnId> {
        self.turn_id.as_ref()
    }
}

/// What a submit brings, made ready.
#[derive(Clone, Debug)]
enum Ready {
    View(View, ViewOptions),
    Message(Message),
    Append(Vec<Message>),
    Result(Message),
    Event { message: Message, show: bool },
    Action(ClientAction),
    Resume { answers: Vec<Resume>, view: Option<(View, ViewOptions)> },
}

impl From<Input> for Submit {
    fn from(input: Input) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(input.agent_id.as_str().as_bytes()).update(&[
            b'\0',
            u8::from(input.run == Some(true)),
            u8::from(input.run == Some(false)),
        ]);
        let (body, held) = match input.body {
            InputBody::Messages { messages, options } => {
                let view = View::new(messages);
                let digest = view.digest();
                (Ready::View(view, options), digest)
            }
            InputBody::Message { message } => {
                let digest = digest_of("message", std::slice::from_ref(&message));
                (Ready::Message(message), digest)
            }
            InputBody::Append { messages } => {
                let digest = digest_of("append", &messages);
                (Ready::Append(messages), digest)
            }
            InputBody::Event { message, show } => {
                let kind = if show { "event, shown" } else { "event" };
                let name = message.name.clone().unwrap_or_default();
                let digest = digest_of(&format!("{kind} {name}"), std::slice::from_ref(&message));
                (Ready::Event { message, show }, digest)
            }
            InputBody::Action(action) => {
                let args = action.args.as_ref().map_or("", |args| args.get());
                let digest = digest_of(&format!("action {} {args}", action.name), &[]);
                (Ready::Action(action), digest)
            }
            InputBody::Resume { interrupts: answers, view } => {
                let view = view.map(|(messages, options)| (View::new(messages), options));
                let digest = digest_of_answers(&answers, view.as_ref().map(|(view, _)| view));
                (Ready::Resume { answers, view }, digest)
            }
            InputBody::Result { message } => {
                let digest = digest_of("result", std::slice::from_ref(&message));
                (Ready::Result(message), digest)
            }
        };
        hasher.update(&held.0);
        let digest = Digest::of(&hasher);
        let Input { agent_id, turn_id, run, client, on_busy, body: _ } =
            Input { body: InputBody::Append { messages: Vec::new() }, ..input };
        Self { agent_id, turn_id, run, client, on_busy, body, digest }
    }
}

fn digest_of_answers(answers: &[Resume], view: Option<&View>) -> Digest {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"resume");
    for answer in answers {
        hasher.update(answer.interrupt_id.as_str().as_bytes()).update(b"\0").update(&answer.digest().0);
    }
    if let Some(view) = view {
        hasher.update(&view.digest().0);
    }
    Digest::of(&hasher)
}

fn digest_of(kind: &str, messages: &[Message]) -> Digest {
    let mut hasher = blake3::Hasher::new();
    hasher.update(kind.as_bytes());
    for message in messages {
        let id = message.id.as_ref().map_or("", NodeId::as_str);
        let call = message.tool_call_id.as_ref().map_or("", |id| id.as_str());
        let texts = [id, call, message.error.as_deref().unwrap_or_default()];
        hasher.update(&[message.role as u8]);
        for text in texts {
            hasher.update(text.as_bytes()).update(b"\0");
        }
        hasher.update(&message.digest().0);
    }
    Digest::of(&hasher)
}

/// A decided submit: what is to be recorded, and the answer.
type Decided = Result<(Vec<Record>, Accepted), Refusal>;

/// Decides a submit. No records: nothing changes.
pub fn submit(session: &Session, id: &SessionId, submit: &Submit, context: &Context) -> Decided {
    refuse_newer(session)?;
    if let Some(answer) = known_turn(session, id, submit)? {
        return Ok((Vec::new(), answer));
    }
    let mut writer = Writer::new(session, context);
    let turn_id = submit.turn_id.clone().unwrap_or_else(|| writer.fresh().into());
    let client = offered(session, context.agents.get(&submit.agent_id), &submit.client, context.policy.state_bytes_max)?;
    let mut case = Case { session, id, submit, context, turn_id, client, writer };
    let accepted = match &submit.body {
        Ready::View(view, options) => case.view(view, *options),
        Ready::Message(message) => case.message(message),
        Ready::Append(messages) => case.append(messages),
        Ready::Result(message) => case.result(message),
        Ready::Event { message, show } => case.event(message, *show),
        Ready::Action(action) => case.action(action),
        Ready::Resume { answers, view } => case.resume(answers, view.as_ref().map(|(view, options)| (view, *options))),
    }?;
    let ignored_tools = tools_of(&context.agents, &submit.agent_id).ignored(&submit.client);
    Ok((case.writer.records, Accepted { ignored_tools, ..accepted }))
}

/// A session that holds what a later version wrote changes only there.
pub(super) fn refuse_newer(session: &Session) -> Result<(), Refusal> {
    let Some(kind) = &session.newer else { return Ok(()) };
    let text = format!("the session holds a record of type {kind}, which a newer version wrote; this instance can't serve it");
    Err(Refusal::new(Code::NewerVersion, text))
}

/// A turn id that was used answers with its turn.
fn known_turn(session: &Session, id: &SessionId, submit: &Submit) -> Result<Option<Accepted>, Refusal> {
    let Some(turn_id) = &submit.turn_id else { return Ok(None) };
    let Some(digest) = session.turns.get(turn_id).map(|known| known.digest) else { return Ok(None) };
    if digest != submit.digest {
        let text = format!("the turn id {turn_id} was used in this session with other content; use a new one for a new submit");
        return Err(Refusal::new(Code::TurnIdReused, text).with("turn_id", turn_id.as_str()));
    }
    let arrival = session.arrivals.get(turn_id).is_some();
    Ok(session.turns.turn_of(turn_id).map(|(turn_id, _)| Accepted { arrival, ..duplicate(session, id, &turn_id) }))
}

/// The answer that names a turn of before.
fn duplicate(session: &Session, id: &SessionId, turn_id: &TurnId) -> Accepted {
    let queued = session.queue.iter().find(|queued| queued.id == *turn_id);
    let waits = session.waits(turn_id).unwrap_or_default();
    let replied = session.turns.turn_of(turn_id).is_some_and(|(_, known)| known.replied);
    Accepted {
        reply: queued.map_or(replied, Queued::asks),
        duplicate: true,
        queued: queued.is_some(),
        position: session.queue.position(turn_id),
        waiting: waits.calls,
        interrupts: waits.interrupts,
        head_id: session.tree.seen_at(session.head),
        resync: true,
        ..Accepted::plain(id.clone(), turn_id.clone())
    }
}

fn id_of(session: &Session, ix: Option<Ix>) -> Option<NodeId> {
    ix.map(|ix| session.tree.id(ix))
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

/// Where a model can answer what readers see last at a node: there, or, when that node stands for what was left out of a shorter
/// history, on the newest branch where the message stands word for word.
fn answerable(tree: &Tree, landing: Option<Ix>) -> Option<Ix> {
    let vertex = tree.vertex(landing);
    let Some(last) = tree.reader_up(landing).find(|&ix| tree.node(ix).kind == NodeKind::Message) else { return landing };
    let said = tree.node(last).original;
    let mut at = landing;
    while let Some(end) = at {
        let twins = || tree.up(Some(end)).take_while(|&ix| tree.node(ix).vertex == vertex);
        if twins().any(|ix| tree.node(ix).kind == NodeKind::Message && tree.node(ix).original == said) {
            return at;
        }
        at = twins().find_map(|ix| tree.reads_as(ix)).flatten();
    }
    landing
}

/// A submit as it is decided.
struct Case<'a> {
    session: &'a Session,
    id: &'a SessionId,
    submit: &'a Submit,
    context: &'a Context,
    turn_id: TurnId,
    /// What its client offers, as the agent takes it.
    client: Client,
    writer: Writer<'a>,
}

impl Case<'_> {
    fn plain(&self) -> Accepted {
        Accepted { head_id: self.writer.seen(), ..Accepted::plain(self.id.clone(), self.turn_id.clone()) }
    }

    /// A new session begins with its first record.
    fn create(&mut self) {
        if self.session.agent_id.is_none() {
            self.writer.push(Body::SessionCreated(SessionCreated { agent_id: self.submit.agent_id.clone() }));
        }
    }

    fn started(&self) -> TurnStarted {
        let Submit { agent_id, digest, .. } = self.submit;
        TurnStarted { turn_id: self.turn_id.clone(), agent_id: agent_id.clone(), digest: *digest, client: self.client.clone() }
    }

    /// Whether nothing waits that becomes a turn when the one that is there ends.
    fn nobody_waits(&self) -> bool {
        self.session.queue.is_empty() && !self.session.arrivals.steers()
    }

    /// Nothing may change before the turn has ended.
    fn busy(&self, turn: &Turn) -> Refusal {
        if !turn.interrupts.is_empty() {
            return interrupted::interrupted(turn);
        }
        let (is, how) = if self.session.is_waiting() {
            ("waiting for results", "send them, stop it, or submit with queue")
        } else {
            ("running", "wait for its end, stop it first, or submit with queue")
        };
        let refusal = Refusal::new(Code::TurnAlreadyActive, format!("turn {} is {is} in this session; {how}", turn.id));
        let refusal = refusal.with("turn_id", turn.id.as_str()).with("started_at", turn.started_at);
        refusal.with("queue_depth", self.session.queue.len())
    }

    /// The answer to what was recorded before, by that turn; by none of this session when it came with a fork.
    fn known(&self, turn: Option<TurnId>) -> Accepted {
        match turn {
            Some(turn) => duplicate(self.session, self.id, &turn),
            None => Accepted { duplicate: true, reply: false, resync: true, ..self.plain() },
        }
    }
}
