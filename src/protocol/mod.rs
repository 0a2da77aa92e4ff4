//! Plain data that several layers speak: messages, inputs, answers, events, error codes, the cursor. Native JSON is AG-UI's
//! field names in `snake_case`. May not know the engine, IO, or AG-UI's own spelling.

mod answer;
mod call;
mod code;
mod context;
mod cursor;
mod decision;
mod event;
pub mod export;
mod frames;
mod input;
mod json;
mod message;
pub mod native;
pub(crate) mod reading;
mod size;
mod weight;

pub use answer::{
    Accepted, Arriving, Checkpoint, ForkInput, Forked, ForkedFrom, HeadAnswer, HeadMove, HeadTo, Ignored, IgnoredReason, Imported,
    OpenCall, QueuedTurn, RecordLine, RecordsPage, Running, SessionListed, SessionPage, SessionStatus, SessionUpdate, SessionsPage,
    Snapshot, TreeNode, TreePage, TreeQuery, TreeView, Writing,
};
pub use call::{CallError, CallErrorKind, CallRequest, Finish, Tool, Usage};
pub use code::{Code, Refusal};
pub use context::{BackgroundJob, HeldCall, KeptReason, LimitReason};
pub use cursor::{Cursor, CursorError};
pub use decision::{
    Action, ContextReplace, DecisionAnswer, DecisionRequest, Fault, HeldLlmCall, HeldRequest, LlmCall, Trigger, TriggerKind,
};
pub use event::{CancelReason, Event, EventBody, Live};
pub use frames::{Framed, Frames};
pub use input::{Client, Input, InputBody, OnBusy, PartialView, SameIdEdit, ViewOptions};
pub use json::{Json, JsonError, json_fault};
pub use message::{Content, Digest, FunctionCall, Message, NodeKind, Part, PartKind, Role, Source, ToolCall};
pub use reading::Limits;
pub use size::Size;
