//! A record as observers are told of it, without looking at anything else.

use super::{Body, DecisionAnswered, DecisionAsked, DecisionFailed, ToolCallCompleted, ToolCallFailed, ToolCallStarted};
use crate::protocol::{EventBody, Source};

impl Body {
    /// The record as observers are told, without looking at anything else.
    #[expect(clippy::too_many_lines, reason = "one arm a record")]
    pub fn event(&self) -> Option<EventBody> {
        Some(match self {
            Self::SessionCreated(data) => EventBody::SessionCreated { agent_id: data.agent_id.clone() },
            Self::SessionForked(data) => EventBody::SessionForked { agent_id: data.agent_id.clone(), from: data.from.clone() },
            Self::SessionUpdated(data) => EventBody::SessionUpdated { title: data.title.clone(), archived: data.archived },
            Self::MessageNew(data) => EventBody::MessageNew {
                node_id: data.id.clone(),
                parent_id: data.parent.clone(),
                kind: data.kind,
                shown_id: data.shown_id().cloned(),
                message: data.message.clone().map(|message| std::sync::Arc::new(message.without_encrypted())),
                copied_from: data.copied_from.clone(),
                reads_as: data.reads_as.clone(),
                partial: data.partial,
                call_id: data.call_id.clone(),
                source: Source::of(data.is_event, data.by_worker),
            },
            Self::HeadMoved(data) => {
                EventBody::HeadMoved { head_id: data.to.clone(), label: data.label.clone(), reads_as: data.reads_as.clone() }
            }
            Self::TurnQueued(data) => EventBody::TurnQueued {
                turn_id: data.into.as_ref().unwrap_or(&data.turn_id).clone(),
                joined: data.into.is_some(),
                agent_id: data.agent_id.clone(),
                messages: data.messages.iter().cloned().map(|message| std::sync::Arc::new(message.without_encrypted())).collect(),
            },
            Self::TurnJoined(data) => EventBody::TurnJoined { turn_id: data.turn_id.clone(), name: data.name.clone() },
            Self::TurnWaiting(data) => EventBody::TurnWaiting { turn_id: data.turn_id.clone(), calls: data.calls.clone() },
            Self::TurnStarted(data) => EventBody::TurnStarted { turn_id: data.turn_id.clone(), agent_id: data.agent_id.clone() },
            Self::TurnCompleted(data) => EventBody::TurnCompleted { turn_id: data.turn_id.clone() },
            Self::TurnFailed(data) => {
                EventBody::TurnFailed { turn_id: data.turn_id.clone(), code: data.code, message: data.message.clone() }
            }
            Self::TurnCancelled(data) => {
                EventBody::TurnCancelled { turn_id: data.turn_id.clone(), reason: data.reason, messages: data.messages.clone() }
            }
            Self::TurnRecovered(data) => EventBody::TurnRecovered { turn_id: data.turn_id.clone() },
            Self::CallStarted(data) => EventBody::CallStarted {
                turn_id: data.turn_id.clone(),
                call_id: data.call_id.clone(),
                attempt: data.attempt,
                reply_id: data.reply_id.clone(),
                hidden: data.hidden,
                arrivals: data.arrivals,
            },
            Self::CallCompleted(data) => {
                EventBody::CallCompleted { call_id: data.call_id.clone(), hidden: data.hidden, usage: data.usage.clone() }
            }
            Self::CallFailed(data) => EventBody::CallFailed {
                call_id: data.call_id.clone(),
                attempt: data.attempt,
                hidden: data.hidden,
                code: data.error.kind.code(),
                not_before: data.not_before,
            },
            Self::CallVoided(data) => EventBody::CallVoided { call_id: data.call_id.clone(), hidden: data.hidden },
            Self::ContextLimited(data) => EventBody::ContextLimited {
                turn_id: data.turn_id.clone(),
                call_id: data.call_id.clone(),
                reason: data.reason,
                strategy: data.strategy.as_ref().map(|strategy| strategy.name.clone()),
                tokens: data.tokens,
                window: data.window,
            },
            Self::ContextReplaced(data) => EventBody::ContextReplaced {
                turn_id: data.turn_id.clone(),
                call_id: data.call_id.clone(),
                epoch: data.epoch,
                tokens: data.tokens,
                background: data.background,
            },
            Self::ContextKept(data) => {
                EventBody::ContextKept { turn_id: data.turn_id.clone(), call_id: data.call_id.clone(), reason: data.reason }
            }
            Self::ArrivalQueued(data) => {
                let is_shown = data.joins.is_some() || data.show;
                let messages = data.messages.iter().filter(|_| is_shown).cloned();
                EventBody::ArrivalQueued {
                    turn_id: data.turn_id.clone(),
                    joins: data.joins.clone(),
                    messages: messages.map(|message| std::sync::Arc::new(message.without_encrypted())).collect(),
                }
            }
            Self::ArrivalConsumed(data) => {
                EventBody::ArrivalConsumed { turn_ids: data.turn_ids.clone(), call_id: data.call_id.clone(), into: data.into.clone() }
            }
            Self::DecisionAsked(data) => data.event(),
            Self::DecisionAnswered(data) => data.event(),
            Self::DecisionFailed(data) => data.event(),
            Self::ToolCallStarted(data) => data.event(),
            Self::ToolCallCompleted(data) => data.event(),
            Self::ToolCallFailed(data) => data.event(),
            Self::StateUpdated(data) => data.event(),
            Self::AgentUpdated(data) => data.event(),
            Self::SessionInterrupted(data) => {
                EventBody::SessionInterrupted { turn_id: data.turn_id.clone(), interrupts: data.interrupts.clone() }
            }
            Self::InterruptResumed(data) => {
                EventBody::InterruptResumed { turn_id: data.turn_id.clone(), interrupts: data.interrupts.clone() }
            }
            Self::TurnSuspended(data) => EventBody::TurnSuspended { turn_id: data.turn_id.clone() },
            Self::Custom(data) => EventBody::Custom { turn_id: data.turn_id.clone(), name: data.name.clone(), value: data.value.clone() },
            // People read on as before; that a summary was adopted they are told with `context.replaced`.
            // Of calls that are carried out, when each begins.
            Self::JobStarted(_)
            | Self::JobFinished(_)
            | Self::JobFailed(_)
            | Self::JobDropped(_)
            | Self::ToolCallsTaken(_)
            | Self::Unknown(_) => return None,
        })
    }
}

impl DecisionAsked {
    fn event(&self) -> EventBody {
        EventBody::DecisionAsked {
            turn_id: self.turn_id.clone(),
            decision_id: self.decision_id.clone(),
            trigger: self.trigger,
            attempt: self.attempt,
        }
    }
}

impl DecisionAnswered {
    fn event(&self) -> EventBody {
        EventBody::DecisionAnswered { turn_id: self.turn_id.clone(), decision_id: self.decision_id.clone(), actions: self.actions.clone() }
    }
}

impl DecisionFailed {
    fn event(&self) -> EventBody {
        EventBody::DecisionFailed {
            turn_id: self.turn_id.clone(),
            decision_id: self.decision_id.clone(),
            attempt: self.attempt,
            code: self.code,
            not_before: self.not_before,
        }
    }
}

impl ToolCallStarted {
    fn event(&self) -> EventBody {
        EventBody::ToolCallStarted { turn_id: self.turn_id.clone(), tool_call_id: self.tool_call_id.clone(), attempt: self.attempt }
    }
}

impl ToolCallCompleted {
    fn event(&self) -> EventBody {
        EventBody::ToolCallCompleted { turn_id: self.turn_id.clone(), tool_call_id: self.tool_call_id.clone() }
    }
}

impl ToolCallFailed {
    fn event(&self) -> EventBody {
        EventBody::ToolCallFailed {
            turn_id: self.turn_id.clone(),
            tool_call_id: self.tool_call_id.clone(),
            attempt: self.attempt,
            code: self.code,
            not_before: self.not_before,
        }
    }
}
