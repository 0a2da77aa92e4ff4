//! Lists that the store alone answers: a tenant's sessions, a session's records. Nothing is opened for them.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::log;
use super::told::told;
use crate::clock;
use crate::engine::Record;
use crate::ids::{SessionId, SessionKey, Tenant};
use crate::protocol::{Code, Cursor, Event, Json, RecordLine, RecordsPage, Refusal, SessionListed, SessionsPage};
use crate::store::{Listed, Store};

/// A page of a tenant's sessions.
pub async fn sessions(
    store: &dyn Store,
    tenant: &Tenant,
    after: Option<SessionId>,
    limit: usize,
    archived: Option<bool>,
) -> Result<SessionsPage, Refusal> {
    let limit = limit.max(1);
    let listed = store.sessions(tenant, after.as_ref(), limit.saturating_add(1), archived).await;
    // What the store says may name places that are nobody's business.
    let mut listed = listed.map_err(|error| {
        tracing::error!(%error, source = std::error::Error::source(&error).map(tracing::field::display), "sessions can't be listed");
        Refusal::new(log::unusable(&error).code, "the store doesn't answer; ask again in a moment")
    })?;
    let more = listed.len() > limit;
    listed.truncate(limit);
    let next = listed.last().filter(|_| more).map(|listed| listed.session.clone());
    let session = |Listed { session, header, .. }| SessionListed {
        session_id: session,
        title: header.title,
        archived: header.archived,
        updated_at: header.updated,
    };
    Ok(SessionsPage { sessions: listed.into_iter().map(session).collect(), next })
}

/// What readers are told of the `limit` records that end with the one at `until`. Like all of a log, it was written whole.
pub async fn told_until(store: &dyn Store, key: &SessionKey, until: u64, limit: u64) -> Result<Vec<Event>, Refusal> {
    let first = until.saturating_sub(limit.saturating_sub(1)).max(1);
    let count = usize::try_from(until.saturating_add(1).saturating_sub(first)).unwrap_or(usize::MAX);
    let mut events = Vec::new();
    let mut seq = first;
    while seq <= until {
        let portion = PORTION.min(count).min(usize::try_from(until + 1 - seq).unwrap_or(PORTION));
        let read = store.read(key, seq, portion).await.map_err(|error| log::refusal(key, &error))?;
        if read.is_empty() {
            break;
        }
        for bytes in &read {
            let record = Record::decode(bytes).map_err(|error| {
                tracing::error!(session.id = %key, seq, %error, "a record can't be decoded");
                Refusal::new(Code::SessionCorrupt, format!("record {seq} of the session is damaged; restore it from a backup"))
            })?;
            events.extend(told(&record).map(|body| Event { cursor: Some(Cursor::after(seq)), at: record.at, body }));
            seq += 1;
        }
    }
    Ok(events)
}

/// So many records are read at once.
const PORTION: usize = 32;
/// A page that has so many bytes isn't made longer.
const PAGE_BYTES: usize = 4 << 20;

/// A page of a session's records: as many as are asked for, unless they are large.
pub async fn records(store: &dyn Store, key: &SessionKey, after: u64, limit: usize) -> Result<RecordsPage, Refusal> {
    let failed = |error| log::refusal(key, &error);
    let end = store.position(key).await.map_err(failed)?.seq;
    let from = after.saturating_add(1);
    // Not beyond the end, which is that of an append: what comes after it may be a part of one.
    let limit = limit.max(1).min(usize::try_from(end.saturating_sub(after)).unwrap_or(usize::MAX));
    let mut page = Vec::new();
    while page.len() < limit && page.iter().map(Bytes::len).sum::<usize>() < PAGE_BYTES {
        let portion = PORTION.min(limit - page.len());
        let read = store.read(key, from.saturating_add(page.len() as u64), portion).await.map_err(failed)?;
        if read.is_empty() {
            break;
        }
        page.extend(read);
    }
    // A log that ends before its end was erased meanwhile.
    if end == 0 || (from <= end && page.is_empty()) {
        let until = store.erased(key).await.map_err(failed)?;
        return Err(if until.is_some_and(|until| clock::now() < until) { log::erased(key) } else { log::not_found(key) });
    }
    let mut records = Vec::with_capacity(page.len());
    for (bytes, seq) in page.iter().zip(from..) {
        let record = serde_json::from_slice::<&RawValue>(bytes).and_then(|raw| Json::from_value(&raw));
        let record = record.map_err(|error| {
            tracing::error!(session.id = %key, seq, %error, "a record isn't JSON");
            Refusal::new(Code::SessionCorrupt, format!("record {seq} of the session is damaged; restore it from a backup"))
        })?;
        records.push(RecordLine { seq, record });
    }
    let last = records.last().map_or(after, |line| line.seq);
    Ok(RecordsPage { session_id: key.session.clone(), records, next: (last < end).then_some(last), end })
}
