//! The reference's queue: messages that follow the head, at once or behind what is there.

use headwater::protocol::{Code, OnBusy};

use super::rules::{Answer, Ask, Decided, Reference, Sent, Waiting, asks, bad, together};
use super::tree::Said;
use crate::talk::{QUEUE_MESSAGES_MAX, QUEUE_TURNS_MAX};

impl Reference {
    pub(super) fn follow(&mut self, ask: &Ask, messages: &[Said], answers: &[Said]) -> Decided {
        let (waits, queues) = (self.is_waiting(), matches!(ask.on_busy, OnBusy::Queue | OnBusy::Merge));
        if self.turn.is_some() {
            if ask.on_busy == OnBusy::Refuse && !waits {
                return self.busy();
            }
            self.write_results(answers);
            if !queues {
                self.stop(false);
                self.go_on();
            } else if !answers.is_empty() && self.tree.open_calls().is_empty() {
                self.proceed();
            }
        }
        if self.turn.is_some() {
            return self.enqueue(ask, messages);
        }
        self.names(ask, None, None);
        let asks = self.write_below_head(messages, &ask.turn);
        let reply = ask.run.unwrap_or(asks);
        self.begin(&ask.turn, ask.tools, reply);
        Ok(Answer { turn: ask.turn.clone(), reply, ..Answer::default() })
    }

    pub(super) fn enqueue(&mut self, ask: &Ask, messages: &[Said]) -> Decided {
        let merges = ask.on_busy == OnBusy::Merge;
        let joins = merges && self.queue.last().is_some_and(|last| last.open && last.agent == ask.agent);
        if !joins {
            let new =
                Waiting { id: ask.turn.clone(), agent: ask.agent.clone(), open: merges, run: ask.run, tools: None, messages: Vec::new() };
            self.queue.push(new);
        }
        let depth = self.queue.len();
        let group = self.queue.last_mut().expect("somebody waits");
        group.messages.extend_from_slice(messages);
        group.run = together(group.run, ask.run);
        group.tools = ask.tools.or(group.tools);
        let (turn, reply) = (group.id.clone(), asks(group.run, &group.messages));
        if depth > QUEUE_TURNS_MAX || self.queue.iter().map(|waiting| waiting.messages.len()).sum::<usize>() > QUEUE_MESSAGES_MAX {
            return bad(Code::QueueFull);
        }
        self.names(ask, joins.then_some(turn.as_str()), None);
        Ok(Answer { turn, reply, position: Some(depth), ..Answer::default() })
    }

    pub(super) fn message(&mut self, ask: &Ask, sent: &Sent) -> Decided {
        if let Some(says) = self.says(sent) {
            if let Some(waiting) = self.waits(&says) {
                return Ok(self.duplicate(&waiting.id));
            }
            if let Some(ix) = self.tree.first(&says) {
                if self.tree.reads(Some(ix)) != self.tree.reads(self.tree.head) {
                    return Ok(self.recorded_by(ask, self.tree.nodes[ix].turn.as_ref()));
                }
                if self.turn.is_some() {
                    return self.busy();
                }
                let reply = ask.run.unwrap_or_else(|| self.tree.reply_due_at(self.tree.head));
                if reply {
                    self.names(ask, None, None);
                    self.begin(&ask.turn, ask.tools, true);
                }
                return Ok(Answer { turn: ask.turn.clone(), reply, ..Answer::default() });
            }
        }
        self.append(ask, std::slice::from_ref(sent))
    }

    pub(super) fn append(&mut self, ask: &Ask, messages: &[Sent]) -> Decided {
        let (mut follow, mut answers, mut last): (Vec<Said>, Vec<Said>, Option<String>) = (Vec::new(), Vec::new(), None);
        for (index, sent) in messages.iter().enumerate() {
            if sent.id.is_some() && messages[..index].iter().any(|other| other.id == sent.id) {
                return bad(Code::DuplicateMessageId);
            }
            let called = sent.said.answers.as_ref().and_then(|call| self.tree.calls.get(call));
            let says = match called {
                Some(called) if called.open => {
                    answers.push(sent.said.clone());
                    continue;
                }
                Some(called) if called.result.is_none() => return bad(Code::CallNotOpen),
                Some(_) => Some(sent.said.says.clone()),
                None => self.says(sent),
            };
            let Some(says) = says else {
                follow.push(sent.said.clone());
                continue;
            };
            if let Some(waiting) = self.waits(&says) {
                last = Some(waiting.id.clone());
            } else if let Some(ix) = self.tree.first(&says) {
                if self.tree.sees(&says) {
                    last = self.tree.nodes[ix].turn.clone().or(last);
                } else if !follow.iter().any(|said| said.says == says) {
                    follow.push(self.tree.nodes[ix].said.clone());
                }
            } else if sent.is_reserved() {
                return bad(Code::ReservedId);
            } else {
                follow.push(sent.said.clone());
            }
        }
        match (follow.is_empty(), answers.is_empty()) {
            (true, true) => Ok(self.recorded_by(ask, last.as_ref())),
            (true, false) => self.results(ask, &answers),
            (false, _) => self.follow(ask, &follow, &answers),
        }
    }
}
