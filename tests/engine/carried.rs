//! Tool calls that are carried out, in tests: attempts end with a result, an error, or nothing.

use std::sync::Arc;

use headwater::engine::{self, Carrier, Effect, Outcome, Record, Tools};
use headwater::ids::{Millis, SessionId, ToolCallId};
use headwater::protocol::{Code, DecisionAnswer, DecisionRequest, Limits, Refusal, ServerTool};

use crate::talk::Talk;

/// Calls of a session that are carried out at a time.
pub const EXECUTIONS_MAX: usize = 2;

impl Talk {
    /// Gives an agent tools of its own.
    pub fn equip(&mut self, agent: &str, tools: Vec<ServerTool>) {
        let tools = tools.into_iter().map(|tool| {
            let carrier = Carrier::from(tool.by);
            (tool, carrier)
        });
        let agents = Arc::make_mut(&mut self.agents);
        agents.entry(agent.into()).or_default().tools = Arc::new(Tools::new(tools).expect("good tools"));
    }

    /// The attempts that are wanted.
    pub fn executions(&self) -> Vec<(ToolCallId, u32)> {
        let of = |effect| if let Effect::Execute { id, attempt } = effect { Some((id, attempt)) } else { None };
        engine::wanted(&self.session).into_iter().filter_map(of).collect()
    }

    /// When something is to happen to executions, the soonest first.
    pub fn execution_wakes(&self) -> Vec<(Millis, ToolCallId, u32)> {
        let of = |effect| if let Effect::WakeExecution { at, id, attempt } = effect { Some((at, id, attempt)) } else { None };
        let mut wakes: Vec<_> = engine::wanted(&self.session).into_iter().filter_map(of).collect();
        wakes.sort();
        wakes
    }

    /// What the worker is asked about a call.
    pub fn execution_request(&mut self, call: &ToolCallId) -> Option<DecisionRequest> {
        let context = self.context();
        engine::execution_request(&self.session, &SessionId::from("s"), call, &context).expect("all is in memory")
    }

    /// The running attempt of a call ends.
    pub fn carried(&mut self, call: &ToolCallId, outcome: Outcome) -> Vec<Record> {
        let attempt = self.session.execution(call).map_or(0, |execution| execution.attempt);
        let context = self.context();
        for other in [attempt.wrapping_sub(1), attempt + 1] {
            let of_other = engine::executed(&self.session, call, other, outcome.clone(), &context);
            assert!(of_other.is_empty(), "another attempt than the running one changes nothing");
        }
        let records = engine::executed(&self.session, call, attempt, outcome.clone(), &context);
        self.take(&records);
        assert!(engine::executed(&self.session, call, attempt, outcome, &context).is_empty(), "it ends once");
        records
    }

    /// Nothing came of the running attempt of a call.
    pub fn lost(&mut self, call: &ToolCallId, reached: bool) -> Vec<Record> {
        self.carried(call, Outcome::Lost { code: Code::WorkerFailed, message: "it failed".to_owned(), reached })
    }

    /// The worker answers about a call, with JSON.
    pub fn answer_call(&mut self, call: &ToolCallId, json: &str) -> Result<Vec<Record>, Refusal> {
        let id = self.session.execution(call).expect("it is carried out").call.decision_id.clone();
        let answer = DecisionAnswer::decode(json.as_bytes(), &Limits::DEFAULT)?;
        let context = self.context();
        let records = engine::answer(&self.session, &id, &answer, &context)?;
        self.take(&records);
        if self.session.execution(call).is_none() {
            assert_eq!(engine::answer(&self.session, &id, &answer, &context).unwrap(), [], "the same again is known");
        }
        Ok(records)
    }

    /// Waits until an attempt is over, or the next one is due.
    pub fn wake_execution(&mut self) -> Vec<Record> {
        let Some((at, id, attempt)) = self.execution_wakes().into_iter().next() else { return Vec::new() };
        self.now = at.saturating_sub(1001).max(self.now);
        if self.now + 1000 < at {
            let early = self.context();
            assert!(engine::wake_execution(&self.session, &id, attempt, &early).is_empty(), "it isn't time");
        }
        self.now = at.max(self.now);
        let context = self.context();
        let records = engine::wake_execution(&self.session, &id, attempt, &context);
        self.take(&records);
        records
    }
}
