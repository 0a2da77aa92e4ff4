//! What a session's task answers without changing anything.

use std::sync::Arc;

use super::Joined;
use super::session_task::Task;
use crate::engine;
use crate::ids::NodeId;
use crate::protocol::{Code, Refusal, Running, SessionPage, Snapshot, TreePage};

impl Task {
    /// The conversation as readers see it, the reply in the making included.
    pub(super) async fn snapshot(&mut self) -> Result<Arc<Snapshot>, Refusal> {
        let nodes = engine::reader_nodes(&self.log.session);
        self.log.recall(nodes).await?;
        let mut messages = engine::snapshot_messages(&self.log.session);
        let (message, writing) = self.running.as_ref().and_then(super::running::Running::joined).unzip();
        messages.extend(message.map(Arc::new));
        Ok(Arc::new(Snapshot { messages, state: None, writing }))
    }

    /// The conversation, and what follows while a turn runs.
    pub(super) async fn join(&mut self) -> Result<Joined, Refusal> {
        self.must_exist()?;
        let snapshot = self.snapshot().await?;
        let turn = self.log.session.turn.as_ref();
        let turn = turn.map(|turn| Running { turn_id: turn.id.clone(), started_at: turn.started_at });
        let running = match turn {
            Some(turn) => Some((turn, self.audience.admit()?)),
            None => None,
        };
        Ok(Joined { snapshot, cursor: self.cursor(), running })
    }

    /// The session's page.
    pub(super) async fn page(&mut self) -> Result<SessionPage, Refusal> {
        self.must_exist()?;
        let nodes = engine::reader_nodes(&self.log.session);
        self.log.recall(nodes).await?;
        engine::page(&self.log.session, &self.log.key.session).ok_or_else(|| self.not_found())
    }

    /// A page of the session's tree.
    pub(super) async fn tree(&mut self, after: Option<&NodeId>, limit: usize) -> Result<TreePage, Refusal> {
        self.must_exist()?;
        let (nodes, _) = engine::tree_page(&self.log.session, &self.log.key.session, after, limit)?;
        self.log.recall(nodes).await?;
        engine::tree_page(&self.log.session, &self.log.key.session, after, limit).map(|(_, page)| page)
    }

    fn must_exist(&self) -> Result<(), Refusal> {
        if self.log.session.agent_id.is_some() { Ok(()) } else { Err(self.not_found()) }
    }

    fn not_found(&self) -> Refusal {
        let id = &self.log.key.session;
        Refusal::new(Code::SessionNotFound, format!("there is no session {id}")).with("session_id", id.as_str())
    }
}
