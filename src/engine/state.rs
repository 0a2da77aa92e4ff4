//! An agent's state, and what its worker overrides of its configuration: JSON that nobody here looks into, with a version a branch. Who
//! writes one says what it is then; equal ones are dropped. May not know who wants it.

use std::collections::BTreeMap;

use super::branched::{InLog, Which, Written};
use super::json::{self, Unapplied};
use super::reading::Ix;
use super::record::{AgentUpdated, Body, Record, StateUpdated};
use super::session::Session;
use super::write::Writer;
use crate::ids::AgentId;
use crate::protocol::{AgentChanges, AgentOverrides, Client, ClientState, Code, Digest, Json, Refusal, Size};

/// What is overridden, by agent.
pub type Overrides = BTreeMap<AgentId, AgentOverrides>;

/// Whether two values are equal, whatever the order of their keys.
pub fn is_same(one: &Json, other: &Json) -> bool {
    one == other || json::value(one) == json::value(other)
}

/// Whether a state says nothing: what clients send that have none.
fn says_nothing(state: &Json) -> bool {
    match state.get() {
        "{}" | "null" => true,
        text => {
            let inside = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
            inside.is_some_and(|inside| inside.trim_ascii().is_empty())
        }
    }
}

impl Session {
    /// The agent's state at the head; nothing: there is none.
    pub fn state(&self) -> Result<Option<&Json>, InLog> {
        self.states.current(self.head)
    }

    /// What is overridden of an agent at the head, as far as that is in memory: it is while the session is open.
    pub fn overrides(&self, agent: &AgentId) -> Option<&AgentOverrides> {
        self.overrides.current(self.head).ok().flatten()?.get(agent)
    }

    /// What is overridden of agents at the head.
    pub fn all_overrides(&self) -> Option<&Overrides> {
        self.overrides.current(self.head).ok().flatten()
    }

    /// The state as people are told of it who may hold another: an empty one when there is none any more. Nothing: there never was one.
    pub fn told_state(&self) -> Result<Option<Json>, InLog> {
        if self.states.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.state()?.cloned().unwrap_or_else(Json::empty_object)))
    }

    /// Where the state at the head, and what is overridden there, stand in the log, as far as they aren't in memory.
    pub fn state_in_log(&self) -> [Option<InLog>; 2] {
        [self.states.current(self.head).err(), self.overrides.current(self.head).err()]
    }

    /// Takes what a record says of the state at the head, or of overrides, back into memory. Whether it is such a record.
    pub fn recall_state(&mut self, record: Record) -> bool {
        match record.body {
            Body::StateUpdated(data) => self.states.recall(self.head, data.state),
            Body::AgentUpdated(data) => self.overrides.recall(self.head, Some(data.all())),
            _ => return false,
        }
        true
    }

    /// `state.updated`.
    pub(super) fn update_state(&mut self, seq: u64, updated: StateUpdated) {
        let written = updated.state.map(|state| (state.get().len(), updated.digest.unwrap_or(Digest([0; 16])), state));
        self.states.write(seq, self.head, self.tree.len(), written);
    }

    /// `agent.updated`.
    pub(super) fn update_agent(&mut self, seq: u64, updated: AgentUpdated) {
        let all = updated.all();
        let digest = digest_of(&all);
        let written = (!all.is_empty()).then(|| (bytes_of(&all), digest, all));
        self.overrides.write(seq, self.head, self.tree.len(), written);
    }

    /// A node was added: it has what stands before it, or what it reads like.
    pub(super) fn inherit(&mut self, ix: Ix) {
        let from = self.tree.reads_as(ix).unwrap_or_else(|| self.tree.parent(ix));
        self.states.grow(ix, from);
        self.overrides.grow(ix, from);
    }
}

fn digest_of(overrides: &Overrides) -> Digest {
    json::digest(&serde_json::to_value(overrides).unwrap_or_default())
}

fn bytes_of(overrides: &Overrides) -> usize {
    serde_json::to_vec(overrides).map_or(1, |bytes| bytes.len())
}

/// What a place has, in a session and in what is being written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Has {
    state: (Which, Option<Digest>),
    overrides: (Which, Option<Digest>),
}

impl Has {
    /// What a node of the session has.
    pub(super) fn of(session: &Session, at: Option<Ix>) -> Self {
        let digest = |written: Option<Written>| written.map(|written| written.digest);
        let (state, overrides) = (session.states.at(at), session.overrides.at(at));
        Self { state: (state, digest(session.states.written(state))), overrides: (overrides, digest(session.overrides.written(overrides))) }
    }
}

impl Writer<'_> {
    /// The state where the next node attaches: written just now, or in memory. The error says that it is neither.
    fn state_here(&self) -> Result<Option<&Json>, InLog> {
        let (which, _) = self.has().state;
        let written = self.records.iter().filter_map(|record| if let Body::StateUpdated(data) = &record.body { Some(data) } else { None });
        let last = self.session().states.next(0);
        if which >= last && which != Which::NONE {
            let ahead = written.enumerate().find(|(n, _)| self.session().states.next(u32::try_from(*n).unwrap_or(u32::MAX)) == which);
            return Ok(ahead.and_then(|(_, data)| data.state.as_ref()));
        }
        self.session().states.content(which)
    }

    /// What is overridden where the next node attaches, as far as it is known.
    fn overrides_here(&self) -> Overrides {
        let (which, _) = self.has().overrides;
        let written = self.records.iter().filter_map(|record| if let Body::AgentUpdated(data) = &record.body { Some(data) } else { None });
        let next = |n: usize| self.session().overrides.next(u32::try_from(n).unwrap_or(u32::MAX));
        if let Some((_, data)) = written.enumerate().find(|(n, _)| next(*n) == which) {
            return AgentUpdated::clone(data).all();
        }
        self.session().overrides.content(which).ok().flatten().cloned().unwrap_or_default()
    }

    /// Writes a version of the state where the next node attaches, which must be the head, when it says something else than the one
    /// before. An empty object: there is none any more; null says nothing. Refused when it is too large.
    pub(super) fn set_state(&mut self, state: &Json) -> Result<(), Refusal> {
        must_fit(state, self.context.policy.state_bytes_max)?;
        if state.get() == "null" {
            return Ok(());
        }
        self.write_state(Some(state).filter(|state| !says_nothing(state)));
        Ok(())
    }

    fn write_state(&mut self, state: Option<&Json>) {
        let (which, before) = self.has().state;
        let value = state.map(json::value);
        let digest = value.as_ref().map(json::digest);
        if digest == before {
            return;
        }
        let written = self.records.iter().filter(|record| matches!(record.body, Body::StateUpdated(_))).count();
        let (states, ahead) = (&self.session().states, u32::try_from(written).unwrap_or(u32::MAX));
        // Whoever was told what was written last has this, if the head was there.
        let last = ahead.checked_sub(1).map_or_else(|| states.last(), |before| states.next(before));
        let is_told = which == last && (ahead > 0 || states.at(self.session().head) == which);
        let from = self.state_here().ok().flatten().filter(|_| is_told);
        let patch =
            from.zip(value.as_ref()).zip(state).and_then(|((from, to), state)| json::shorter(&json::value(from), to, state.get().len()));
        let next = states.next(ahead);
        self.push(Body::StateUpdated(Box::new(StateUpdated { state: state.cloned(), digest, patch })));
        self.put_has(|has| has.state = (next, digest));
    }

    /// What the state becomes by these changes; a refusal says which of them doesn't apply.
    pub(super) fn patched_state(&self, patch: &Json) -> Result<Json, Refusal> {
        let most = self.context.policy.state_bytes_max;
        let missing = |_| Refusal::new(Code::Internal, "the session's state isn't in memory");
        let before = self.state_here().map_err(missing)?.map_or_else(|| serde_json::json!({}), json::value);
        let refuse = |unapplied: Unapplied| {
            let at = unapplied.index().map_or_else(|| "state_patch".to_owned(), |index| format!("state_patch[{index}]"));
            let code = match &unapplied {
                Unapplied::TooLarge(..) => Code::StateTooLarge,
                Unapplied::NoList | Unapplied::NoOperation(..) => Code::BadRequest,
                Unapplied::Misfit(..) | Unapplied::TooDeep(_) => Code::PatchFailed,
            };
            Refusal::new(code, format!("{at}: {unapplied}; the state is as it was")).with("at", at)
        };
        let state = json::patched(&before, patch, most).map_err(refuse)?;
        let state = Json::from_value(&state).map_err(|error| Refusal::new(Code::Internal, error.to_string()))?;
        must_fit(&state, most).map(|()| state)
    }

    /// Overrides some of an agent's configuration where the next node attaches, which must be the head, when that changes something.
    pub(super) fn override_agent(&mut self, agent_id: &AgentId, changes: &AgentChanges) -> Result<(), Refusal> {
        let mut others = self.overrides_here();
        let before = others.remove(agent_id).unwrap_or_default();
        let agent = before.with(changes);
        if agent == before {
            return Ok(());
        }
        let configured = self.agent(agent_id).map_or(Size::ZERO, |agent| agent.configured_system);
        let size = |overrides: &AgentOverrides| overrides.system.as_ref().map_or(configured, |system| Size::of_text(system));
        let (was, now) = (size(&before), size(&agent));
        let updated = AgentUpdated { agent_id: agent_id.clone(), agent, others };
        let all = updated.clone().all();
        let most = self.context.policy.state_bytes_max;
        if bytes_of(&all) > most {
            let text = format!("agent: what is overridden would have {} bytes, and {most} are allowed", bytes_of(&all));
            return Err(Refusal::new(Code::StateTooLarge, text).with("at", "agent"));
        }
        let ahead = self.records.iter().filter(|record| matches!(record.body, Body::AgentUpdated(_))).count();
        let next = self.session().overrides.next(u32::try_from(ahead).unwrap_or(u32::MAX));
        let digest = (!all.is_empty()).then(|| digest_of(&all));
        self.push(Body::AgentUpdated(Box::new(updated)));
        self.put_has(|has| has.overrides = (next, digest));
        self.reads_instead(was, now);
        Ok(())
    }

    /// What a client sent along becomes the session's state, where the agent takes it.
    pub(super) fn take_client_state(&mut self, agent_id: &AgentId, client: &Client) {
        let takes = self.agent(agent_id).is_some_and(super::context::Agent::takes_client_state);
        if let Some(state) = client.state.as_ref().filter(|state| takes && !says_nothing(state)) {
            // One that is too large was refused, unless less was allowed since.
            let _ = self.set_state(state);
        }
    }
}

/// What a client offers, as the agent takes it: without a state that isn't wanted, or that the session has already. Who echoes what it
/// was told, and goes elsewhere, doesn't want it there.
pub(super) fn offered(session: &Session, takes: Option<&super::context::Agent>, client: &Client, most: usize) -> Result<Client, Refusal> {
    let mut client = client.clone();
    let Some(state) = &client.state else { return Ok(client) };
    let ignored = takes.is_some_and(|agent| agent.client_state == ClientState::Ignore);
    if ignored {
        client.state = None;
    } else if takes.is_some_and(super::context::Agent::takes_client_state) {
        must_fit(state, most).map_err(|refusal| refusal.with("at", "client.state"))?;
        let here = Has::of(session, session.head).state.1;
        let is_echo = here.is_some_and(|here| match session.state() {
            Ok(Some(current)) if current == state => true,
            Ok(_) | Err(InLog(_)) => json::digest(&json::value(state)) == here,
        });
        if is_echo {
            client.state = None;
        }
    }
    Ok(client)
}

fn must_fit(state: &Json, most: usize) -> Result<(), Refusal> {
    let bytes = state.get().len();
    if bytes <= most {
        return Ok(());
    }
    let text = format!("a state has at most {most} bytes, and this one has {bytes}; keep large things elsewhere and name them");
    Err(Refusal::new(Code::StateTooLarge, text).with("bytes", bytes).with("bytes_max", most))
}
