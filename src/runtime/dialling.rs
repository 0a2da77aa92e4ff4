//! Workers that dial in, as whoever serves their sockets sees them. May not know sockets.

use super::Runtime;
use crate::ids::{AgentId, DecisionId};
use crate::meters::names;
use crate::protocol::native::Hello;
use crate::protocol::{Limits, Refusal};
use crate::worker::socket::{Came, Connection, Ended, Told};

/// A worker that is connected. When it is dropped, what the worker hasn't answered goes to another.
#[derive(Debug)]
pub struct WorkerConnection {
    connection: Connection,
    agents: Vec<AgentId>,
}

impl Runtime {
    /// Lets a worker in that dials in; its answers are read within `limits`.
    pub fn serve_worker(&self, hello: &Hello, limits: Limits) -> Result<WorkerConnection, Refusal> {
        let connection = self.0.options.dialling.connect(hello, limits)?;
        let agents = hello.agents.clone();
        for agent in &agents {
            metrics::gauge!(names::WORKERS_CONNECTED, "agent" => agent.to_string()).increment(1.0);
        }
        Ok(WorkerConnection { connection, agents })
    }
}

impl WorkerConnection {
    /// What it is told next. Nothing is lost when the wait is given up.
    pub async fn next(&self) -> Result<Told, Ended> {
        self.connection.next().await
    }

    /// The worker answered, with this JSON. One that comes late is to be given to its session, and the worker [told](Self::judged) what
    /// came of it.
    pub fn answer(&self, decision: &DecisionId, answer: &str) -> Came {
        self.connection.answer(decision, answer)
    }

    /// What came of an answer that came late.
    pub fn judged(&self, decision: &DecisionId, verdict: Result<(), &Refusal>) {
        self.connection.judged(decision, verdict);
    }

    /// The worker has no answer. Whether it had been asked.
    pub fn fail(&self, decision: &DecisionId, message: String) -> bool {
        self.connection.fail(decision, message)
    }

    /// So many decisions the worker takes at once from now on; as many as that will be.
    pub fn grant(&self, credit: u32) -> u32 {
        self.connection.grant(credit)
    }
}

impl Drop for WorkerConnection {
    fn drop(&mut self) {
        for agent in &self.agents {
            metrics::gauge!(names::WORKERS_CONNECTED, "agent" => agent.to_string()).decrement(1.0);
        }
    }
}
