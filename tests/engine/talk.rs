//! A driver for tests: a session with its log, a counter for a clock, short names for the ids that the engine makes. After each
//! step the invariants are checked.

use std::sync::Arc;

use headwater::engine::context::{self, Agent, Agents, ContextOptions};
use headwater::engine::record::{Body, Record};
use headwater::engine::{self, Context, Effect, Finished, InLog, Ix, MessageNew, Policy, Session, Submit};
use headwater::ids::{AgentId, Millis, NodeId, SessionId, Stamp, TurnId};
use headwater::protocol::{
    Accepted, CallError, CallErrorKind, Client, ClientAction, ClientState, Finish, HeadAnswer, HeadMove, Input, InputBody, Message,
    NodeKind, OnBusy, Refusal, Role, SessionUpdate, Tool, ToolCall, TreeNode, TreeQuery, TreeView, Usage, ViewOptions,
};

use crate::carried::EXECUTIONS_MAX;
use crate::snapshots::{self, Kept};

/// The kinds of submit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    View,
    Message,
    Append,
    Result,
    Event,
    Action,
}

/// A submit in the making.
#[derive(Clone, Debug)]
pub struct Asked {
    pub kind: Kind,
    pub agent: AgentId,
    pub messages: Vec<Message>,
    pub options: ViewOptions,
    pub turn_id: Option<TurnId>,
    pub run: Option<bool>,
    pub on_busy: OnBusy,
    pub client: Client,
    /// Of an event: whether readers see it.
    pub show: bool,
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            kind: Kind::View,
            agent: "bot".into(),
            messages: Vec::new(),
            options: ViewOptions::default(),
            turn_id: None,
            run: None,
            on_busy: OnBusy::Refuse,
            client: Client::default(),
            show: false,
        }
    }
}

impl Asked {
    pub fn view(messages: Vec<Message>) -> Self {
        Self { messages, ..Self::default() }
    }

    /// The same with these tools of the client's.
    #[must_use]
    pub fn with_tools(self, names: &[&str]) -> Self {
        let tool = |name: &&str| Tool { name: (*name).to_owned(), description: String::new(), parameters: None, metadata: None };
        Self { client: Client { tools: Some(names.iter().map(tool).collect()), ..self.client }, ..self }
    }

    pub fn input(self) -> Input {
        let Self { kind, agent, messages, options, turn_id, run, on_busy, client, show } = self;
        let one = |messages: Vec<Message>| messages.into_iter().next().expect("one message");
        let body = match kind {
            Kind::View => InputBody::Messages { messages, options },
            Kind::Message => InputBody::Message { message: one(messages) },
            Kind::Append => InputBody::Append { messages },
            Kind::Result => InputBody::Result { message: one(messages) },
            Kind::Event => InputBody::Event { message: one(messages), show },
            Kind::Action => {
                let name = one(messages).joined_text();
                InputBody::Action(ClientAction { name, args: serde_json::from_str(r#"{"of":1}"#).ok() })
            }
        };
        Input { agent_id: agent, turn_id, run, client, on_busy, body }
    }
}

/// One conversation.
#[derive(Default)]
pub struct Talk {
    pub session: Session,
    pub log: Vec<Vec<u8>>,
    pub now: Millis,
    stamps: u128,
    /// What readers have seen of the running reply.
    pub written: Option<Message>,
    /// How many tokens the model of the next reply says that it read.
    pub reports: Option<u64>,
    /// What is configured of the agents.
    pub agents: Arc<Agents>,
    /// Every node as it was first recorded.
    seen: Vec<(NodeId, Option<NodeId>)>,
    /// What was last saved of the fold.
    pub kept: Kept,
}

pub const ATTEMPTS: u32 = 3;
pub const CALLS_MAX: u32 = 4;
pub const QUEUE_TURNS_MAX: usize = 4;
pub const QUEUE_MESSAGES_MAX: usize = 8;
pub const ARRIVALS_BYTES_MAX: usize = 20_000;
pub const STATE_BYTES_MAX: usize = 300;

impl Talk {
    pub fn context(&mut self) -> Context {
        self.stamps += 1;
        self.now += 1000;
        Context {
            stamp: Stamp { now: self.now, nonce: self.stamps << 16 },
            written: self.written.take(),
            policy: Policy {
                attempts: ATTEMPTS,
                calls_per_turn_max: CALLS_MAX,
                queue_turns_max: QUEUE_TURNS_MAX,
                queue_messages_max: QUEUE_MESSAGES_MAX,
                arrivals_bytes_max: ARRIVALS_BYTES_MAX,
                executions_max: EXECUTIONS_MAX,
                state_bytes_max: STATE_BYTES_MAX,
            },
            agents: context::overridden(&self.agents, self.session.all_overrides()),
        }
    }

    /// Folds records into the session and checks what must hold.
    pub fn take(&mut self, records: &[Record]) {
        for record in records {
            self.session.evolve(record.clone()).unwrap_or_else(|corrupt| panic!("{corrupt}: {record:?}"));
            engine::check_step(&self.session).unwrap();
            let stored = record.encode();
            assert_eq!(&Record::decode(&stored).unwrap(), record, "a record is read as it was written");
            self.log.push(stored);
        }
        engine::check(&self.session).unwrap();
        self.recall_state();
        self.nothing_lost();
    }

    /// The state at the head, and what is overridden there, are in memory while a session is open.
    pub fn recall_state(&mut self) {
        for InLog(seq) in self.session.state_in_log().into_iter().flatten() {
            let stored = &self.log[usize::try_from(seq - 1).unwrap()];
            assert!(self.session.recall_state(Record::decode(stored).unwrap()), "record {seq} says it");
        }
    }

    fn nothing_lost(&mut self) {
        let tree = &self.session.tree;
        let now = |ix: Ix| (tree.id(ix), tree.parent(ix).map(|parent| tree.id(parent)));
        let nodes: Vec<_> = (0..u32::try_from(tree.len()).unwrap()).map(now).collect();
        assert_eq!(nodes.get(..self.seen.len()), Some(&self.seen[..]), "no node is lost or changed");
        self.seen = nodes;
    }

    /// Folds the log from scratch: the same session. From snapshots too.
    pub fn replays(&self) {
        snapshots::hold(&self.log);
        let mut again = Session::default();
        for stored in &self.log {
            again.evolve(Record::decode(stored).unwrap()).unwrap();
        }
        assert_eq!(again.seq, self.session.seq);
        assert_eq!(again.head, self.session.head);
        assert_eq!(engine::wanted(&again), engine::wanted(&self.session));
        assert!(again.turns.iter().eq(self.session.turns.iter()), "the same turns");
        assert_eq!(again.turn.as_ref().map(|turn| format!("{turn:?}")), self.session.turn.as_ref().map(|turn| format!("{turn:?}")));
        assert_eq!(again.tree.open_calls(), self.session.tree.open_calls());
        assert_eq!(again.arrivals, self.session.arrivals);
        assert_eq!(again.interrupts, self.session.interrupts);
        assert_eq!(tree_of(&again), tree_of(&self.session));
        let places = (0..u32::try_from(again.tree.len()).unwrap()).map(Some).chain([None]);
        for at in places {
            assert_eq!(again.states.at(at), self.session.states.at(at), "the same state at {at:?}");
            assert_eq!(again.overrides.at(at), self.session.overrides.at(at));
        }
    }

    fn decide(&mut self, input: Input) -> Result<(Vec<Record>, Accepted), Refusal> {
        let context = self.context();
        engine::submit(&self.session, &SessionId::from("s"), &Submit::from(input), &context)
    }

    /// What a submit would write; nothing is written, no stamp is used up.
    pub fn would_write(&mut self, asked: &Asked) -> Vec<Body> {
        let (stamps, now) = (self.stamps, self.now);
        let decided = self.decide(asked.clone().input()).unwrap();
        (self.stamps, self.now) = (stamps, now);
        decided.0.into_iter().map(|record| record.body).collect()
    }

    pub fn submit(&mut self, asked: &Asked) -> Result<(Vec<Record>, Accepted), Refusal> {
        self.submit_input(asked.clone().input())
    }

    pub fn submit_input(&mut self, input: Input) -> Result<(Vec<Record>, Accepted), Refusal> {
        let (records, accepted) = self.decide(input)?;
        self.take(&records);
        assert_eq!(accepted.head_id, self.seen_head(), "the answer names the head");
        Ok((records, accepted))
    }

    /// The call that the session wants made now.
    pub fn call(&self) -> Option<Effect> {
        let is_job = |effect: &Effect| self.job_wants().contains(effect);
        engine::wanted(&self.session).into_iter().find(|effect| !is_job(effect))
    }

    /// The id that the running call's reply has.
    pub fn reply_id(&self) -> Option<NodeId> {
        Some(self.session.turn.as_ref()?.call.as_ref()?.reply_id.clone())
    }

    /// The running attempt ends like this.
    pub fn ended(&mut self, outcome: Result<Finished, CallError>) -> Vec<Record> {
        let Some(Effect::Call { id, attempt }) = self.call() else { panic!("no call is wanted") };
        let context = self.context();
        let records = engine::call_finished(&self.session, &id, attempt, outcome, &context);
        self.take(&records);
        records
    }

    /// The running call ends with a reply; its id.
    pub fn finish(&mut self, text: &str, calls: Vec<ToolCall>) -> (NodeId, Vec<Record>) {
        let id = self.reply_id().expect("a call runs");
        let finish = if calls.is_empty() { Finish::Stop } else { Finish::ToolCalls };
        let message = Message { tool_calls: calls, ..Message::text(Role::Assistant, text) };
        let usage = self.reports.take().map(|tokens| Usage { input_tokens: Some(tokens), ..Usage::default() });
        (id, self.ended(Ok(Finished::of_model(message, finish, usage))))
    }

    pub fn fail(&mut self, kind: CallErrorKind, retry_after_ms: Option<u64>) -> Vec<Record> {
        self.ended(Err(CallError { retry_after_ms, ..CallError::new(kind, "the model failed") }))
    }

    /// Configures an agent.
    pub fn configure(&mut self, agent: &str, system: Option<&str>, options: &ContextOptions) {
        Arc::make_mut(&mut self.agents).insert(agent.into(), Agent::new(system, options));
    }

    /// What becomes of the state that clients send along to an agent.
    pub fn takes(&mut self, agent: &str, client_state: ClientState) {
        let agents = Arc::make_mut(&mut self.agents);
        let configured = agents.get(&AgentId::from(agent)).cloned().unwrap_or_default();
        agents.insert(agent.into(), configured.with_client_state(client_state, false));
    }

    /// Does what a held call waits for.
    pub fn make_room(&mut self) -> Vec<Record> {
        let context = self.context();
        let records = context::make_room(&self.session, &context);
        self.take(&records);
        records
    }

    /// Waits until the next attempt is due.
    pub fn wake(&mut self) -> Vec<Record> {
        let Some(Effect::Wake { at, id, attempt }) = self.call() else { return Vec::new() };
        let early = Context { stamp: Stamp { now: at - 1, nonce: 0 }, ..self.context() };
        assert!(engine::wake(&self.session, &id, attempt, &early).is_empty(), "it isn't time");
        self.now = self.now.max(at);
        let context = self.context();
        let records = engine::wake(&self.session, &id, attempt, &context);
        self.take(&records);
        records
    }

    pub fn cancel(&mut self, turn_id: Option<&TurnId>) -> Vec<Record> {
        let context = self.context();
        let records = engine::cancel(&self.session, turn_id, &context);
        self.take(&records);
        records
    }

    pub fn move_head(&mut self, asked: &HeadMove) -> Result<(Vec<Record>, HeadAnswer), Refusal> {
        let context = self.context();
        let (records, answer) = engine::move_head(&self.session, &SessionId::from("s"), asked, &context)?;
        self.take(&records);
        assert_eq!(answer.head_id, self.seen_head(), "the answer names the head");
        Ok((records, answer))
    }

    pub fn update(&mut self, asked: &SessionUpdate) -> Result<Vec<Record>, Refusal> {
        let context = self.context();
        let records = engine::update(&self.session, asked, &context)?;
        self.take(&records);
        Ok(records)
    }

    /// A new conversation of the path to `at`.
    pub fn fork(&mut self, at: Option<&NodeId>) -> Result<(Self, Vec<Record>), Refusal> {
        let context = self.context();
        let nodes = engine::fork_nodes(&self.session, at)?;
        assert!(self.session.missing(nodes.iter().copied()).is_empty(), "what is carried is in memory");
        let body = |seq: u64| (seq, Record::decode(&self.log[usize::try_from(seq - 1).unwrap()]).unwrap().body);
        let versions = engine::fork_versions(&self.session, &nodes).into_iter().map(body).collect();
        let (records, head) = engine::fork(&self.session, &SessionId::from("s"), at, &nodes, &versions, &context)?;
        let mut fork = Self { now: self.now, stamps: self.stamps + 1000, agents: self.agents.clone(), ..Self::default() };
        fork.take(&records);
        assert_eq!(fork.seen_head(), head, "the answer names the head");
        Ok((fork, records))
    }

    pub fn recover(&mut self) -> Vec<Record> {
        let context = self.context();
        let records = engine::recover(&self.session, &context);
        self.take(&records);
        records
    }

    /// Records written by hand.
    pub fn write(&mut self, bodies: Vec<Body>) -> Vec<Record> {
        self.now += 1000;
        let records: Vec<Record> = bodies.into_iter().map(|body| Record { at: self.now, body }).collect();
        self.take(&records);
        records
    }

    /// A custom node at the head.
    pub fn custom(&mut self, id: &str) -> Vec<Record> {
        let message = Message { activity_type: Some("chart".to_owned()), ..Message::text(Role::Activity, id) };
        let new = MessageNew { kind: NodeKind::Custom, ..MessageNew::plain(id.into(), self.head_id(), message) };
        self.write(vec![Body::MessageNew(Box::new(new))])
    }

    /// A compaction by hand: a new branch with an epoch that keeps the last `keep` messages of the path (more, so that no result
    /// is cut from its call). `summary`: none is a reset. With `pinned`, the path's first message and a note for the model only
    /// come before what is kept. Nothing happens at the empty path.
    pub fn compact(&mut self, id: &str, keep: usize, summary: Option<&str>, pinned: bool) -> Vec<Record> {
        let Some(base) = self.session.head else { return Vec::new() };
        let tree = &self.session.tree;
        let path = engine::path(&self.session);
        let mut cut = path.len();
        let mut kept = 0;
        for at in (0..path.len()).rev() {
            let node = tree.node(path[at]);
            let tool_follows = path.get(cut).is_some_and(|&ix| tree.node(ix).role == Role::Tool);
            if node.kind == NodeKind::Custom {
                continue;
            }
            let above = tree.vertex(tree.parent(path[at]));
            let of_the_model = node.kind == NodeKind::Epoch || node.vertex == above;
            if of_the_model || (kept >= keep && !tool_follows) {
                break;
            }
            cut = at;
            kept += 1;
        }
        let name = |ix: Ix| tree.id(ix);
        let before = cut.checked_sub(1).map(|at| name(path[at]));
        let to = if cut == path.len() { Some(name(base)) } else { before };
        let epoch = summary.map_or(Message::empty(Role::User), |text| Message::text(Role::User, text));
        let mut made = vec![MessageNew { kind: NodeKind::Epoch, reads_as: Some(to.clone()), ..MessageNew::plain(id.into(), None, epoch) }];
        let mut before = path[..cut].iter().copied();
        let first = before.find(|&ix| tree.node(ix).kind == NodeKind::Message && tree.node(ix).role == Role::User);
        if let Some(first) = first.filter(|_| pinned) {
            let original = name(tree.node(first).original);
            made.push(MessageNew { reads_as: Some(to.clone()), ..MessageNew::copy(format!("{id}.pin").into(), None, original, None) });
            let note = Message::text(Role::User, "a note for the model");
            made.push(MessageNew { hidden: true, reads_as: Some(to), ..MessageNew::plain(format!("{id}.note").into(), None, note) });
        }
        for (n, &ix) in path.iter().enumerate().skip(cut) {
            let node = tree.node(ix);
            if node.kind == NodeKind::Custom {
                continue;
            }
            let customs = path[n + 1..].iter().copied().take_while(|&ix| tree.node(ix).kind == NodeKind::Custom);
            let finished = node.role == Role::Assistant && !node.partial;
            let reads_as = name(if finished { customs.last().unwrap_or(ix) } else { ix });
            let copy = MessageNew::copy(format!("{id}.{n}").into(), None, name(node.original), None);
            made.push(MessageNew { reads_as: Some(Some(reads_as)), ..copy });
        }
        if let Some(last) = made.last_mut() {
            last.reads_as = Some(Some(name(base)));
        }
        for n in 1..made.len() {
            made[n].parent = Some(made[n - 1].id.clone());
        }
        self.write(made.into_iter().map(|new| Body::MessageNew(Box::new(new))).collect())
    }

    pub fn head_id(&self) -> Option<NodeId> {
        self.session.head.map(|head| self.session.tree.id(head))
    }

    /// The head, by the node that people know; any request may name it.
    pub fn seen_head(&self) -> Option<NodeId> {
        let tree = &self.session.tree;
        let ix = tree.find(&tree.seen_at(self.session.head)?).expect("a node");
        let node = tree.node(ix);
        assert!(node.shown && node.kind != NodeKind::Epoch, "people may name {}", tree.id(ix));
        Some(tree.id(ix))
    }

    /// The ids that a reader sees at the head.
    pub fn reader_view(&self) -> Vec<NodeId> {
        engine::reader_nodes(&self.session).into_iter().map(|ix| self.session.tree.shown_id(ix).clone()).collect()
    }

    /// The conversation as a reader gets it.
    pub fn snapshot(&self) -> Vec<Message> {
        assert!(self.session.missing(engine::reader_nodes(&self.session)).is_empty(), "the active path is in memory");
        engine::snapshot_messages(&self.session).iter().map(|message| Message::clone(message)).collect()
    }
}

/// Every node with what a fold must give again.
pub fn tree_of(session: &Session) -> Vec<impl PartialEq + std::fmt::Debug> {
    let tree = &session.tree;
    let all = 0..u32::try_from(tree.len()).unwrap();
    let row = |ix: Ix| {
        let node = tree.node(ix);
        let parent = tree.parent(ix).map(|parent| tree.id(parent));
        (tree.id(ix), parent, node.kind, node.role, node.partial, node.vertex, node.original)
    };
    all.map(row).collect()
}

/// What the tree endpoint lists: the head that readers see, and the nodes.
pub fn listed(session: &Session) -> (Option<NodeId>, Vec<TreeNode>) {
    let page =
        engine::tree_page(session, &SessionId::from("s"), &TreeQuery { view: TreeView::Reader, after: None, limit: usize::MAX }).unwrap();
    (page.head_id, page.nodes)
}
