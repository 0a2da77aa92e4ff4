//! A session's events as a client reads them: those that a person may want to see, and nothing of those that it doesn't know. May not
//! know where they come from or how they are shown.

use serde::Deserialize;

use crate::ids::{NodeId, ToolCallId, TurnId};
use crate::protocol::{CancelReason, Code, Interrupt, Live, Message, NodeKind, Snapshot};

/// What happened in a session.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// A turn began.
    Started { turn_id: TurnId },
    /// A turn ended.
    Ended { turn_id: TurnId, end: Ended },
    /// A turn waits for results of these calls.
    Waiting { turn_id: TurnId, calls: Vec<ToolCallId> },
    /// A turn pauses until somebody has answered.
    Interrupted { turn_id: TurnId, interrupts: Vec<Interrupt> },
    /// The head left a turn that pauses.
    Suspended { turn_id: TurnId },
    /// An input waits for the running turn.
    Queued { turn_id: TurnId },
    /// A turn whose process was lost goes on.
    Recovered { turn_id: TurnId },
    /// Room is made in the context window before the reply goes on.
    Limited,
    /// A message became a node; a copy has none.
    Node(Box<Node>),
    /// The next message attaches elsewhere.
    HeadMoved,
    /// An attempt at a reply began.
    Writing { reply_id: NodeId, attempt: u32 },
    /// An attempt failed; another one follows when `retried`.
    Failed { code: Code, retried: bool },
    /// A piece of the reply that is being written.
    Live(Live),
    /// The whole conversation, because what was told so far may be wrong.
    Whole(Box<Snapshot>),
    /// Something that isn't shown, or that this version doesn't know.
    Other,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// Well.
    Completed,
    /// Badly.
    Failed { code: Code, message: String },
    /// It was stopped, or never began.
    Cancelled { reason: Option<CancelReason>, messages: Vec<NodeId> },
}

/// A new node.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Node {
    /// The id under which clients see it; none when they don't.
    #[serde(default)]
    pub shown_id: Option<NodeId>,
    /// What sort of node.
    pub kind: NodeKind,
    /// Its content; none for copies.
    #[serde(default)]
    pub message: Option<Message>,
    /// Whether it is the kept part of a reply that was stopped.
    #[serde(default)]
    pub partial: bool,
}

/// What every event says.
#[derive(Deserialize)]
struct Kind {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct OfTurn {
    turn_id: TurnId,
}

#[derive(Deserialize)]
struct FailedTurn {
    turn_id: TurnId,
    code: Code,
    message: String,
}

#[derive(Deserialize)]
struct CancelledTurn {
    turn_id: TurnId,
    #[serde(default)]
    reason: Option<CancelReason>,
    #[serde(default)]
    messages: Vec<NodeId>,
}

#[derive(Deserialize)]
struct WaitingTurn {
    turn_id: TurnId,
    calls: Vec<ToolCallId>,
}

#[derive(Deserialize)]
struct InterruptedTurn {
    turn_id: TurnId,
    interrupts: Vec<Interrupt>,
}

#[derive(Deserialize)]
struct StartedCall {
    reply_id: NodeId,
    attempt: u32,
    #[serde(default)]
    hidden: bool,
}

#[derive(Deserialize)]
struct FailedCall {
    code: Code,
    #[serde(default)]
    hidden: bool,
    #[serde(default)]
    not_before: Option<u64>,
}

impl Told {
    /// Reads an event's JSON. What this version doesn't know is passed over: a newer server says more.
    pub fn read(json: &str) -> Self {
        Self::try_read(json).unwrap_or(Self::Other)
    }

    fn try_read(json: &str) -> Result<Self, serde_json::Error> {
        let ended = |turn_id, end| Self::Ended { turn_id, end };
        Ok(match serde_json::from_str::<Kind>(json)?.kind.as_str() {
            "turn.started" => Self::Started { turn_id: serde_json::from_str::<OfTurn>(json)?.turn_id },
            "turn.queued" => Self::Queued { turn_id: serde_json::from_str::<OfTurn>(json)?.turn_id },
            "turn.recovered" => Self::Recovered { turn_id: serde_json::from_str::<OfTurn>(json)?.turn_id },
            "turn.completed" => ended(serde_json::from_str::<OfTurn>(json)?.turn_id, Ended::Completed),
            "turn.failed" => {
                let FailedTurn { turn_id, code, message } = serde_json::from_str(json)?;
                ended(turn_id, Ended::Failed { code, message })
            }
            "turn.cancelled" => {
                let CancelledTurn { turn_id, reason, messages } = serde_json::from_str(json)?;
                ended(turn_id, Ended::Cancelled { reason, messages })
            }
            "turn.waiting" => {
                let WaitingTurn { turn_id, calls } = serde_json::from_str(json)?;
                Self::Waiting { turn_id, calls }
            }
            "session.interrupted" => {
                let InterruptedTurn { turn_id, interrupts } = serde_json::from_str(json)?;
                Self::Interrupted { turn_id, interrupts }
            }
            "turn.suspended" => Self::Suspended { turn_id: serde_json::from_str::<OfTurn>(json)?.turn_id },
            "context.limited" => Self::Limited,
            "message.new" => Self::Node(serde_json::from_str(json)?),
            "head.moved" => Self::HeadMoved,
            "llm.call.started" => match serde_json::from_str(json)? {
                StartedCall { hidden: true, .. } => Self::Other,
                StartedCall { reply_id, attempt, .. } => Self::Writing { reply_id, attempt },
            },
            "llm.call.failed" => match serde_json::from_str(json)? {
                FailedCall { hidden: true, .. } => Self::Other,
                FailedCall { code, not_before, .. } => Self::Failed { code, retried: not_before.is_some() },
            },
            "llm.delta" => Self::Live(serde_json::from_str(json)?),
            "session.snapshot" => Self::Whole(serde_json::from_str(json)?),
            _ => Self::Other,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::ids::CallId;
    use crate::protocol::{Cursor, Event, EventBody, LimitReason, Role};

    /// An event as the server writes it.
    fn read(body: EventBody) -> Told {
        Told::read(&serde_json::to_string(&Event { cursor: Some(Cursor::after(7)), at: 1, body }).unwrap())
    }

    #[test]
    fn what_the_server_writes_is_read() {
        let turn_id = TurnId::from("t");
        assert_eq!(
            read(EventBody::TurnStarted { turn_id: turn_id.clone(), agent_id: "a".into() }),
            Told::Started { turn_id: turn_id.clone() }
        );
        let failed = EventBody::TurnFailed { turn_id: turn_id.clone(), code: Code::LlmRefused, message: "no".to_owned() };
        let end = Ended::Failed { code: Code::LlmRefused, message: "no".to_owned() };
        assert_eq!(read(failed), Told::Ended { turn_id: turn_id.clone(), end });
        let left =
            EventBody::TurnCancelled { turn_id: turn_id.clone(), reason: Some(CancelReason::BranchLeft), messages: vec!["u".into()] };
        let end = Ended::Cancelled { reason: Some(CancelReason::BranchLeft), messages: vec!["u".into()] };
        assert_eq!(read(left), Told::Ended { turn_id: turn_id.clone(), end });
        let started = |hidden| EventBody::CallStarted {
            turn_id: turn_id.clone(),
            call_id: CallId::from("c"),
            attempt: 2,
            reply_id: "r".into(),
            hidden,
            arrivals: 0,
        };
        assert_eq!((read(started(false)), read(started(true))), (Told::Writing { reply_id: "r".into(), attempt: 2 }, Told::Other));
        let limited = EventBody::ContextLimited {
            turn_id: turn_id.clone(),
            call_id: CallId::from("c"),
            reason: LimitReason::Full,
            strategy: Some("summarize".to_owned()),
            tokens: 186_400,
            window: Some(200_000),
        };
        assert_eq!(read(limited), Told::Limited);
        let delta = Live::Text { reply_id: "r".into(), delta: "hi".to_owned() };
        assert_eq!(read(EventBody::Live(delta.clone())), Told::Live(delta));
        let message = Message::text(Role::Assistant, "hi").with_id("r".into());
        let snapshot = Snapshot { messages: vec![Arc::new(message.clone())], ..Snapshot::default() };
        assert_eq!(read(EventBody::Resync(Arc::new(snapshot.clone()))), Told::Whole(Box::new(snapshot)));
        let node = EventBody::MessageNew {
            node_id: "r".into(),
            parent_id: None,
            kind: NodeKind::Message,
            shown_id: Some("r".into()),
            message: Some(Arc::new(message.clone())),
            copied_from: None,
            reads_as: None,
            partial: true,
            call_id: None,
            source: None,
        };
        let expected = Node { shown_id: Some("r".into()), kind: NodeKind::Message, message: Some(message), partial: true };
        assert_eq!(read(node), Told::Node(Box::new(expected)));
    }

    #[test]
    fn what_it_does_not_know_is_passed_over() {
        for json in [r#"{"type":"tea.served","at":1}"#, r#"{"type":"turn.started"}"#, r#"{"at":1}"#, "[]", "", "{"] {
            assert_eq!(Told::read(json), Told::Other, "{json}");
        }
    }
}
