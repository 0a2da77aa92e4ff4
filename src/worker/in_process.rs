//! A worker that is a function of this process: for who uses Headwater as a library, and for tests.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;

use super::{Asking, Configured, Error, Patience, Worker};
use crate::protocol::{DecisionAnswer, DecisionRequest, TriggerKind};

type Decide = dyn Fn(DecisionRequest) -> LocalBoxFuture<'static, Result<DecisionAnswer, Error>> + Send + Sync;

/// A function that decides. Clones are the same one.
#[derive(Clone)]
pub struct InProcess(Arc<Decide>);

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InProcess")
    }
}

impl InProcess {
    /// A worker that calls `decide`.
    pub fn new<F, D>(decide: F) -> Self
    where
        F: Fn(DecisionRequest) -> D + Send + Sync + 'static,
        D: Future<Output = Result<DecisionAnswer, Error>> + 'static,
    {
        Self(Arc::new(move |request| decide(request).boxed_local()))
    }
}

impl From<InProcess> for Configured {
    fn from(worker: InProcess) -> Self {
        Self {
            factory: Arc::new(move || Box::new(worker.clone())),
            patience: Patience::default(),
            triggers: TriggerKind::asked_by_default(),
        }
    }
}

impl Worker for InProcess {
    fn decide(&self, request: DecisionRequest) -> Asking {
        let panicked = || Error::Failed("the worker panicked".to_owned());
        match catch_unwind(AssertUnwindSafe(|| (self.0)(request))) {
            Ok(asking) => AssertUnwindSafe(asking).catch_unwind().map(move |ended| ended.unwrap_or_else(|_| Err(panicked()))).boxed_local(),
            Err(_) => std::future::ready(Err(panicked())).boxed_local(),
        }
    }
}
