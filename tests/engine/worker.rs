//! Agents' workers in tests: an open decision is asked, answered, or not.

use std::sync::Arc;

use headwater::engine::{self, Asking, Decision, Effect, Patience, Record};
use headwater::ids::{DecisionId, SessionId};
use headwater::protocol::{Code, DecisionAnswer, DecisionRequest, Limits, Refusal, TriggerKind};

use crate::talk::Talk;

impl Talk {
    /// Gives an agent a worker that is asked everything but about a turn's end.
    pub fn hire(&mut self, agent: &str) {
        self.hire_for(agent, TriggerKind::asked_by_default());
    }

    /// Gives an agent a worker that is asked about these.
    pub fn hire_for(&mut self, agent: &str, triggers: Vec<TriggerKind>) {
        let agents = Arc::make_mut(&mut self.agents);
        let llms = ["main", "small"].map(str::to_owned).to_vec();
        agents.entry(agent.into()).or_default().worker =
            Some(Asking { llm: "main".to_owned(), llms, patience: Patience::default(), triggers });
    }

    /// The agent has no worker any more.
    pub fn dismiss(&mut self, agent: &str) {
        Arc::make_mut(&mut self.agents).entry(agent.into()).or_default().worker = None;
    }

    /// The open decision.
    pub fn decision(&self) -> Option<&Decision> {
        self.session.turn.as_ref()?.decision.as_deref()
    }

    /// What the worker is asked.
    pub fn request(&mut self) -> DecisionRequest {
        let context = self.context();
        engine::decision_request(&self.session, &SessionId::from("s"), &context).expect("all is in memory").expect("a decision is open")
    }

    /// The worker answers.
    pub fn answer(&mut self, id: &DecisionId, answer: &DecisionAnswer) -> Result<Vec<Record>, Refusal> {
        let context = self.context();
        let seq = self.session.seq;
        let records = engine::answer(&self.session, id, answer, &context)?;
        assert_eq!(self.session.seq, seq);
        self.take(&records);
        if !records.is_empty() {
            // The same again is known, whatever it says.
            let context = self.context();
            assert_eq!(engine::answer(&self.session, id, &DecisionAnswer::default(), &context).unwrap(), []);
        }
        Ok(records)
    }

    /// The worker answers with JSON.
    pub fn answer_json(&mut self, id: &DecisionId, json: &str) -> Result<Vec<Record>, Refusal> {
        let answer = DecisionAnswer::decode(json.as_bytes(), &Limits::DEFAULT)?;
        self.answer(id, &answer)
    }

    /// The attempt to ask fails.
    pub fn unanswered(&mut self, code: Code) -> Vec<Record> {
        let open = self.decision().expect("a decision is open");
        let (id, attempt) = (open.id.clone(), open.attempt);
        let context = self.context();
        let why = engine::Unanswered { code, message: "it failed", pause: 0 };
        for other in [attempt - 1, attempt + 1] {
            let of_other = engine::decision_failed(&self.session, &id, other, why, &context);
            assert!(of_other.is_empty(), "another attempt than the running one changes nothing");
        }
        let records = engine::decision_failed(&self.session, &id, attempt, why, &context);
        self.take(&records);
        assert!(engine::decision_failed(&self.session, &id, attempt, why, &context).is_empty(), "it fails once");
        records
    }

    /// Waits until an attempt is over, or the next one is due.
    pub fn wake_decision(&mut self) -> Vec<Record> {
        let due = engine::wanted(&self.session).into_iter().find_map(|effect| match effect {
            Effect::WakeDecision { at, id, attempt } => Some((at, id, attempt)),
            _ => None,
        });
        let Some((at, id, attempt)) = due else { return Vec::new() };
        self.now = at.saturating_sub(1001).max(self.now);
        if self.now + 1000 < at {
            let early = self.context();
            assert!(engine::wake_decision(&self.session, &id, attempt, &early).is_empty(), "it isn't time");
        }
        self.now = at;
        let context = self.context();
        let records = engine::wake_decision(&self.session, &id, attempt, &context);
        self.take(&records);
        records
    }
}
