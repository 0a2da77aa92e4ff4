//! Which worker has which decision, and what waits: pure but for the ends of channels. May not know threads, or time.
//!
//! What always holds: an open attempt waits with its agent, or one worker has it that serves the agent; as long as one waits, no worker
//! of its agent has credit left.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::{Notify, oneshot};

use super::peer::{Socket, TOLD_MAX};
use super::recent::{Decision, End, Recent, told};
use super::{Agent, CREDIT_MAX, Ended, Told};
use crate::ids::{AgentId, DecisionId, SessionId};
use crate::protocol::native::{Hello, Token};
use crate::protocol::{Code, DecisionAnswer, DecisionRequest, Refusal};
use crate::worker::Error;

/// So many workers may be lost while they have one attempt: it may be what ends them.
const LOSSES_MAX: u32 = 3;

/// A connected worker's number.
pub(super) type SocketId = u64;

/// What came of an attempt.
pub(super) type Answered = Result<DecisionAnswer, Error>;

/// What an answer is.
#[derive(Debug, PartialEq)]
pub(super) enum Said {
    /// What somebody waited for.
    Asked,
    /// Late: its session knows whether it still counts.
    Late(SessionId, Box<DecisionAnswer>),
    /// Nothing that counts; the worker is told.
    Unasked,
}

/// What is there for a worker.
#[derive(Debug, PartialEq)]
pub(super) enum Taken {
    /// This.
    Told(Told),
    /// Nothing yet.
    Nothing,
    /// Nothing any more.
    Ended(Ended),
}

/// All workers, all attempts.
#[derive(Debug, Default)]
pub(super) struct Board {
    agents: BTreeMap<AgentId, Desk>,
    sockets: BTreeMap<SocketId, Socket>,
    attempts: HashMap<DecisionId, Attempt>,
    recent: Recent,
    /// Numbers of sockets, attempts and turns to be served.
    last: u64,
    is_closed: bool,
}

/// An agent, with what waits for a worker of its.
#[derive(Debug)]
struct Desk {
    agent: Agent,
    /// By their tickets.
    waiting: VecDeque<DecisionId>,
    sockets: BTreeSet<SocketId>,
}

/// An attempt that is open.
#[derive(Debug)]
struct Attempt {
    ticket: u64,
    request: Arc<DecisionRequest>,
    answer: oneshot::Sender<Answered>,
    /// Who has it.
    socket: Option<SocketId>,
    /// Workers that were lost while they had it.
    losses: u32,
}

impl Board {
    /// One with these agents.
    pub(super) fn new(agents: BTreeMap<AgentId, Agent>) -> Self {
        let desk = |agent| Desk { agent, waiting: VecDeque::new(), sockets: BTreeSet::new() };
        Self { agents: agents.into_iter().map(|(id, agent)| (id, desk(agent))).collect(), ..Self::default() }
    }

    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// A worker comes.
    pub(super) fn join(&mut self, hello: &Hello) -> Result<(SocketId, Arc<Notify>), Refusal> {
        if self.is_closed {
            return Err(Refusal::new(Code::ShuttingDown, "the server stops; connect again"));
        }
        for id in &hello.agents {
            self.admit(id, hello.token.as_ref())?;
        }
        let id = self.number();
        let agents: BTreeSet<AgentId> = hello.agents.iter().cloned().collect();
        for agent in &agents {
            if let Some(desk) = self.agents.get_mut(agent) {
                desk.sockets.insert(id);
            }
        }
        let (credit, wake) = (granted(hello.credit), Arc::<Notify>::default());
        let socket = Socket { agents, credit, holds: BTreeSet::new(), served: 0, told: VecDeque::new(), wake: wake.clone() };
        self.sockets.insert(id, socket);
        self.feed(id);
        Ok((id, wake))
    }

    /// Whether a worker may serve an agent.
    fn admit(&self, id: &AgentId, token: Option<&Token>) -> Result<(), Refusal> {
        let Some(desk) = self.agents.get(id) else {
            let text = format!("no worker may dial in for the agent {:?}: its worker has to be of kind \"socket\"", id.as_str());
            return Err(Refusal::new(Code::WorkerNotAllowed, text).with("agent_id", id.as_str()));
        };
        if let Some(expected) = &desk.agent.token
            && !token.is_some_and(|token| token.fits(expected))
        {
            let text = format!("the agent {:?} needs its token: `Authorization: Bearer …`, or `token` in the hello", id.as_str());
            return Err(Refusal::new(Code::Unauthorized, text).with("agent_id", id.as_str()));
        }
        if desk.sockets.len() >= desk.agent.sockets_max {
            let text = format!("{} workers of the agent {:?} are connected, the most that are allowed", desk.sockets.len(), id.as_str());
            return Err(Refusal::new(Code::TooManyConnections, text).with("agent_id", id.as_str()));
        }
        Ok(())
    }

    /// A worker goes: others get what it had.
    pub(super) fn leave(&mut self, id: SocketId) {
        let Some(mut socket) = self.sockets.remove(&id) else { return };
        for agent in &socket.agents {
            if let Some(desk) = self.agents.get_mut(agent) {
                desk.sockets.remove(&id);
            }
        }
        let held: Vec<DecisionId> = socket.holds.iter().cloned().collect();
        for decision in held {
            let was_told = socket.release(&decision);
            let Some(attempt) = self.attempts.get_mut(&decision) else { continue };
            attempt.socket = None;
            attempt.losses += u32::from(was_told);
            if attempt.losses >= LOSSES_MAX {
                let text = format!("{LOSSES_MAX} workers were lost while they had this decision");
                self.finish(&decision, End::Unanswered, Err(Error::Failed(text)));
            } else {
                self.put_back(decision);
            }
        }
        for agent in socket.agents {
            self.feed_agent(&agent);
        }
    }

    /// Somebody asks. The attempt's ticket.
    pub(super) fn ask(&mut self, request: Arc<DecisionRequest>, answer: oneshot::Sender<Answered>) -> Result<u64, Error> {
        let (id, agent) = (request.decision_id.clone(), request.agent_id.clone());
        let refuse = |text: String| Err(Error::Failed(text));
        if self.is_closed {
            return refuse("the server stops".to_owned());
        }
        if self.attempts.contains_key(&id) {
            return refuse("a decision of this id is being asked".to_owned());
        }
        let Some(desk) = self.agents.get(&agent) else { return refuse("no worker may dial in for this agent".to_owned()) };
        let to = self.best(&agent);
        if to.is_none() && desk.waiting.len() >= desk.agent.waiting_max {
            return refuse(format!("{} decisions of this agent wait for a worker, the most that are allowed", desk.waiting.len()));
        }
        let ticket = self.number();
        self.recent.reopened(&id);
        self.attempts.insert(id.clone(), Attempt { ticket, request, answer, socket: None, losses: 0 });
        match (to, self.agents.get_mut(&agent)) {
            (Some(socket), _) => self.give(&id, socket),
            (None, Some(desk)) => desk.waiting.push_back(id),
            (None, None) => {}
        }
        Ok(ticket)
    }

    /// Nobody wants the answer of an attempt any more.
    pub(super) fn give_up(&mut self, id: &DecisionId, ticket: u64) {
        if self.attempts.get(id).is_some_and(|attempt| attempt.ticket == ticket) {
            self.withdraw(id, End::Unanswered);
        }
    }

    /// Takes an attempt out; whoever has it is told.
    fn withdraw(&mut self, id: &DecisionId, end: End) -> Option<Attempt> {
        let attempt = self.attempts.remove(id)?;
        let (agent, session) = (attempt.request.agent_id.clone(), attempt.request.session_id.clone());
        match attempt.socket.and_then(|socket| Some((socket, self.sockets.get_mut(&socket)?))) {
            Some((holder, socket)) => {
                socket.take_back(id);
                self.feed(holder);
            }
            None => {
                if let Some(desk) = self.agents.get_mut(&agent) {
                    desk.waiting.retain(|waiting| waiting != id);
                }
            }
        }
        self.recent.ended(id.clone(), Decision { agent, session, ticket: attempt.ticket, end });
        Some(attempt)
    }

    fn finish(&mut self, id: &DecisionId, end: End, answered: Answered) {
        if let Some(attempt) = self.withdraw(id, end) {
            // Whoever asked may just have given up.
            let _ = attempt.answer.send(answered);
        }
    }

    /// The most bytes of an answer to a decision that is open, or was lately, and that this worker may answer.
    pub(super) fn answer_bytes_max(&mut self, socket: SocketId, id: &DecisionId) -> Option<usize> {
        let asked = self.attempts.get(id).map(|attempt| &attempt.request.agent_id);
        let agent = asked.or_else(|| Some(&self.recent.again(id)?.agent))?;
        let serves = self.sockets.get(&socket)?.agents.contains(agent);
        self.agents.get(agent).filter(|_| serves).map(|desk| desk.agent.answer_bytes_max)
    }

    /// A worker answers; it needn't be the one that was asked last.
    pub(super) fn answer(&mut self, from: SocketId, id: &DecisionId, said: Answered) -> Said {
        let Some(socket) = self.sockets.get_mut(&from) else { return Said::Unasked };
        let Some(attempt) = self.attempts.get(id).filter(|attempt| socket.agents.contains(&attempt.request.agent_id)) else {
            return self.answered_late(from, id, said);
        };
        if attempt.socket == Some(from) {
            // It knows.
            socket.release(id);
        }
        let end = if matches!(said, Ok(_) | Err(Error::BadAnswer(_))) { End::Answered(from) } else { End::Unanswered };
        self.finish(id, end, said);
        Said::Asked
    }

    /// Nobody waits for an answer just now.
    fn answered_late(&mut self, from: SocketId, id: &DecisionId, said: Answered) -> Said {
        let Some(socket) = self.sockets.get_mut(&from) else { return Said::Unasked };
        let decision = self.recent.again(id).filter(|decision| socket.agents.contains(&decision.agent));
        match (decision.map(|decision| (&decision.session, &mut decision.end)), said) {
            // The decision may be open.
            (Some((session, End::Unanswered)), Ok(answer)) => return Said::Late(session.clone(), Box::new(answer)),
            (Some((_, End::Unanswered)), Err(Error::BadAnswer(refusal))) => socket.tell(told(id, Err(&refusal))),
            (Some((_, End::Answered(socket))), _) => *socket = from,
            (Some((_, End::Taken)), _) => socket.tell(told(id, Ok(()))),
            (Some((_, End::Unanswered)) | None, _) => {
                let text = format!("the decision {id} isn't asked now: it was answered, given up, or never asked of this worker's agents");
                socket.tell(told(id, Err(&Refusal::new(Code::DecisionClosed, text))));
            }
        }
        Said::Unasked
    }

    /// It is known what came of an answer.
    pub(super) fn judge(&mut self, id: &DecisionId, verdict: Result<(), &Refusal>) {
        if let Some(socket) = self.recent.judge(id, verdict) {
            self.tell(socket, told(id, verdict));
        }
    }

    /// It is known what came of an answer that came late.
    pub(super) fn judge_late(&mut self, from: SocketId, id: &DecisionId, verdict: Result<(), &Refusal>) {
        if let (Ok(()), Some(decision)) = (verdict, self.recent.again(id)) {
            decision.end = End::Taken;
        }
        self.tell(from, told(id, verdict));
    }

    fn tell(&mut self, socket: SocketId, told: Told) {
        if let Some(socket) = self.sockets.get_mut(&socket) {
            socket.tell(told);
        }
    }

    /// A worker takes so many at once from now on.
    pub(super) fn grant(&mut self, id: SocketId, credit: u32) -> u32 {
        let credit = credit.min(CREDIT_MAX);
        if let Some(socket) = self.sockets.get_mut(&id) {
            socket.credit = granted(credit);
            self.feed(id);
        }
        credit
    }

    /// What a worker is told next.
    pub(super) fn take(&mut self, id: SocketId) -> Taken {
        match self.sockets.get_mut(&id) {
            Some(socket) if socket.told.len() > TOLD_MAX => Taken::Ended(Ended::TooSlow),
            Some(socket) => match socket.told.pop_front() {
                Some(told) => Taken::Told(told),
                None if self.is_closed => Taken::Ended(Ended::Stopping),
                None => Taken::Nothing,
            },
            None => Taken::Ended(Ended::Stopping),
        }
    }

    /// Nobody is asked any more.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        for socket in self.sockets.values() {
            socket.wake.notify_one();
        }
    }

    /// The worker of an agent with most credit left; of several the one that has waited longest.
    fn best(&self, agent: &AgentId) -> Option<SocketId> {
        let sockets = self.agents.get(agent)?.sockets.iter();
        let free = sockets.filter_map(|id| Some((id, self.sockets.get(id)?))).filter(|(_, socket)| socket.free() > 0);
        free.max_by_key(|(id, socket)| (socket.free(), Reverse((socket.served, **id)))).map(|(id, _)| *id)
    }

    fn give(&mut self, id: &DecisionId, to: SocketId) {
        let served = self.number();
        if let (Some(attempt), Some(socket)) = (self.attempts.get_mut(id), self.sockets.get_mut(&to)) {
            attempt.socket = Some(to);
            socket.served = served;
            socket.holds.insert(id.clone());
            socket.tell(Told::Decision(attempt.request.clone()));
        }
    }

    /// Gives a worker what waits, the oldest first, whichever of its agents it is for.
    fn feed(&mut self, id: SocketId) {
        while let Some(socket) = self.sockets.get(&id).filter(|socket| socket.free() > 0) {
            let fronts = socket.agents.iter().filter_map(|agent| {
                let front = self.agents.get(agent)?.waiting.front()?;
                Some((self.attempts.get(front)?.ticket, agent))
            });
            let Some((_, agent)) = fronts.min() else { return };
            let agent = agent.clone();
            let Some(next) = self.agents.get_mut(&agent).and_then(|desk| desk.waiting.pop_front()) else { return };
            self.give(&next, id);
        }
    }

    /// Gives what waits for an agent to its workers.
    fn feed_agent(&mut self, agent: &AgentId) {
        while let Some(to) = self.best(agent) {
            let Some(next) = self.agents.get_mut(agent).and_then(|desk| desk.waiting.pop_front()) else { return };
            self.give(&next, to);
        }
    }

    /// Puts what a worker had back among what waits, at its old place.
    fn put_back(&mut self, id: DecisionId) {
        let Self { agents, attempts, .. } = self;
        let ticket = |id: &DecisionId| attempts.get(id).map(|attempt| attempt.ticket);
        let Some(desk) = attempts.get(&id).and_then(|attempt| agents.get_mut(&attempt.request.agent_id)) else { return };
        let at = desk.waiting.partition_point(|waiting| ticket(waiting) < ticket(&id));
        desk.waiting.insert(at, id);
    }

    /// What doesn't hold of what always must.
    #[cfg(test)]
    pub(super) fn broken(&self) -> Option<String> {
        for (id, attempt) in &self.attempts {
            let waits = self.agents[&attempt.request.agent_id].waiting.iter().filter(|waiting| *waiting == id).count();
            let holders: Vec<_> = self.sockets.iter().filter(|(_, socket)| socket.holds.contains(id)).map(|(id, _)| *id).collect();
            if waits + holders.len() != 1 || attempt.socket != holders.first().copied() {
                return Some(format!("{id} waits {waits} times, and {holders:?} have it ({:?})", attempt.socket));
            }
        }
        for (id, socket) in &self.sockets {
            if let Some(lost) = socket.holds.iter().find(|held| !self.attempts.contains_key(*held)) {
                return Some(format!("{id} has {lost}, which nobody waits for"));
            }
            let asked = socket.told.iter().filter_map(|told| match told {
                Told::Decision(request) => Some(&request.decision_id),
                Told::Cancelled(_) | Told::Answered(_) | Told::Refused(..) => None,
            });
            if let Some(stale) = asked.into_iter().find(|asked| !socket.holds.contains(*asked)) {
                return Some(format!("{id} is going to be asked {stale}, which it doesn't have"));
            }
        }
        for (agent, desk) in &self.agents {
            if !desk.waiting.is_empty() && self.best(agent).is_some() {
                return Some(format!("{agent} has decisions that wait and a worker with credit"));
            }
            if !desk.waiting.iter().map(|id| self.attempts[id].ticket).is_sorted() {
                return Some(format!("what waits for {agent} is out of order"));
            }
        }
        None
    }

    /// Attempts that are open.
    #[cfg(test)]
    pub(super) fn open(&self) -> usize {
        self.attempts.len()
    }
}

/// So many at once.
fn granted(credit: u32) -> usize {
    usize::try_from(credit.min(CREDIT_MAX)).unwrap_or(usize::MAX)
}
