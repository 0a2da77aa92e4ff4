//! The thread that writes. What waits in its queue is committed together: one sync of the disk for all. It never waits for
//! more to come, so that a lone append isn't delayed. May not know what records mean.

use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};
use tokio::sync::mpsc;

use super::erase::{erase, erased, forget, sweep};
use super::failure;
use super::place::Place;
use super::schema::FORMAT;
use super::snapshots::Portion;
use super::threads::{Answer, Threads};
use crate::ids::SessionKey;
use crate::store::{Append, Error, Outcome, Position, Tombstone};

/// The most jobs in a group.
const GROUP_JOBS: usize = 64;

/// No job joins a group that has so many bytes.
const GROUP_BYTES: usize = 1 << 20;

/// Something to write, and where the answer goes.
pub(super) struct Job {
    pub(super) work: Work,
    pub(super) answer: Answer<Outcome>,
}

/// What is to be written. All but appends and snapshots end as `Appended`.
pub(super) enum Work {
    Append(SessionKey, Append),
    Save(SessionKey, Portion),
    Erase(SessionKey, Tombstone),
    /// Writes what is there already: it shows that writing is possible, and needs room as anything else does.
    Nothing,
}

impl Work {
    /// Names the work, should it fail.
    pub(super) fn doing(&self) -> impl Fn() -> String + Send + 'static {
        let (verb, key) = match self {
            Self::Append(key, _) => ("appending to session", Some(key.clone())),
            Self::Save(key, _) => ("keeping a snapshot of session", Some(key.clone())),
            Self::Erase(key, _) => ("erasing session", Some(key.clone())),
            Self::Nothing => ("looking whether it writes", None),
        };
        move || key.as_ref().map_or_else(|| verb.to_owned(), |key| format!("{verb} {key}"))
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Append(_, append) => append.records.iter().map(Bytes::len).sum(),
            Self::Save(_, portion) => portion.bytes(),
            Self::Erase(..) | Self::Nothing => 0,
        }
    }

    fn carry_out(&self, transaction: &Transaction<'_>) -> rusqlite::Result<Outcome> {
        match self {
            Self::Append(key, append) => add(transaction, key, append),
            Self::Save(key, portion) => portion.write(transaction, key),
            Self::Erase(key, tombstone) => erase(transaction, key, *tombstone).map(|()| Outcome::Appended),
            Self::Nothing => transaction.pragma_update(None, "user_version", FORMAT).map(|()| Outcome::Appended),
        }
    }
}

/// Starts the writing thread.
pub(super) fn start(connection: Connection, place: &Arc<Place>) -> Result<Threads<Job>, Error> {
    let (mut threads, queue) = Threads::new();
    // An earlier process may have left some.
    let writer = Writer { connection, queue, place: Arc::clone(place), leftovers: true };
    threads.spawn("store-writer", move || writer.run())?;
    Ok(threads)
}

struct Writer {
    connection: Connection,
    queue: mpsc::Receiver<Job>,
    place: Arc<Place>,
    /// Whether erased sessions may have left records.
    leftovers: bool,
}

/// Why a group wasn't committed.
enum Failed {
    /// One of its jobs could not be carried out: the others may be, without it.
    Job(rusqlite::Error),
    /// It could not be begun or committed.
    Group(rusqlite::Error),
}

impl Writer {
    fn run(mut self) {
        while let Some(first) = self.next() {
            self.group(first);
        }
        if let Err((_, error)) = self.connection.close() {
            tracing::warn!(%error, "the store's database was not closed well; the next start repairs it");
        }
    }

    /// Waits for a job, and sweeps meanwhile.
    fn next(&mut self) -> Option<Job> {
        while self.leftovers {
            match self.queue.try_recv() {
                Ok(job) => return Some(job),
                Err(mpsc::error::TryRecvError::Disconnected) => return None,
                Err(mpsc::error::TryRecvError::Empty) => self.sweep(),
            }
        }
        self.queue.blocking_recv()
    }

    fn sweep(&mut self) {
        let swept = Transaction::new(&mut self.connection, TransactionBehavior::Immediate).and_then(|transaction| {
            let more = sweep(&transaction)?;
            transaction.commit().map(|()| more)
        });
        self.leftovers = swept.unwrap_or_else(|error| {
            tracing::warn!(%error, "records of erased sessions could not be removed; the next erasing or start tries again");
            false
        });
    }

    fn group(&mut self, first: Job) {
        let mut jobs = vec![first];
        let queue = &mut self.queue;
        match together(&mut self.connection, &mut jobs, || queue.try_recv().ok()) {
            Ok(outcomes) => self.answer(jobs, outcomes),
            Err(Failed::Job(_)) if jobs.len() > 1 => jobs.into_iter().for_each(|job| self.alone(job)),
            Err(Failed::Job(error) | Failed::Group(error)) => self.fail(jobs, error),
        }
    }

    fn alone(&mut self, job: Job) {
        let mut jobs = vec![job];
        match together(&mut self.connection, &mut jobs, || None) {
            Ok(outcomes) => self.answer(jobs, outcomes),
            Err(Failed::Job(error) | Failed::Group(error)) => self.fail(jobs, error),
        }
    }

    /// Answers each job; it doesn't matter whether somebody still listens.
    fn answer(&mut self, jobs: Vec<Job>, outcomes: Vec<Outcome>) {
        for (job, outcome) in jobs.into_iter().zip(outcomes) {
            self.leftovers |= matches!(job.work, Work::Erase(..));
            let _ = job.answer.send(Ok(outcome));
        }
    }

    fn fail(&self, jobs: Vec<Job>, error: rusqlite::Error) {
        let error = Arc::new(error);
        for job in jobs {
            let doing = job.work.doing()();
            let _ = job.answer.send(Err(failure::error(&error, &self.place.database, doing)));
        }
    }
}

/// Carries out the jobs, and those that `next` has meanwhile, in one transaction. What it took is in `jobs` in any case.
fn together(connection: &mut Connection, jobs: &mut Vec<Job>, mut next: impl FnMut() -> Option<Job>) -> Result<Vec<Outcome>, Failed> {
    let transaction = Transaction::new(connection, TransactionBehavior::Immediate).map_err(Failed::Group)?;
    let mut outcomes = Vec::new();
    let mut bytes = 0;
    while let Some(job) = jobs.get(outcomes.len()) {
        outcomes.push(job.work.carry_out(&transaction).map_err(Failed::Job)?);
        bytes += job.work.bytes();
        if jobs.len() < GROUP_JOBS && bytes < GROUP_BYTES {
            jobs.extend(next());
        }
    }
    transaction.commit().map_err(Failed::Group)?;
    Ok(outcomes)
}

fn add(transaction: &Transaction<'_>, key: &SessionKey, append: &Append) -> rusqlite::Result<Outcome> {
    let found = find(transaction, key)?;
    let position = found.map_or_else(Position::default, |(_, position)| position);
    if position == append.end {
        return Ok(Outcome::Duplicate);
    }
    if position != append.expected {
        return Ok(Outcome::Conflict(position));
    }
    let id = match found {
        Some((id, _)) => move_end(transaction, id, append).map(|()| id)?,
        None => match erased(transaction, key)? {
            Some(until) if append.at < until => return Ok(Outcome::Erased { until }),
            Some(_) => forget(transaction, key).and_then(|()| create(transaction, key, append))?,
            None => create(transaction, key, append)?,
        },
    };
    let mut insert = transaction.prepare_cached("INSERT INTO records (session, seq, bytes) VALUES (?1, ?2, ?3)")?;
    for (seq, record) in (position.seq.cast_signed() + 1..).zip(&append.records) {
        insert.execute((id, seq, &record[..]))?;
    }
    Ok(Outcome::Appended)
}

/// A session's number, and where its log ends.
pub(super) fn find(connection: &Connection, key: &SessionKey) -> rusqlite::Result<Option<(i64, Position)>> {
    let mut find = connection.prepare_cached("SELECT id, seq, tip FROM sessions WHERE tenant = ?1 AND session = ?2")?;
    let row = find.query_row((key.tenant.as_str(), key.session.as_str()), |row| {
        let seq: i64 = row.get(1)?;
        let seq = u64::try_from(seq).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(1, seq))?;
        Ok((row.get(0)?, Position { seq, tip: row.get(2)? }))
    });
    row.optional()
}

fn create(transaction: &Transaction<'_>, key: &SessionKey, append: &Append) -> rusqlite::Result<i64> {
    let mut create = transaction.prepare_cached(
        "INSERT INTO sessions (tenant, session, seq, tip, title, updated, outstanding, archived) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    let (end, header) = (&append.end, &append.header);
    create.insert((
        key.tenant.as_str(),
        key.session.as_str(),
        end.seq.cast_signed(),
        end.tip,
        &header.title,
        header.updated.cast_signed(),
        header.outstanding,
        header.archived,
    ))
}

fn move_end(transaction: &Transaction<'_>, id: i64, append: &Append) -> rusqlite::Result<()> {
    let mut update = transaction.prepare_cached(
        "UPDATE sessions SET seq = ?2, tip = ?3, title = ?4, updated = ?5, outstanding = ?6, archived = ?7 WHERE id = ?1",
    )?;
    let (end, header) = (&append.end, &append.header);
    let updated = header.updated.cast_signed();
    update.execute((id, end.seq.cast_signed(), end.tip, &header.title, updated, header.outstanding, header.archived))?;
    Ok(())
}
