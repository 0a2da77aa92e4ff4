//! What waits for a model call, as readers see it: it stands in every snapshot, and once more, at its place, when a call begins that
//! reads it. May not know AG-UI.

use std::sync::Arc;

use super::session_task::Task;
use crate::engine::record::Body;
use crate::engine::{self, Arrival, Record, Session};
use crate::ids::NodeId;
use crate::protocol::{Message, Refusal, Snapshot};

/// What the running call reads besides the path, and what else people said, as far as readers see it.
pub fn waiting(session: &Session) -> (Vec<Arc<Message>>, Vec<Arc<Message>>) {
    let read = session.reading() as usize;
    let messages =
        |arrival: &Arc<Arrival>| arrival.messages.iter().filter(|message| message.content.is_some()).cloned().collect::<Vec<_>>();
    let of_call = session.arrivals.iter().take(read).filter(|arrival| arrival.is_shown()).flat_map(messages).collect();
    let others = session.arrivals.iter().skip(read).filter(|arrival| !arrival.is_event()).flat_map(messages).collect();
    (of_call, others)
}

/// Whether a call begins with `records` that reads something which readers see.
pub fn begins(session: &Session, records: &[Record]) -> bool {
    let reads = |record: &Record| if let Body::CallStarted(call) = &record.body { call.arrivals > 0 && !call.hidden } else { false };
    let read = session.reading() as usize;
    records.iter().any(reads) && session.arrivals.iter().take(read).any(|arrival| arrival.is_shown())
}

impl Task {
    /// The conversation as the call reads it that writes, or wrote, the reply `id`; nothing, when that left nothing.
    pub(super) async fn read_before(&mut self, id: &NodeId) -> Result<Option<Arc<Snapshot>>, Refusal> {
        let session = &self.log.session;
        let call = session.turn.as_ref().and_then(|turn| turn.call.as_ref());
        let (at, waiting) = match (session.tree.find(id), call) {
            (Some(reply), _) => (session.tree.parent(reply), Vec::new()),
            (None, Some(call)) if call.reply_id == *id => {
                let (of_call, others) = waiting(session);
                (session.head, [of_call, others].concat())
            }
            (None, Some(_) | None) => return Ok(None),
        };
        let nodes = engine::reader_nodes_at(session, at);
        self.log.recall(nodes.iter().copied()).await?;
        let mut messages = engine::messages_of(&self.log.session, nodes);
        messages.extend(waiting);
        Ok(Some(Arc::new(Snapshot { messages, ..Snapshot::default() })))
    }
}
