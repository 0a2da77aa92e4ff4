//! Reads a log page by page, and decodes it: a long one on a thread of its own, so that it goes on while the pages before are
//! folded. May not know what a fold is.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::maybe_done;
use futures_util::poll;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::log::refusal;
use crate::engine::Record;
use crate::ids::SessionKey;
use crate::protocol::Refusal;
use crate::store::{self, Pending, Position, Store};

/// Records read at once.
pub const PAGE: usize = 1000;
/// Pages that wait to be folded.
const AHEAD: usize = 2;

/// Why a log wasn't folded.
pub enum Unfolded {
    /// It can't be read.
    Unread(Refusal),
    /// It doesn't make a session.
    Misfit(String),
}

/// Some records of a log.
pub struct Page {
    /// In order.
    pub records: Vec<Record>,
    /// Where the log ends with them.
    pub end: Position,
}

/// The pages of a log.
pub struct Pages {
    pub store: Arc<dyn Store>,
    pub key: SessionKey,
    /// Where they begin.
    pub after: Position,
    /// The last record of all.
    pub end: u64,
}

type Read = Result<Vec<Bytes>, store::Error>;

impl Pages {
    /// The first page.
    pub async fn first(&self) -> Result<Page, Unfolded> {
        let read = self.read(self.after.seq).await;
        self.decode(read, self.after)
    }

    /// All pages, read ahead. They end with the log, with the first error, or when nobody takes them any more.
    pub fn ahead(self) -> mpsc::Receiver<Result<Page, Unfolded>> {
        let (give, pages) = mpsc::channel(AHEAD);
        let handle = Handle::current();
        tokio::task::spawn_blocking(move || {
            let mut after = self.after;
            let mut reading = Box::pin(maybe_done(self.read(after.seq)));
            while after.seq < self.end {
                let read = handle.block_on(async {
                    reading.as_mut().await;
                    let read = reading.as_mut().take_output();
                    // The store reads the next ones while these are decoded.
                    let before = after.seq + read.as_ref().and_then(|read| read.as_ref().ok()).map_or(0, Vec::len) as u64;
                    reading.set(maybe_done(self.read(before)));
                    if before < self.end {
                        let _ = poll!(reading.as_mut());
                    }
                    read
                });
                let page = self.decode(read.unwrap_or_else(|| Ok(Vec::new())), after);
                let end = page.as_ref().map_or(after, |page| page.end);
                let goes_on = end != after;
                after = end;
                if give.blocking_send(page).is_err() || !goes_on {
                    break;
                }
            }
        });
        pages
    }

    /// Reads up to a page behind the record `before`.
    fn read(&self, before: u64) -> Pending<'_, Read> {
        let rest = usize::try_from(self.end.saturating_sub(before)).unwrap_or(PAGE);
        self.store.read(&self.key, before + 1, rest.min(PAGE))
    }

    fn decode(&self, read: Read, after: Position) -> Result<Page, Unfolded> {
        let read = read.map_err(|error| Unfolded::Unread(refusal(&self.key, &error)))?;
        let mut page = Page { records: Vec::with_capacity(read.len()), end: after };
        for bytes in &read {
            let misfit = |error| Unfolded::Misfit(format!("record {}: {error}", page.end.seq + 1));
            page.records.push(Record::decode(bytes).map_err(misfit)?);
            page.end = page.end.then(bytes);
        }
        Ok(page)
    }
}
