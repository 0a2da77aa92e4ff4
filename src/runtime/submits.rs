//! Submits, as a session's task takes them: decided, made durable, answered with what follows.

use super::command::{Answer, give, reply};
use super::session_task::Task;
use super::shared::stopping;
use super::told::told;
use super::{Following, Submitted, TurnEnd};
use crate::engine::{self, End, Record, Submit};
use crate::ids::TurnId;
use crate::protocol::{Accepted, Event, EventBody, Json, Refusal};

impl Task {
    /// Takes a submit.
    pub(super) async fn submit(&mut self, submit: &Submit, answer: Answer<Submitted>) -> Result<(), Refusal> {
        let (records, accepted) = match self.decide(submit) {
            Ok(decided) => decided,
            Err(refusal) => {
                reply(answer, Err(refusal));
                return Ok(());
            }
        };
        let mut room = room(&records, &accepted.turn_id);
        let committed = async {
            self.commit(records, None).await?;
            let snapshot = if accepted.resync { Some(self.snapshot().await?) } else { None };
            let state = if accepted.resync { None } else { self.other_state(submit).await? };
            let following = self.following(&accepted.turn_id, submit.turn_id())?;
            if accepted.duplicate {
                room.extend(self.held(&accepted.turn_id));
            }
            Ok(Submitted { accepted, snapshot, state, room, cursor: self.cursor(), following })
        };
        let submitted = committed.await;
        // After a failed append the fold is ahead of the log: nothing may follow it.
        give(answer, submitted)?;
        self.pursue().await
    }

    fn decide(&mut self, submit: &Submit) -> Result<(Vec<Record>, Accepted), Refusal> {
        self.must_keep_pace()?;
        self.audience.must_have_room()?;
        let (records, accepted) = engine::submit(&self.log.session, &self.log.key.session, submit, &self.context())?;
        if !records.is_empty() && self.is_draining() {
            return Err(stopping());
        }
        self.must_have_slot(&records)?;
        Ok((records, accepted))
    }

    /// The state, when it isn't what the submitter says that it holds.
    async fn other_state(&mut self, submit: &Submit) -> Result<Option<Json>, Refusal> {
        let state = self.told_state().await?;
        Ok(state.filter(|state| !engine::is_same(state, submit.client_state().unwrap_or(&Json::empty_object()))))
    }

    /// What a submitter of a turn follows: what it says, its beginning, or nothing more.
    fn following(&mut self, turn_id: &TurnId, name: Option<&TurnId>) -> Result<Following, Refusal> {
        let session = &self.log.session;
        if let Some(end) = session.waits(turn_id).and_then(TurnEnd::waits) {
            return Ok(Following::Ended(end));
        }
        if session.turn.as_ref().is_some_and(|turn| turn.id == *turn_id) {
            return self.audience.admit(turn_id.clone(), name.cloned()).map(Following::Running);
        }
        if session.queue.position(turn_id).is_some() {
            return self.audience.admit_waiting(turn_id.clone()).map(Following::Running);
        }
        Ok(Following::Ended(self.ended_as(turn_id)))
    }

    /// How a turn ended; what never was a turn ended well.
    pub(super) fn ended_as(&self, turn_id: &TurnId) -> TurnEnd {
        match self.log.session.turns.turn_of(turn_id).and_then(|(_, known)| known.end) {
            None | Some(End::Completed) => TurnEnd::Completed,
            Some(End::Failed { code, message }) => TurnEnd::Failed { code, message },
            Some(End::Cancelled) => TurnEnd::Cancelled,
        }
    }
}

/// What records say of the room in a turn's context window.
fn room(records: &[Record], turn: &TurnId) -> Vec<Event> {
    let of_turn = |body: &EventBody| {
        matches!(body, EventBody::ContextLimited { turn_id, .. } | EventBody::ContextReplaced { turn_id, .. } | EventBody::ContextKept { turn_id, .. }
            if turn_id == turn)
    };
    let told = records.iter().filter_map(|record| Some((record.at, told(record)?)));
    told.filter(|(_, body)| of_turn(body)).map(|(at, body)| Event { cursor: None, at, body }).collect()
}
