//! Stopping: the turn that is there, or one that waits for it.

use super::Context;
use super::call::turn;
use super::record::Record;
use super::session::Session;
use super::write::Writer;
use crate::ids::TurnId;
use crate::protocol::CancelReason;

/// Stops the turn that is there, or the one that `name` names, wherever it stands. Those that wait go on. No records: there was
/// nothing to stop.
pub fn cancel(session: &Session, name: Option<&TurnId>, context: &Context) -> Vec<Record> {
    let mut writer = Writer::new(session, context);
    let Some(turn) = turn(session) else { return writer.records };
    let named = name.map_or_else(|| Some(turn.id.clone()), |name| session.turns.turn_of(name).map(|(id, _)| id));
    if named.as_ref() == Some(&turn.id) {
        writer.stop(turn, None, false);
        writer.go_on();
    } else if let Some(queued) = session.queue.iter().find(|queued| named.as_ref() == Some(&queued.id)) {
        writer.give_up(queued, None);
    }
    writer.records
}

/// The submitter of the turn that `name` names went away: it is stopped, unless others were merged into it.
pub fn leave(session: &Session, name: &TurnId, context: &Context) -> Vec<Record> {
    if session.is_merged(name) { Vec::new() } else { cancel(session, Some(name), context) }
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
    if let Some(turn) = turn(session) {
        writer.stop(turn, Some(CancelReason::Imported), false);
    }
    writer.records
}
