//! A store that fails when told to: for tests of everything above stores. It passes all else on to another store. May not know
//! what is stored.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::{Semaphore, watch};

use super::{Append, Error, Listed, Outcome, Pending, Position, Save, Snapshot, Store, Tombstone};
use crate::ids::{Millis, SessionId, SessionKey, Tenant};

/// What happens to one append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: it is carried out.
    Pass,
    /// `Full`; nothing is written.
    Full,
    /// `Unavailable`; nothing is written.
    FailBefore,
    /// It is carried out, and answered `Unavailable`.
    FailAfter,
    /// It waits for a [`release`](Faulty::release), then is carried out.
    HangBefore,
    /// It is carried out, and its answer waits for a [`release`](Faulty::release).
    HangAfter,
}

/// A store with faults in front of another one. Keep an `Arc` of it to steer what the code under test sees.
pub struct Faulty {
    inner: Arc<dyn Store>,
    plan: Mutex<VecDeque<Fault>>,
    down: AtomicBool,
    appends: AtomicU64,
    reads: AtomicU64,
    saves: AtomicU64,
    probes: AtomicU64,
    saving: AtomicBool,
    hanging: watch::Sender<u64>,
    released: Semaphore,
}

impl Faulty {
    /// Without a plan everything passes to `inner`.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self {
            inner,
            plan: Mutex::default(),
            down: AtomicBool::new(false),
            appends: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            saves: AtomicU64::new(0),
            probes: AtomicU64::new(0),
            saving: AtomicBool::new(true),
            hanging: watch::Sender::new(0),
            released: Semaphore::new(0),
        }
    }

    /// The next appends meet these faults, one each, after those that were planned before.
    pub fn plan(&self, faults: impl IntoIterator<Item = Fault>) {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner).extend(faults);
    }

    /// While down, everything is answered `Unavailable` and nothing is carried out.
    pub fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    /// Appends asked for so far, those that failed included.
    pub fn appends(&self) -> u64 {
        self.appends.load(Ordering::SeqCst)
    }

    /// Reads of records asked for so far.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::SeqCst)
    }

    /// While it isn't saving, snapshots are answered `Unavailable` and not kept.
    pub fn set_saving(&self, saving: bool) {
        self.saving.store(saving, Ordering::SeqCst);
    }

    /// Snapshots that were kept.
    pub fn saves(&self) -> u64 {
        self.saves.load(Ordering::SeqCst)
    }

    /// How often it was asked whether it answers.
    pub fn probes(&self) -> u64 {
        self.probes.load(Ordering::SeqCst)
    }

    /// Lets one append go on that hangs, or that will.
    pub fn release(&self) {
        self.released.add_permits(1);
    }

    /// Waits until `count` appends hang at once.
    pub async fn hanging(&self, count: u64) {
        let mut hanging = self.hanging.subscribe();
        // The sender lives as long as `self`, so that the wait can't fail.
        let _ = hanging.wait_for(|now| *now >= count).await;
    }

    async fn hang(&self) {
        self.hanging.send_modify(|now| *now += 1);
        let _leave = Leave(&self.hanging);
        // The semaphore is never closed.
        if let Ok(permit) = self.released.acquire().await {
            permit.forget();
        }
    }

    fn check_up(&self, doing: &str) -> Result<(), Error> {
        if self.down.load(Ordering::SeqCst) { Err(unavailable(doing)) } else { Ok(()) }
    }

    async fn append_with(&self, fault: Fault, key: &SessionKey, append: Append) -> Result<Outcome, Error> {
        self.check_up("appending")?;
        match fault {
            Fault::Pass => self.inner.append(key, append).await,
            Fault::Full => Err(Error::Full { doing: "appending".to_owned(), source: "a planned fault".into() }),
            Fault::FailBefore => Err(unavailable("appending")),
            Fault::FailAfter => {
                self.inner.append(key, append).await?;
                Err(unavailable("appending"))
            }
            Fault::HangBefore => {
                self.hang().await;
                self.inner.append(key, append).await
            }
            Fault::HangAfter => {
                let outcome = self.inner.append(key, append).await;
                self.hang().await;
                outcome
            }
        }
    }
}

/// Counts a hanging append off, also when its future is dropped.
struct Leave<'a>(&'a watch::Sender<u64>);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|now| *now -= 1);
    }
}

fn unavailable(doing: &str) -> Error {
    Error::Unavailable { doing: doing.to_owned(), source: "a planned fault".into() }
}

impl Store for Faulty {
    fn append<'a>(&'a self, key: &'a SessionKey, append: Append) -> Pending<'a, Result<Outcome, Error>> {
        self.appends.fetch_add(1, Ordering::SeqCst);
        let fault = self.plan.lock().unwrap_or_else(PoisonError::into_inner).pop_front().unwrap_or(Fault::Pass);
        Box::pin(self.append_with(fault, key, append))
    }

    fn read<'a>(&'a self, key: &'a SessionKey, from: u64, limit: usize) -> Pending<'a, Result<Vec<Bytes>, Error>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            self.check_up("reading")?;
            self.inner.read(key, from, limit).await
        })
    }

    fn pick<'a>(&'a self, key: &'a SessionKey, seqs: &'a [u64]) -> Pending<'a, Result<Vec<Bytes>, Error>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            self.check_up("reading")?;
            self.inner.pick(key, seqs).await
        })
    }

    fn snapshot<'a>(&'a self, key: &'a SessionKey) -> Pending<'a, Result<Option<Snapshot>, Error>> {
        Box::pin(async move {
            self.check_up("reading a snapshot")?;
            self.inner.snapshot(key).await
        })
    }

    fn save<'a>(&'a self, key: &'a SessionKey, save: Save) -> Pending<'a, Result<bool, Error>> {
        Box::pin(async move {
            self.check_up("keeping a snapshot")?;
            if !self.saving.load(Ordering::SeqCst) {
                return Err(unavailable("keeping a snapshot"));
            }
            let kept = self.inner.save(key, save).await?;
            self.saves.fetch_add(u64::from(kept), Ordering::SeqCst);
            Ok(kept)
        })
    }

    fn position<'a>(&'a self, key: &'a SessionKey) -> Pending<'a, Result<Position, Error>> {
        Box::pin(async move {
            self.check_up("looking where a log ends")?;
            self.inner.position(key).await
        })
    }

    fn sessions<'a>(
        &'a self,
        tenant: &'a Tenant,
        after: Option<&'a SessionId>,
        limit: usize,
        archived: Option<bool>,
    ) -> Pending<'a, Result<Vec<Listed>, Error>> {
        Box::pin(async move {
            self.check_up("listing sessions")?;
            self.inner.sessions(tenant, after, limit, archived).await
        })
    }

    fn outstanding(&self) -> Pending<'_, Result<Vec<SessionKey>, Error>> {
        Box::pin(async move {
            self.check_up("listing outstanding sessions")?;
            self.inner.outstanding().await
        })
    }

    fn erase<'a>(&'a self, key: &'a SessionKey, tombstone: Tombstone) -> Pending<'a, Result<(), Error>> {
        Box::pin(async move {
            self.check_up("erasing")?;
            self.inner.erase(key, tombstone).await
        })
    }

    fn erased<'a>(&'a self, key: &'a SessionKey) -> Pending<'a, Result<Option<Millis>, Error>> {
        Box::pin(async move {
            self.check_up("looking whether a log was erased")?;
            self.inner.erased(key).await
        })
    }

    fn ready(&self) -> Pending<'_, Result<(), Error>> {
        self.probes.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            // Others ask meanwhile.
            tokio::task::yield_now().await;
            self.check_up("looking whether it answers")?;
            self.inner.ready().await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Header, conformance, memory::Memory};

    fn faulty() -> Arc<Faulty> {
        Arc::new(Faulty::new(Arc::new(Memory::new())))
    }

    fn key() -> SessionKey {
        SessionKey { tenant: "tenant".into(), session: "session".into() }
    }

    fn first() -> Append {
        Append::new(Position::default(), vec![Bytes::from_static(b"first")], Header::default())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn keeps_the_promises_of_a_store_without_a_plan() {
        conformance::run_all(|| faulty()).await;
    }

    #[tokio::test]
    async fn fails_before_and_after_writing() {
        let store = faulty();
        store.plan([Fault::FailBefore, Fault::Full, Fault::FailAfter]);
        assert!(matches!(store.append(&key(), first()).await, Err(Error::Unavailable { .. })));
        assert!(matches!(store.append(&key(), first()).await, Err(Error::Full { .. })));
        assert_eq!(store.position(&key()).await.unwrap(), Position::default());
        assert!(matches!(store.append(&key(), first()).await, Err(Error::Unavailable { .. })));
        assert_eq!(store.append(&key(), first()).await.unwrap(), Outcome::Duplicate);
        assert_eq!(store.appends(), 4);
    }

    #[tokio::test]
    async fn hangs_until_released() {
        for (fault, written) in [(Fault::HangBefore, 0), (Fault::HangAfter, 1)] {
            let store = faulty();
            store.plan([fault]);
            let appending = tokio::spawn({
                let store = Arc::clone(&store);
                async move { store.append(&key(), first()).await }
            });
            store.hanging(1).await;
            assert_eq!(store.position(&key()).await.unwrap().seq, written);
            store.release();
            assert_eq!(appending.await.unwrap().unwrap(), Outcome::Appended);
            assert_eq!(store.position(&key()).await.unwrap(), first().end);
        }
    }

    #[tokio::test]
    async fn a_dropped_append_hangs_no_more() {
        let store = faulty();
        store.plan([Fault::HangBefore]);
        let (held, lost) = (Arc::clone(&store), key());
        tokio::select! {
            biased;
            _ = held.append(&lost, first()) => panic!("it hangs"),
            () = store.hanging(1) => {}
        }
        assert_eq!(*store.hanging.borrow(), 0);
        assert_eq!(store.position(&key()).await.unwrap().seq, 0);
    }

    #[tokio::test]
    async fn answers_nothing_while_down() {
        let store = faulty();
        store.set_down(true);
        assert!(store.ready().await.is_err());
        assert!(store.append(&key(), first()).await.is_err());
        assert!(store.read(&key(), 1, 1).await.is_err());
        store.set_down(false);
        assert!(store.ready().await.is_ok());
        assert_eq!(store.position(&key()).await.unwrap().seq, 0);
    }
}
