//! What waits for a model call: messages that join the turn that is there (`queue: "steer"`), and `session.event`.

use std::borrow::Cow;

use super::Case;
use crate::engine::arrivals::size_waiting;
use crate::engine::contents::bytes;
use crate::engine::record::ArrivalQueued;
use crate::engine::turn::Turn;
use crate::ids::{NodeId, ToolCallId};
use crate::protocol::{Accepted, Client, Code, Message, Refusal, Role, Size};

impl Case<'_> {
    /// Messages join the turn: its next call reads them. Results of its calls come first.
    pub(super) fn steer(&mut self, turn: &Turn, messages: &[Cow<'_, Message>], answers: &[&Message]) -> Result<Accepted, Refusal> {
        if turn.agent_id != self.submit.agent_id {
            return Err(self.busy(turn));
        }
        must_be_users(messages)?;
        let open = self.session.tree.open_calls();
        let waiting = messages.iter().map(|message| self.named(message)).collect();
        let recorded = self.write_results(answers);
        let queued = self.arrival(waiting, Some(turn), false)?;
        let steering: Vec<NodeId> = queued.messages.iter().filter_map(|message| message.id.clone()).collect();
        self.writer.take_client_state(&turn.agent_id, &self.client);
        self.writer.arrive(queued);
        if !answers.is_empty() && answers.len() == open.len() {
            self.writer.proceed(turn);
        }
        let is_left = |id: &ToolCallId| !answers.iter().any(|answer| answer.tool_call_id.as_ref() == Some(id));
        let left = self.session.tree.awaited_calls().into_iter().filter(is_left).collect();
        // What the turn has written so far its reader needs, to go on with it.
        let recorded = [recorded, steering].concat();
        Ok(Accepted { turn_id: turn.id.clone(), arrival: true, waiting: left, recorded, resync: true, ..self.plain() })
    }

    /// Something happened: the next model call reads it. `run`: a turn begins for it as soon as none is there.
    pub(super) fn event(&mut self, message: &Message, show: bool) -> Result<Accepted, Refusal> {
        if let Some(id) = &message.id
            && let Some(known) = self.event_is_known(id)?
        {
            return Ok(known);
        }
        self.create();
        let waiting = vec![self.named(message)];
        let queued = self.arrival(waiting, None, show)?;
        let recorded = queued.messages.iter().filter_map(|message| message.id.clone()).collect();
        self.writer.arrive(queued);
        let was_busy = self.writer.is_busy();
        self.writer.go_on();
        Ok(Accepted { reply: !was_busy && self.writer.is_busy(), arrival: true, recorded, ..self.plain() })
    }

    /// An event's id that stands for something already.
    fn event_is_known(&self, id: &NodeId) -> Result<Option<Accepted>, Refusal> {
        let (session, tree) = (self.session, &self.session.tree);
        if let Some(turn) = session.waiting_in(id) {
            return Ok(Some(Accepted { arrival: session.arrivals.bringing(id).is_some(), ..self.known(Some(turn)) }));
        }
        if let Some(ix) = tree.find(id) {
            return Ok(Some(self.known(session.recorded_by(ix))));
        }
        let refuse = |code, why: &str| Err(Refusal::new(code, format!("the id {id} {why}")).with("at", "id").with("id", id.as_str()));
        match tree.known(id) {
            Some(_) => refuse(Code::BadRequest, "is that of a reply; give the event an id of its own or none"),
            None if id.is_reserved() => {
                refuse(Code::ReservedId, "begins with Headwater's own prefix; give the event an id of its own or none")
            }
            None => Ok(None),
        }
    }

    fn named(&mut self, message: &Message) -> Message {
        let id = message.id.clone().unwrap_or_else(|| self.writer.fresh().into());
        message.clone().with_id(id)
    }

    /// What is to wait, if there is room for it.
    fn arrival(&self, messages: Vec<Message>, joins: Option<&Turn>, show: bool) -> Result<ArrivalQueued, Refusal> {
        self.must_have_room(0, messages.len())?;
        self.must_fit(&messages, joins)?;
        let submit = self.submit;
        Ok(ArrivalQueued {
            turn_id: self.turn_id.clone(),
            agent_id: submit.agent_id.clone(),
            digest: submit.digest,
            joins: joins.map(|turn| turn.id.clone()),
            messages,
            show,
            run: joins.is_none() && submit.run == Some(true),
            client: self.client.clone(),
        })
    }

    /// Refuses what no call can ever read, and more than may wait.
    fn must_fit(&self, messages: &[Message], joins: Option<&Turn>) -> Result<(), Refusal> {
        let most = self.context.policy.arrivals_bytes_max;
        let waiting = self.writer.arrivals().flat_map(|arrival| &arrival.messages).map(|message| bytes(message));
        let all: usize = waiting.chain(messages.iter().map(bytes)).sum();
        if all > most {
            let text = format!(
                "{all} bytes would wait for the session's next model call, and no more than {most} may; send it again when that has begun"
            );
            return Err(Refusal::new(Code::QueueFull, text).with("queue_depth", self.session.queue.len()));
        }
        let agent = self.writer.agent(&self.submit.agent_id);
        let Some(window) = agent.and_then(|agent| agent.window) else { return Ok(()) };
        let said: Size = messages.iter().map(|message| size_waiting(self.session, message, joins.is_none())).sum();
        let client = if self.client.tools.is_some() { Some(&self.client) } else { joins.map(|turn| &turn.client) };
        let own = self.writer.tools(&self.submit.agent_id);
        let tools = client.map_or_else(|| own.size(&Client::default()), |client| own.size(client));
        let system = agent.map_or(Size::ZERO, |agent| agent.system);
        if (said + tools + system).tokens() <= window {
            return Ok(());
        }
        let (said, tools, system) = (said.tokens(), tools.tokens(), system.tokens());
        let text = format!(
            "the model reads {window} tokens at most, and this alone has about {said}, besides {system} of system prompt and {tools} of tools; \
             send it in smaller parts"
        );
        Err(Refusal::new(Code::ArrivalTooLarge, text).with("tokens", said).with("window", window))
    }
}

fn must_be_users(messages: &[Cow<'_, Message>]) -> Result<(), Refusal> {
    if messages.iter().all(|message| message.role == Role::User) {
        return Ok(());
    }
    let text = "only messages of the user's can join the running turn; send others with queue true, or when the turn has ended";
    Err(Refusal::new(Code::BadRequest, text).with("at", "queue"))
}
