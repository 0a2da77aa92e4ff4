//! A ledger of what was promised, kept from the records and the answers alone: no turn and no message is lost, doubled or out of
//! its order.

use std::collections::{HashMap, HashSet};

use headwater::engine::Record;
use headwater::engine::record::Body;
use headwater::protocol::Accepted;

/// What the records so far have promised.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Turns that wait, and the messages that they bring.
    queue: Vec<(String, Vec<String>)>,
    running: Option<String>,
    ended: HashSet<String>,
    nodes: HashSet<String>,
    /// Nodes since the last turn ended or began: own id, and the original's.
    since: Vec<String>,
    /// Messages that were acknowledged.
    promised: HashSet<String>,
    /// Messages that were named when their turn was given up.
    given_up: HashSet<String>,
    /// Copies: what they say.
    originals: HashMap<String, String>,
}

impl Ledger {
    pub fn take(&mut self, records: &[Record]) {
        for record in records {
            self.one(&record.body);
        }
        assert!(self.running.is_some() || self.queue.is_empty(), "turns wait and none is there: {:?}", self.queue);
        for id in &self.promised {
            let waits = self.queue.iter().any(|(_, messages)| messages.contains(id));
            let kept = self.nodes.contains(id) || waits || self.given_up.contains(id);
            assert!(kept, "the message {id} was acknowledged and is lost");
            assert!(!(self.nodes.contains(id) && waits) || self.originals.contains_key(id), "{id} is a node and waits");
        }
    }

    /// What an answer promises.
    pub fn promise(&mut self, accepted: &Accepted) {
        self.promised.extend(accepted.recorded.iter().map(ToString::to_string));
        self.given_up.retain(|id| !accepted.recorded.iter().any(|recorded| recorded.as_str() == id));
        self.take(&[]);
    }

    fn one(&mut self, body: &Body) {
        match body {
            Body::MessageNew(new) => {
                let id = new.id.to_string();
                assert!(self.nodes.insert(id.clone()), "the node {id} is recorded twice");
                self.originals.insert(id.clone(), new.copied_from.as_ref().unwrap_or(&new.id).to_string());
                self.since.push(id);
            }
            Body::TurnQueued(queued) => {
                let ids: Vec<String> = queued.messages.iter().map(|message| message.id.as_ref().expect("an id").to_string()).collect();
                for id in &ids {
                    assert!(!self.queue.iter().any(|(_, messages)| messages.contains(id)), "{id} waits twice");
                    self.given_up.remove(id);
                }
                match &queued.into {
                    None => self.queue.push((queued.turn_id.to_string(), ids)),
                    Some(into) => {
                        let (last, messages) = self.queue.last_mut().expect("it joins one that waits");
                        assert_eq!(last, into.as_str(), "it joins the last that waits");
                        messages.extend(ids);
                    }
                }
            }
            Body::TurnStarted(started) => self.start(started.turn_id.as_str()),
            Body::TurnCompleted(done) => self.end(done.turn_id.as_str(), &[]),
            Body::TurnFailed(done) => self.end(done.turn_id.as_str(), &[]),
            Body::TurnCancelled(done) => {
                let named: Vec<String> = done.messages.iter().map(ToString::to_string).collect();
                self.end(done.turn_id.as_str(), &named);
            }
            Body::TurnWaiting(waiting) => assert_eq!(self.running.as_deref(), Some(waiting.turn_id.as_str())),
            Body::TurnJoined(joined) => assert_eq!(self.running.as_deref(), Some(joined.turn_id.as_str())),
            Body::TurnRecovered(recovered) => assert_eq!(self.running.as_deref(), Some(recovered.turn_id.as_str())),
            Body::CallStarted(call) => assert_eq!(self.running.as_deref(), Some(call.turn_id.as_str())),
            Body::SessionCreated(_)
            | Body::SessionForked(_)
            | Body::SessionUpdated(_)
            | Body::HeadMoved(_)
            | Body::CallCompleted(_)
            | Body::CallFailed(_)
            | Body::CallVoided(_)
            | Body::ContextLimited(_)
            | Body::ContextReplaced(_)
            | Body::ContextKept(_)
            | Body::JobStarted(_)
            | Body::JobFinished(_)
            | Body::JobFailed(_)
            | Body::JobDropped(_)
            | Body::ArrivalQueued(_)
            | Body::ArrivalConsumed(_)
            | Body::DecisionAsked(_)
            | Body::DecisionAnswered(_)
            | Body::DecisionFailed(_)
            | Body::ToolCallsTaken(_)
            | Body::ToolCallStarted(_)
            | Body::ToolCallCompleted(_)
            | Body::ToolCallFailed(_)
            | Body::StateUpdated(_)
            | Body::AgentUpdated(_)
            | Body::Custom(_)
            | Body::SessionInterrupted(_)
            | Body::InterruptResumed(_)
            | Body::TurnSuspended(_)
            | Body::Unknown(_) => {}
        }
    }

    fn start(&mut self, turn: &str) {
        assert_eq!(self.running, None, "{turn} starts while another is there");
        assert!(!self.ended.contains(turn), "{turn} starts again");
        if let Some(at) = self.queue.iter().position(|(id, _)| id == turn) {
            assert_eq!(at, 0, "{turn} overtakes {:?}", self.queue[0]);
            let (_, messages) = self.queue.remove(0);
            // A copied result brings its reply before it, wherever that stands: copies are the reference's business.
            let new = self.since.iter().filter(|id| self.originals[*id] == **id);
            let written = new.filter_map(|id| messages.iter().position(|message| message == id));
            let written: Vec<usize> = written.collect();
            assert!(written.is_sorted_by(|one, other| one < other), "{turn} brings {messages:?} as {:?}", self.since);
            for id in &messages {
                assert!(self.nodes.contains(id), "{turn} starts without its message {id}");
            }
        }
        self.since.clear();
        self.running = Some(turn.to_owned());
    }

    fn end(&mut self, turn: &str, named: &[String]) {
        assert!(self.ended.insert(turn.to_owned()), "{turn} ends twice");
        if self.running.as_deref() == Some(turn) {
            self.running = None;
            self.since.clear();
            assert!(named.is_empty(), "{turn} ran, and gives up {named:?}");
            return;
        }
        let at = self.queue.iter().position(|(id, _)| id == turn).unwrap_or_else(|| panic!("{turn} ends and was never there"));
        let (_, messages) = self.queue.remove(at);
        let lost: Vec<&String> = messages.iter().filter(|id| !self.nodes.contains(*id)).collect();
        assert_eq!(lost, named.iter().collect::<Vec<_>>(), "what is given up is named");
        self.given_up.extend(named.iter().cloned());
    }
}
