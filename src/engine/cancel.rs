//! Stopping: the turn that is there, or one that waits for it.

use super::Context;
use super::arrivals::Arrival;
use super::call::turn;
use super::record::{Body, DropReason, JobDropped, Record};
use super::session::Session;
use super::write::Writer;
use crate::ids::TurnId;
use crate::protocol::CancelReason;

/// Stops the turn that is there, or the one that `name` names, wherever it stands. Those that wait go on. What waits for a call is given
/// up; what one reads already stops with its turn, and something that happened stays. No records: there was nothing to stop.
pub fn cancel(session: &Session, name: Option<&TurnId>, context: &Context) -> Vec<Record> {
    let mut writer = Writer::new(session, context);
    if let Some(arrival) = name.and_then(|name| waiting(session, name)) {
        let is_read = session.arrivals.position(&arrival.id).is_some_and(|place| place <= session.reading() as usize);
        if is_read && arrival.is_event() {
            return writer.records;
        }
        writer.give_up_arrival(arrival, None);
        if !is_read {
            return writer.records;
        }
    }
    if session.newer.is_some() {
        return writer.records;
    }
    let named = name.and_then(|name| session.turns.turn_of(name)).map(|(id, _)| id);
    if let Some(suspended) = session.suspended().iter().find(|suspended| named.as_ref() == Some(&suspended.turn.id)) {
        writer.stop_suspended(&suspended.turn, None);
        return writer.records;
    }
    let Some(turn) = turn(session) else { return writer.records };
    let named = if name.is_none() { Some(turn.id.clone()) } else { named };
    if named.as_ref() == Some(&turn.id) {
        writer.stop(turn, None, false);
        writer.go_on();
    } else if let Some(queued) = session.queue.iter().find(|queued| named.as_ref() == Some(&queued.id)) {
        writer.give_up(queued, None);
    }
    writer.records
}

/// What waits for a call, unless the turn that is there has its name.
fn waiting<'s>(session: &'s Session, name: &TurnId) -> Option<&'s Arrival> {
    let runs = session.newer.is_some() || session.turn.as_ref().is_some_and(|turn| turn.id == *name);
    session.arrivals.get(name).filter(|_| !runs).map(AsRef::as_ref)
}

/// The submitter of the turn that `name` names went away: it is stopped, unless others were merged into it.
pub fn leave(session: &Session, name: &TurnId, context: &Context) -> Vec<Record> {
    // One that pauses waits for its answer, whoever is there.
    if session.is_merged(name) || session.is_interrupted() { Vec::new() } else { cancel(session, Some(name), context) }
}

/// Ends what was unfinished in a log that was imported: it goes on nowhere.
pub fn end_imported(session: &Session, context: &Context) -> Vec<Record> {
    let mut writer = Writer::new(session, context);
    if session.newer.is_some() {
        return writer.records;
    }
    for queued in session.queue.iter() {
        writer.give_up(queued, Some(CancelReason::Imported));
    }
    writer.give_up_steering(CancelReason::Imported);
    if let Some(turn) = turn(session) {
        writer.stop(turn, Some(CancelReason::Imported), false);
    }
    for suspended in session.suspended() {
        writer.stop_suspended(&suspended.turn, Some(CancelReason::Imported));
    }
    if let Some(job) = &session.job {
        writer.push(Body::JobDropped(JobDropped { job_id: job.id.clone(), reason: DropReason::Imported }));
    }
    for event in session.arrivals.iter().filter(|arrival| arrival.is_event()) {
        writer.give_up_arrival(event, Some(CancelReason::Imported));
    }
    writer.records
}
