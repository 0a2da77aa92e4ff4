//! The stable error codes, and a refusal: a code with what was wrong, where, and what to do instead.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $name:ident = $text:literal,)*) => {
        /// What went wrong, in a word that never changes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[doc = $doc])* $name,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Code] = &[$(Code::$name),*];

            /// The code as it stands on the wire.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// The code that stands on the wire as `text`.
            pub fn from_wire(text: &str) -> Option<Self> {
                match text {
                    $($text => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// The body or frame isn't JSON.
    BadJson = "bad_json",
    /// A field is missing, has the wrong type, or a value that isn't allowed.
    BadRequest = "bad_request",
    /// An id is empty or longer than 128 bytes.
    BadId = "bad_id",
    /// The id begins with Headwater's own prefix and names nothing here.
    ReservedId = "reserved_id",
    /// The same id stands twice in one view.
    DuplicateMessageId = "duplicate_message_id",
    /// The view has more messages than the limit.
    ViewTooLong = "view_too_long",
    /// The body or frame is larger than the limit.
    BodyTooLarge = "body_too_large",
    /// The body is packed; it must be sent as it is, without `Content-Encoding`.
    UnsupportedEncoding = "unsupported_encoding",
    /// The request's head is larger than the limit.
    HeadTooLarge = "head_too_large",
    /// A message's content is larger than the limit.
    ContentTooLarge = "content_too_large",
    /// An agent's state, or what is overridden of its configuration, would be larger than the limit.
    StateTooLarge = "state_too_large",
    /// An operation of a JSON Patch doesn't apply to the state. Nothing was changed.
    PatchFailed = "patch_failed",
    /// A reply can't be asked for while tool calls are open.
    CallsOpen = "calls_open",
    /// No such call waits for a result.
    CallNotOpen = "call_not_open",
    /// The conversation pauses there until its interrupts are answered.
    SessionInterrupted = "session_interrupted",
    /// Not all that pauses the turn is answered.
    InterruptsOpen = "interrupts_open",
    /// No interrupt of that id in this session.
    InterruptNotFound = "interrupt_not_found",
    /// The interrupt was answered otherwise, or its turn was stopped.
    InterruptClosed = "interrupt_closed",
    /// The interrupt's time is over: it can only be cancelled.
    InterruptExpired = "interrupt_expired",
    /// A payload doesn't fit the schema that it must fit.
    PayloadMismatch = "payload_mismatch",
    /// This isn't built yet.
    NotAvailable = "not_available",
    /// No credential, or a wrong one.
    Unauthorized = "unauthorized",
    /// The `Origin` or `Host` isn't on the list.
    OriginRefused = "origin_refused",
    /// No such route.
    NotFound = "not_found",
    /// The route exists for other methods.
    MethodNotAllowed = "method_not_allowed",
    /// No agent of that name is configured.
    UnknownAgent = "unknown_agent",
    /// No session of that id.
    SessionNotFound = "session_not_found",
    /// No run of that name in this session.
    RunNotFound = "run_not_found",
    /// The cursor isn't of this run, is ahead of it, or stands in a reply that was given up; join the run without one.
    CursorUnknown = "cursor_unknown",
    /// No node of that id in this session.
    NodeNotFound = "node_not_found",
    /// No node of this session has the label.
    LabelNotFound = "label_not_found",
    /// The session is there already.
    SessionExists = "session_exists",
    /// The session was erased; its id is free again a day later.
    SessionDeleted = "session_deleted",
    /// The file to import is cut, doubled, changed, or no export.
    BadImport = "bad_import",
    /// As many turns or messages wait as are allowed.
    QueueFull = "queue_full",
    /// What is to join the conversation is longer than the model can ever read.
    ArrivalTooLarge = "arrival_too_large",
    /// A turn is running in this session.
    TurnAlreadyActive = "turn_already_active",
    /// The turn id was used with other content.
    TurnIdReused = "turn_id_reused",
    /// Too many readers of one session.
    TooManyReaders = "too_many_readers",
    /// Too many requests wait for one session.
    TooManyRequests = "too_many_requests",
    /// Requests, inputs or frames come faster than is allowed.
    RateLimited = "rate_limited",
    /// As many connections or sockets are open as are allowed.
    TooManyConnections = "too_many_connections",
    /// As many sessions are in memory as are allowed, and none of them can leave now.
    TooManySessions = "too_many_sessions",
    /// As many turns run as are allowed.
    TooManyTurns = "too_many_turns",
    /// The reader fell too far behind; it may join again.
    TooSlow = "too_slow",
    /// The server is stopping; another instance, or this one in a moment, takes the request.
    ShuttingDown = "shutting_down",
    /// The log holds records that this version must understand and doesn't.
    NewerVersion = "newer_version",
    /// The session's log is damaged.
    SessionCorrupt = "session_corrupt",
    /// The store doesn't answer, or can't say whether it wrote. Safe to retry with the same turn id.
    StoreUnavailable = "store_unavailable",
    /// The store is full. Nothing was written.
    StoreFull = "store_full",
    /// The model can't read so much.
    LlmTooLong = "llm_too_long",
    /// The provider asks for a pause.
    LlmRateLimited = "llm_rate_limited",
    /// The provider can't be reached or has a fault.
    LlmUnavailable = "llm_unavailable",
    /// The provider's stream ended in the middle.
    LlmCut = "llm_cut",
    /// The provider was silent for too long.
    LlmTimedOut = "llm_timed_out",
    /// The provider refuses the request.
    LlmRefused = "llm_refused",
    /// The provider's answer can't be understood.
    LlmBadResponse = "llm_bad_response",
    /// A turn asked for more model calls than the limit.
    TooManyCalls = "too_many_calls",
    /// The agent's worker can't be asked, or gave an error.
    WorkerFailed = "worker_failed",
    /// The agent's worker didn't answer in time.
    WorkerTimedOut = "worker_timed_out",
    /// The agent's worker gave answers that can't be carried out.
    WorkerBadAnswer = "worker_bad_answer",
    /// A tool failed.
    ToolFailed = "tool_failed",
    /// A tool didn't end in time.
    ToolTimedOut = "tool_timed_out",
    /// Whether a tool's call was carried out isn't known, and it may not be carried out twice.
    OutcomeUnknown = "outcome_unknown",
    /// An answer to a decision can't be carried out. The decision stays open.
    BadAnswer = "bad_answer",
    /// The decision was answered too late, was given up, or never asked.
    DecisionClosed = "decision_closed",
    /// This agent's worker doesn't dial in.
    WorkerNotAllowed = "worker_not_allowed",
    /// The process that ran the turn was lost twice.
    OwnerLost = "owner_lost",
    /// A fault of Headwater's own.
    Internal = "internal",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> serde::Deserialize<'de> for Code {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Ok(Self::from_wire(&text).unwrap_or(Self::Internal))
    }
}

/// Why something was not done. As JSON: `{error, message, …details}`. Nothing was written, unless the code says that it
/// isn't known.
#[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The stable code.
    #[serde(rename = "error")]
    pub code: Code,
    /// What, where, and what to do instead.
    pub message: String,
    /// More fields, by code (`turn_id`, `index`, …).
    #[serde(flatten)]
    pub details: Map<String, Value>,
}

impl Refusal {
    /// A refusal without details.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: Map::new() }
    }

    /// The same with one more field.
    #[must_use]
    pub fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.details.insert(field.to_owned(), value.into());
        self
    }
}
