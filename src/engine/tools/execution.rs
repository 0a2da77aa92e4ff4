//! Executions as they are folded, and what they want done.

use serde::{Deserialize, Serialize};

use crate::engine::effect::Effect;
use crate::engine::record::{ToolCallCompleted, ToolCallFailed, ToolCallStarted, ToolCallTaken, ToolCallsTaken};
use crate::engine::session::Session;
use crate::ids::{Millis, ToolCallId};

/// A call that Headwater has carried out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    /// Which call, and what holds for it.
    #[serde(flatten)]
    pub call: ToolCallTaken,
    /// The last attempt, from 1; 0: none was begun, because others have to end first.
    pub attempt: u32,
    /// That one has failed then.
    pub deadline: Millis,
    /// When the next attempt starts, when this one has failed.
    pub retry_at: Option<Millis>,
}

impl Execution {
    /// Which call.
    pub fn id(&self) -> &ToolCallId {
        &self.call.tool_call_id
    }

    /// Whether an attempt was begun.
    pub(in crate::engine) fn has_begun(&self) -> bool {
        self.attempt > 0
    }

    /// Whether an attempt runs.
    pub(in crate::engine) fn runs(&self) -> bool {
        self.has_begun() && self.retry_at.is_none()
    }

    /// What it wants done.
    pub(in crate::engine) fn wanted(&self) -> Vec<Effect> {
        let (id, attempt) = (self.id(), self.attempt);
        let wake = |at| Effect::WakeExecution { at, id: id.clone(), attempt };
        match self.retry_at {
            _ if attempt == 0 => Vec::new(),
            Some(at) => vec![wake(at)],
            None => vec![Effect::Execute { id: id.clone(), attempt }, wake(self.deadline)],
        }
    }
}

impl Session {
    /// The execution of a call.
    pub fn execution(&self, id: &ToolCallId) -> Option<&Execution> {
        self.turn.as_ref()?.executions.iter().find(|execution| execution.id() == id)
    }

    /// `tool.calls.taken`.
    pub(in crate::engine) fn take_calls(&mut self, taken: ToolCallsTaken) -> Result<(), String> {
        for call in &taken.calls {
            let id = &call.tool_call_id;
            if self.tree.call(id).is_none_or(|called| !called.open) {
                return Err(format!("the call {id} is taken, and isn't open"));
            }
            self.tree.take_call(id);
        }
        let turn = self.running(&taken.turn_id)?;
        let made = taken.calls.into_iter().map(|call| Execution { call, attempt: 0, deadline: 0, retry_at: None });
        turn.executions.extend(made);
        Ok(())
    }

    /// `tool.call.started`.
    pub(in crate::engine) fn start_execution(&mut self, started: &ToolCallStarted) -> Result<(), String> {
        let execution = self.executing(&started.tool_call_id)?;
        if started.attempt != execution.attempt + 1 {
            return Err(format!("attempt {} of the call {} follows attempt {}", started.attempt, execution.id(), execution.attempt));
        }
        (execution.attempt, execution.deadline, execution.retry_at) = (started.attempt, started.deadline, None);
        Ok(())
    }

    /// `tool.call.completed`.
    pub(in crate::engine) fn complete_execution(&mut self, completed: &ToolCallCompleted) -> Result<(), String> {
        self.end_execution(&completed.tool_call_id)
    }

    /// `tool.call.failed`.
    pub(in crate::engine) fn fail_execution(&mut self, failed: &ToolCallFailed) -> Result<(), String> {
        if failed.not_before.is_none() {
            return self.end_execution(&failed.tool_call_id);
        }
        self.executing(&failed.tool_call_id)?.retry_at = failed.not_before;
        Ok(())
    }

    fn executing(&mut self, id: &ToolCallId) -> Result<&mut Execution, String> {
        let mut executions = self.turn.iter_mut().flat_map(|turn| &mut turn.executions);
        executions.find(|execution| execution.id() == id).ok_or_else(|| format!("the call {id} isn't carried out"))
    }

    fn end_execution(&mut self, id: &ToolCallId) -> Result<(), String> {
        let ended = self.executing(id)?.call.decision_id.clone();
        if let Some(turn) = &mut self.turn {
            turn.executions.retain(|execution| execution.id() != id);
        }
        self.remember_answer(ended);
        Ok(())
    }
}
