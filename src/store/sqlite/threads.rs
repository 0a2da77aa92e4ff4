//! Threads that take what is asked from one bounded queue, and end when nobody can ask any more. May not know what is asked.

use std::fmt;
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};

use crate::store::Error;

/// What may wait in a queue; who asks for more waits for room.
pub(super) const QUEUE: usize = 1024;

/// Where an answer goes.
pub(super) type Answer<T> = oneshot::Sender<Result<T, Error>>;

/// The asking end of some threads' queue. Dropping it waits until they have done what was asked.
pub(super) struct Threads<J> {
    queue: Option<mpsc::Sender<J>>,
    handles: Vec<JoinHandle<()>>,
}

impl<J: Send + 'static> Threads<J> {
    /// No threads yet; the other end of their queue.
    pub(super) fn new() -> (Self, mpsc::Receiver<J>) {
        let (queue, asked) = mpsc::channel(QUEUE);
        (Self { queue: Some(queue), handles: Vec::new() }, asked)
    }

    /// One more thread; `run` must end when the queue does.
    pub(super) fn spawn(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let handle = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        self.handles.push(handle.map_err(|error| Error::Open(format!("can't start the store's thread {name}: {error}")))?);
        Ok(())
    }

    /// Asks and waits for the answer. Dropping this takes nothing back.
    pub(super) async fn ask<T>(&self, job: impl FnOnce(Answer<T>) -> J, doing: impl FnOnce() -> String) -> Result<T, Error> {
        let (answer, answered) = oneshot::channel();
        if let Some(queue) = &self.queue
            && queue.send(job(answer)).await.is_ok()
            && let Ok(result) = answered.await
        {
            return result;
        }
        Err(Error::Unavailable { doing: doing(), source: "the store's thread has ended".into() })
    }
}

impl<J> fmt::Debug for Threads<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Threads").field(&self.handles.len()).finish()
    }
}

impl<J> Drop for Threads<J> {
    fn drop(&mut self) {
        self.queue = None;
        for handle in self.handles.drain(..) {
            if handle.join().is_err() {
                tracing::error!("a thread of the store had panicked");
            }
        }
    }
}
