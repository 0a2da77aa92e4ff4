//! What every store must do, as checks: a backend's tests call [`run_all`]. They know the trait, and no backend.

mod appends;
mod listings;
mod races;
mod reads;
mod snapshots;

use std::sync::Arc;

use bytes::Bytes;

use super::{Append, Header, Outcome, Position, Store};
use crate::ids::SessionKey;

/// Runs every check, each on a store of its own that `make` gives, which must be empty. Needs a tokio runtime; the races are
/// real on one with several threads.
pub async fn run_all(mut make: impl FnMut() -> Arc<dyn Store>) {
    appends::follow_each_other(&*make()).await;
    appends::several_records_are_one_step(&*make()).await;
    appends::conflict_names_the_real_position(&*make()).await;
    appends::conflict_when_only_the_tip_differs(&*make()).await;
    appends::repeated_is_a_duplicate(&*make()).await;
    appends::repeated_later_is_a_conflict(&*make()).await;
    appends::senseless_is_refused(&*make()).await;
    appends::any_bytes_are_kept(&*make()).await;
    appends::big_records_are_kept(&*make()).await;
    reads::no_log_is_empty(&*make()).await;
    reads::any_range(&*make()).await;
    reads::picks_in_the_order_asked(&*make()).await;
    reads::long_log_in_pages(&*make()).await;
    listings::sessions_in_pages(&*make()).await;
    listings::headers_are_the_last_ones(&*make()).await;
    listings::outstanding_follows_headers(&*make()).await;
    listings::archived_are_listed_apart(&*make()).await;
    listings::erased_is_gone(&*make()).await;
    listings::tombstones_refuse_until_their_end(&*make()).await;
    listings::tombstones_are_replaced_and_forgotten(&*make()).await;
    listings::tenants_never_touch(&*make()).await;
    listings::ready_when_open(&*make()).await;
    snapshots::kept_until_the_next(&*make()).await;
    snapshots::not_kept_where_it_does_not_fit(&*make()).await;
    snapshots::large_ones_are_whole(&*make()).await;
    snapshots::gone_with_its_log(&*make()).await;
    races::one_appender_wins_each_position(make()).await;
    races::the_same_append_lands_once(make()).await;
    races::sessions_grow_side_by_side(make()).await;
    races::reads_see_whole_appends_and_every_answered_one(make()).await;
    races::dropped_appends_are_whole_or_nothing(make()).await;
}

fn key(tenant: &str, session: &str) -> SessionKey {
    SessionKey { tenant: tenant.into(), session: session.into() }
}

fn append(expected: Position, records: &[&[u8]]) -> Append {
    let records = records.iter().map(|record| Bytes::copy_from_slice(record)).collect();
    Append::new(expected, records, Header { updated: expected.seq, ..Header::default() })
}

/// Appends what must be appended; where the log ends then.
async fn appended(store: &dyn Store, key: &SessionKey, expected: Position, records: &[&[u8]]) -> Position {
    let append = append(expected, records);
    let end = append.end;
    assert_eq!(store.append(key, append).await.unwrap(), Outcome::Appended, "{key} after {expected:?}");
    end
}

/// The whole log is `records`, by every way to ask.
async fn assert_log(store: &dyn Store, key: &SessionKey, records: &[&[u8]]) {
    let stored = store.read(key, 1, records.len() + 1).await.unwrap();
    assert_eq!(stored, records, "the records of {key}");
    assert_eq!(store.position(key).await.unwrap(), fold(&stored), "the position of {key}");
}

fn fold(records: &[Bytes]) -> Position {
    records.iter().fold(Position::default(), |position, record| position.then(record))
}
