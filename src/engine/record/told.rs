//! A record as observers are told of it, without looking at anything else.

use super::Body;
use crate::protocol::EventBody;

impl Body {
    /// The record as observers are told, without looking at anything else.
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
                partial: data.partial,
                call_id: data.call_id.clone(),
            },
            Self::HeadMoved(data) => EventBody::HeadMoved { head_id: data.to.clone(), label: data.label.clone() },
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
            Self::Unknown(_) => return None,
        })
    }
}
