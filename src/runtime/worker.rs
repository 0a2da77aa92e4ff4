//! Worker threads: each owns sessions, one local task each, and has providers and agents' workers of its own.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use tokio::sync::mpsc;

use super::command::Command;
use super::session_task;
use super::shared::{Residence, Shared};
use crate::ids::{AgentId, SessionKey};
use crate::provider::Provider;
use crate::worker;

/// A session that a worker thread is to own.
pub struct Opening {
    /// Which.
    pub key: SessionKey,
    /// What it is asked.
    pub commands: mpsc::Receiver<Command>,
    /// What is known of it while it is in memory.
    pub residence: Arc<Residence>,
}

/// What the session tasks of a thread share.
pub struct Worker {
    /// The runtime.
    pub shared: Arc<Shared>,
    providers: RefCell<HashMap<String, Rc<dyn Provider>>>,
    /// Who decides, by agent.
    deciders: RefCell<HashMap<AgentId, Rc<dyn worker::Worker>>>,
}

impl Worker {
    /// This thread's provider for an llm.
    pub fn provider(&self, llm: &str) -> Option<Rc<dyn Provider>> {
        if let Some(provider) = self.providers.borrow().get(llm) {
            return Some(provider.clone());
        }
        let provider: Rc<dyn Provider> = (self.shared.options.llms.get(llm)?.factory)().into();
        self.providers.borrow_mut().insert(llm.to_owned(), provider.clone());
        Some(provider)
    }

    /// This thread's own of an agent's worker.
    pub fn agent_worker(&self, agent: &AgentId) -> Option<Rc<dyn worker::Worker>> {
        if let Some(decider) = self.deciders.borrow().get(agent) {
            return Some(decider.clone());
        }
        let decider: Rc<dyn worker::Worker> = (self.shared.options.workers.get(agent)?.factory)().into();
        self.deciders.borrow_mut().insert(agent.clone(), decider.clone());
        Some(decider)
    }
}

thread_local! {
    /// The runtimes that this thread entered, with its place among each one's workers.
    static ENTERED: RefCell<Vec<(Weak<Shared>, usize)>> = const { RefCell::new(Vec::new()) };
}

/// This thread's place among the workers of `shared`.
pub fn place(shared: &Arc<Shared>) -> Option<usize> {
    let this = Arc::downgrade(shared);
    ENTERED.with_borrow(|entered| entered.iter().find(|(other, _)| other.ptr_eq(&this)).map(|&(_, place)| place))
}

/// Makes this thread a worker of `shared`; again: nothing.
pub fn enter(shared: &Arc<Shared>) {
    if place(shared).is_some() {
        return;
    }
    let (sender, mut openings) = mpsc::unbounded_channel::<Opening>();
    let place = shared.add_worker(sender);
    ENTERED.with_borrow_mut(|entered| {
        entered.retain(|(other, _)| other.strong_count() > 0);
        entered.push((Arc::downgrade(shared), place));
    });
    let worker = Rc::new(Worker { shared: shared.clone(), providers: RefCell::default(), deciders: RefCell::default() });
    tokio::task::spawn_local(async move {
        while let Some(opening) = openings.recv().await {
            tokio::task::spawn_local(session_task::run(worker.clone(), opening));
        }
    });
}
