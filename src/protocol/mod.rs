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
mod hash;
mod input;
pub(crate) mod interrupt;
mod json;
mod live;
mod message;
pub mod native;
mod overrides;
mod page;
pub(crate) mod reading;
mod schema;
mod size;
mod tool;
mod weight;

pub use answer::{
    Accepted, ForkInput, Forked, HeadAnswer, HeadMove, HeadTo, Ignored, IgnoredReason, Imported, OpenCall, RecordLine, RecordsPage,
    SessionListed, SessionUpdate, SessionsPage, Snapshot, TreeNode, TreePage, TreeQuery, TreeView, Writing,
};
pub use call::{CallError, CallErrorKind, CallRequest, Finish, Occasion, Tool, Usage};
pub use code::{Code, Refusal};
pub use context::{BackgroundJob, HeldCall, KeptReason, LimitReason};
pub use cursor::{Cursor, CursorError};
pub use decision::{
    Action, ContextReplace, DecisionAnswer, DecisionRequest, Fault, HeldLlmCall, HeldRequest, LlmCall, Trigger, TriggerKind,
};
pub use event::{CancelReason, Event, EventBody};
pub use frames::{Framed, Frames};
pub use hash::hash_value;
pub use input::{Client, ClientAction, ClientState, Input, InputBody, OnBusy, PartialView, SameIdEdit, ViewOptions};
pub use interrupt::{Interrupt, Raise, Resume, ResumeStatus, Resumed, Waits};
pub use json::{Json, JsonError, json_fault};
pub use live::Live;
pub use message::{Content, Digest, FunctionCall, Message, NodeKind, Part, PartKind, Role, Source, ToolCall};
pub use overrides::{AgentChanges, AgentOverrides};
pub use page::{Arriving, Checkpoint, ForkedFrom, QueuedTurn, Running, SessionPage, SessionStatus, SuspendedTurn};
pub use reading::Limits;
pub use schema::{Schema, SchemaMisfit};
pub use size::Size;
pub use tool::{BadArguments, CarriedOutBy, ServerTool, ToolInput};
