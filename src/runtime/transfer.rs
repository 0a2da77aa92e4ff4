//! Whole logs: the path of one session becomes the log of another, a log that was exported becomes one here. Either way a session
//! begins with all of its records in one append.

use bytes::Bytes;

use super::command::{Answer, give, reply};
use super::log::{self, Log};
use super::session_task::Task;
use crate::clock;
use crate::engine::record::{Body, DropReason};
use crate::engine::{self, Record, Session};
use crate::ids::NodeId;
use crate::protocol::{CancelReason, Code, Forked, ForkedFrom, Imported, KeptReason, Refusal, ResumeStatus};
use crate::store::{Append, Position};

/// So many records are folded before others of this thread have a turn.
const PORTION: usize = 500;

/// The log of a fork, and what it was asked for.
pub struct Carried {
    records: Vec<Record>,
    /// Whether the node was named; else it was the head.
    named: bool,
    head_id: Option<NodeId>,
}

impl Carried {
    /// Whether a fork of `made` is this one. The head may have moved since.
    fn is(&self, made: &ForkedFrom) -> bool {
        let of = |record: &Record| if let Body::SessionForked(forked) = &record.body { Some(forked.from.clone()) } else { None };
        let from = self.records.first().and_then(of);
        from.is_some_and(|from| from.session_id == made.session_id && (!self.named || from.node_id == made.node_id))
    }
}

/// A log that is to begin.
#[derive(Default)]
struct Draft {
    session: Session,
    stored: Vec<Bytes>,
    end: Position,
}

impl Draft {
    /// Takes the next record; why it doesn't fit.
    async fn add(&mut self, record: Record, stored: Bytes) -> Result<(), String> {
        let begins = matches!(record.body, Body::SessionCreated(_) | Body::SessionForked(_));
        if begins != self.stored.is_empty() {
            return Err("a log begins with session.created or session.forked, and has it once".to_owned());
        }
        self.session.evolve(record).map_err(|corrupt| corrupt.why)?;
        engine::check_step(&self.session).map_err(|broken| broken.to_string())?;
        self.end = self.end.then(&stored);
        self.stored.push(stored);
        if self.stored.len().is_multiple_of(PORTION) {
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Takes records of our own making.
    async fn add_all(&mut self, records: Vec<Record>) -> Result<(), Refusal> {
        for record in records {
            let stored = record.encode().into();
            self.add(record, stored).await.map_err(|why| Refusal::new(Code::Internal, why))?;
        }
        Ok(())
    }
}

impl Task {
    /// The records of a fork at `at`; none: at the head.
    pub(super) async fn carry(&mut self, at: Option<&NodeId>) -> Result<Carried, Refusal> {
        self.must_exist()?;
        let nodes = engine::fork_nodes(&self.log.session, at)?;
        self.log.recall(nodes.iter().copied()).await?;
        let id = self.log.key.session.clone();
        let versions = self.log.bodies(&engine::fork_versions(&self.log.session, &nodes)).await?;
        let (records, head_id) = engine::fork(&self.log.session, &id, at, &nodes, &versions, &self.context())?;
        Ok(Carried { records, named: at.is_some(), head_id })
    }

    /// Begins this session as a fork. The same fork again answers with what is there.
    pub(super) async fn begin_fork(&mut self, carried: Carried, answer: Answer<Forked>) -> Result<(), Refusal> {
        let session_id = self.log.key.session.clone();
        if self.log.session.seq > 0 {
            let same = self.log.session.forked_from.as_ref().is_some_and(|made| carried.is(made));
            let there = || Forked { session_id, head_id: self.head_id(), duplicate: true };
            reply(answer, if same { Ok(there()) } else { Err(self.exists()) });
            return Ok(());
        }
        let Carried { records, head_id, named: _ } = carried;
        let mut draft = Draft::default();
        match draft.add_all(records).await {
            Ok(()) => give(answer, self.begin(draft).await.map(|()| Forked { session_id, head_id, duplicate: false })),
            Err(refusal) => {
                reply(answer, Err(refusal));
                Ok(())
            }
        }
    }

    /// Begins this session with a whole log. The same log again answers with what is there.
    pub(super) async fn import(&mut self, stored: Vec<Bytes>, answer: Answer<Imported>) -> Result<(), Refusal> {
        let records = stored.len() as u64;
        let session_id = self.log.key.session.clone();
        if self.log.session.seq > 0 {
            let same = self.is_import_of(&stored).await;
            let there = Imported { session_id, head_id: self.head_id(), records, duplicate: true };
            reply(answer, same.and_then(|same| if same { Ok(there) } else { Err(self.exists()) }));
            return Ok(());
        }
        match self.draft(stored).await {
            Ok(draft) => {
                let begun = self.begin(draft).await;
                give(answer, begun.map(|()| Imported { session_id, head_id: self.head_id(), records, duplicate: false }))
            }
            Err(refusal) => {
                reply(answer, Err(refusal));
                Ok(())
            }
        }
    }

    /// Folds an imported log, and ends what was unfinished in it.
    async fn draft(&self, stored: Vec<Bytes>) -> Result<Draft, Refusal> {
        let mut draft = Draft::default();
        for (seq, bytes) in (1_u64..).zip(stored) {
            let bad = |why: &str| Refusal::new(Code::BadImport, format!("record {seq}: {why}; nothing was imported")).with("record", seq);
            let record = Record::decode(&bytes).map_err(|error| bad(&error.to_string()))?;
            if let Body::Unknown(unknown) = &record.body
                && unknown.must_understand
            {
                let kind = &unknown.kind;
                let text = format!("record {seq} is of type {kind}, which a newer version wrote; that one can import it");
                return Err(Refusal::new(Code::NewerVersion, text).with("record", seq));
            }
            draft.add(record, bytes).await.map_err(|why| bad(&why))?;
        }
        if draft.stored.is_empty() {
            return Err(Refusal::new(Code::BadImport, "there are no records to import"));
        }
        let ends = engine::end_imported(&draft.session, &self.context());
        draft.add_all(ends).await?;
        Ok(draft)
    }

    /// Makes a draft this session's log.
    async fn begin(&mut self, draft: Draft) -> Result<(), Refusal> {
        let Draft { session, stored, end } = draft;
        let header = log::header(&session);
        // Its last record may be old; a tombstone asks when it is written.
        let append = Append { expected: Position::default(), records: stored, end, header, at: clock::now() };
        Log::append(self.log.store(), self.log.key.clone(), append, self.append_within()).await?;
        self.log.begin(session, end);
        Ok(())
    }

    /// Whether this session is `stored` and at most what ends an import.
    async fn is_import_of(&self, stored: &[Bytes]) -> Result<bool, Refusal> {
        let imported = stored.iter().fold(Position::default(), |position, record| position.then(record));
        let Some(more) = self.log.session.seq.checked_sub(imported.seq) else { return Ok(false) };
        // Everything that waited has an end, and so has the turn that ran, its calls, its interrupts, and a job; turns that pause have two.
        let ends_max = usize::try_from(more).unwrap_or(usize::MAX);
        if ends_max > self.waiting_max() + 5 + 2 * engine::SUSPENDED_MAX {
            return Ok(false);
        }
        let ends = if more == 0 { Vec::new() } else { self.log.read(imported.seq + 1, ends_max).await? };
        let is_end = |bytes: &Bytes| Record::decode(bytes).is_ok_and(|record| ends_import(&record.body));
        Ok(ends.iter().all(is_end) && ends.iter().fold(imported, |position, record| position.then(record)) == self.log.end())
    }

    fn head_id(&self) -> Option<NodeId> {
        let session = &self.log.session;
        session.tree.seen_at(session.head)
    }

    fn exists(&self) -> Refusal {
        let id = &self.log.key.session;
        let text = format!("the session {id} is there already, and is another; give the new one an id of its own");
        Refusal::new(Code::SessionExists, text).with("session_id", id.as_str())
    }
}

/// Whether a record is one that ends what was unfinished in an import.
fn ends_import(body: &Body) -> bool {
    match body {
        Body::TurnCancelled(cancelled) => cancelled.reason == Some(CancelReason::Imported),
        Body::CallVoided(_) => true,
        Body::ContextKept(kept) => kept.reason == KeptReason::Cancelled,
        Body::InterruptResumed(resumed) => resumed.interrupts.iter().all(|answer| answer.status == ResumeStatus::Cancelled),
        Body::JobDropped(dropped) => dropped.reason == DropReason::Imported,
        Body::SessionCreated(_)
        | Body::SessionForked(_)
        | Body::SessionUpdated(_)
        | Body::MessageNew(_)
        | Body::HeadMoved(_)
        | Body::TurnQueued(_)
        | Body::TurnStarted(_)
        | Body::TurnJoined(_)
        | Body::TurnWaiting(_)
        | Body::TurnCompleted(_)
        | Body::TurnFailed(_)
        | Body::TurnRecovered(_)
        | Body::SessionInterrupted(_)
        | Body::TurnSuspended(_)
        | Body::CallStarted(_)
        | Body::CallCompleted(_)
        | Body::CallFailed(_)
        | Body::ContextLimited(_)
        | Body::ContextReplaced(_)
        | Body::JobStarted(_)
        | Body::JobFinished(_)
        | Body::JobFailed(_)
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
        | Body::Unknown(_) => false,
    }
}
