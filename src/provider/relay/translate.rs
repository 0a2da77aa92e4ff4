//! From an agent's events to chunks: what it says in one run becomes one reply after another, each whole with the results of the calls
//! that the agent carried out. Names are the agent's; none of them leaves. May not know the network.

use std::collections::{HashSet, VecDeque};

use serde_json::value::RawValue;

use super::event::{self, Event};
use super::interrupt;
use super::making::{Called, Making, Stage};
use super::snapshot::{self, Added};
use super::state::State;
use super::talk::Talk;
use crate::ids::ToolCallId;
use crate::protocol::{CallError, Finish, Interrupt, Json, Usage};
use crate::provider::http::halves::{Halves, Units};
use crate::provider::http::{Progress, Size, Translate, cut, failure, nonsense};
use crate::provider::{CallOf, Chunk};

/// The most replies of one run.
const REPLIES_MAX: usize = 1000;

/// So much of an agent's name for something is told.
const NAME_CHARS_MAX: usize = 60;

/// What a model reads of a call whose agent was lost.
const UNKNOWN: &str = "The connection to the agent was lost before this call's result came: its outcome is unknown.";
/// What a model reads of a call that was not made completely, or that nobody was asked to carry out.
const NOT_MADE: &str = "The connection to the agent was lost while this call was made: it was not carried out.";

/// One run in the making.
#[derive(Debug, Default)]
pub struct Translator {
    /// Ids of the messages that the agent was sent.
    sent: HashSet<String>,
    /// Names of the client's tools.
    tools: HashSet<String>,
    phase: Phase,
    /// Text messages that are open.
    talk: Talk,
    /// What of a character of reasoning, of arguments, waits for its other half.
    thought: Halves,
    arguments: Halves,
    /// What chunks have open.
    chunked: Option<Chunked>,
    /// The number of the reasoning message that has no name.
    thinking: u32,
    reply: Making,
    replies: usize,
    has_said: bool,
    snapshot: Option<Box<RawValue>>,
    interrupts: Vec<Interrupt>,
    state: State,
    /// The thread that the agent was told.
    thread: String,
    /// Calls of before that wait for results.
    waiting: HashSet<String>,
    size: Size,
}

/// How far the run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Before,
    Running,
    Finished,
}

/// What chunks have open: they have no end of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Chunked {
    Text(String),
    Call(String),
}

type Chunks = VecDeque<Chunk>;

impl Translate for Translator {
    const SERVICE: &'static str = "agui";

    const EVENT_BYTES_MAX: usize = 16 << 20;

    fn read(&mut self, _: &str, data: &str, chunks: &mut Chunks) -> Result<Progress, CallError> {
        let (kind, event) = Event::read(data)?;
        let is_first = matches!(event, Event::RunStarted | Event::RunError(_) | Event::Other);
        if self.phase == Phase::Before && !is_first {
            return Err(nonsense(format!("the agent's first event is {kind}, not RUN_STARTED")));
        }
        self.end_chunks(&event, chunks)?;
        match event {
            Event::RunStarted if self.phase != Phase::Before => return Err(nonsense("RUN_STARTED comes twice in a run of the agent's")),
            Event::RunStarted => self.phase = Phase::Running,
            Event::RunFinished(finished) => {
                self.phase = Phase::Finished;
                let asked = finished.outcome.map(|outcome| outcome.interrupts).unwrap_or_default();
                if !asked.is_empty() {
                    self.interrupts = asked.into_iter().map(|asked| interrupt::raised(asked, &self.thread)).collect();
                }
                return Ok(Progress::Done);
            }
            Event::RunError(failed) => return Err(run_error(failed, data)),
            Event::TextStart(event::Named { message_id, role }) => self.talk.start(message_id, role.as_deref())?,
            Event::TextContent(event::Said { message_id, delta }) => self.text(&message_id, delta, chunks)?,
            Event::TextEnd(event::Named { message_id, .. }) => self.end_text(&message_id, chunks)?,
            Event::TextChunk(chunk) => self.text_chunk(chunk, chunks)?,
            Event::Thinking => {
                self.thinking += 1;
                self.thought = Halves::default();
            }
            Event::Thought(event::Thought { message_id, delta }) => self.think(message_id, delta.unwrap_or_default(), chunks)?,
            Event::CallStart(event::Call { tool_call_id, tool_call_name, parent_message_id }) => {
                self.call(&tool_call_id, tool_call_name, parent_message_id, chunks)?;
            }
            Event::CallArgs(event::Arguments { tool_call_id, delta }) => self.argue(&tool_call_id, delta, chunks)?,
            Event::CallEnd(event::Closed { tool_call_id }) => self.end_call(&tool_call_id, chunks)?,
            Event::CallChunk(chunk) => self.call_chunk(chunk, chunks)?,
            Event::CallResult(event::CallResult { tool_call_id, content }) => {
                self.result(&tool_call_id, snapshot::text(&content), chunks)?;
            }
            Event::StateSnapshot(event::Snapshot { snapshot }) => self.state.replace(snapshot),
            Event::StateDelta(event::Delta { delta }) => self.state.patch(&delta),
            Event::Asked(event::Asked { value, raw_event }) => {
                let id = raw_event.and_then(|raw| raw.get("id")?.as_str().map(str::to_owned));
                self.interrupts.push(interrupt::of_value(&value, id, self.interrupts.len(), &self.thread));
            }
            Event::MessagesSnapshot(event::Messages { messages }) => self.snapshot = Some(messages),
            Event::Mark | Event::Other => {}
        }
        Ok(Progress::More)
    }

    fn has_finished(&self) -> bool {
        self.phase == Phase::Finished
    }

    /// What several models read in a run says nothing of the path.
    fn take_usage(&mut self) -> Option<Usage> {
        None
    }

    fn end(&mut self, _: bool, chunks: &mut Chunks) -> Result<Finish, CallError> {
        if self.phase != Phase::Finished {
            return Err(cut());
        }
        self.finish_texts(chunks)?;
        if !self.has_said
            && let Some(messages) = self.snapshot.take()
        {
            self.catch_up(snapshot::added(&messages, &self.sent), chunks)?;
        }
        self.tell_state(chunks);
        for interrupt in self.interrupts.drain(..) {
            let of = interrupt.tool_call_id.as_ref().and_then(|id| self.reply.place(id.as_str()));
            chunks.push_back(Chunk::Interrupt { of, interrupt: Box::new(interrupt) });
        }
        Ok(if self.reply.awaits() { Finish::ToolCalls } else { Finish::Stop })
    }

    /// What the agent has carried out isn't to be carried out again: the reply is kept, and whoever goes on reads what became of its
    /// calls.
    fn give_up(&mut self, chunks: &mut Chunks) {
        let carries_out = |call: &Called| call.stage == Stage::Answered || (call.stage == Stage::Made && !call.is_clients);
        if !self.reply.calls.iter().any(carries_out) {
            return;
        }
        for (index, call) in (0..).zip(&self.reply.calls) {
            let text = match call.stage {
                Stage::Answered => continue,
                Stage::Made if !call.is_clients => UNKNOWN,
                Stage::Made | Stage::Open => NOT_MADE,
            };
            let of = CallOf::Reply(index);
            chunks.push_back(Chunk::ToolResult { of, content: text.to_owned(), error: Some(text.to_owned()) });
        }
        self.reply = Making::default();
        self.tell_state(chunks);
        chunks.push_back(Chunk::Next);
    }
}

impl Translator {
    /// A run of an agent that was sent the messages `sent`, the client's `tools`, and `state`.
    pub fn new(sent: HashSet<String>, tools: HashSet<String>, state: Option<&Json>) -> Self {
        Self { sent, tools, state: State::new(state), ..Self::default() }
    }

    /// The same on a thread, when these calls wait for results.
    #[must_use]
    pub fn on(self, thread: String, waiting: HashSet<String>) -> Self {
        Self { thread, waiting, ..self }
    }

    /// The reply is whole; what comes next is of another.
    fn next(&mut self, chunks: &mut Chunks) -> Result<(), CallError> {
        self.replies += 1;
        if self.replies == REPLIES_MAX {
            return Err(nonsense(format!("the agent says more than {REPLIES_MAX} messages in a run")));
        }
        self.tell_state(chunks);
        self.reply = Making::default();
        chunks.push_back(Chunk::Next);
        Ok(())
    }

    fn tell_state(&mut self, chunks: &mut Chunks) {
        chunks.extend(self.state.take().map(Chunk::State));
    }

    /// Chunks of one thing end with the first event of another.
    fn end_chunks(&mut self, event: &Event, chunks: &mut Chunks) -> Result<(), CallError> {
        let goes_on = match (&self.chunked, event) {
            (None, _) | (_, Event::Other | Event::RunError(_)) => true,
            (Some(Chunked::Text(id)), Event::TextChunk(chunk)) => chunk.message_id.as_ref().is_none_or(|given| given == id),
            (Some(Chunked::Call(id)), Event::CallChunk(chunk)) => chunk.tool_call_id.as_ref().is_none_or(|given| given == id),
            (Some(_), _) => false,
        };
        match self.chunked.take_if(|_| !goes_on) {
            Some(Chunked::Text(id)) => self.end_text(&id, chunks),
            Some(Chunked::Call(id)) => self.end_call(&id, chunks),
            None => Ok(()),
        }
    }

    fn text_chunk(&mut self, chunk: event::Chunk, chunks: &mut Chunks) -> Result<(), CallError> {
        let open = match &self.chunked {
            Some(Chunked::Text(id)) => id.clone(),
            Some(Chunked::Call(_)) | None => {
                let id = chunk.message_id.ok_or_else(|| nonsense("the first TEXT_MESSAGE_CHUNK of a message has no messageId"))?;
                self.talk.start(id.clone(), chunk.role.as_deref())?;
                self.chunked = Some(Chunked::Text(id.clone()));
                id
            }
        };
        self.text(&open, chunk.delta.unwrap_or_default(), chunks)
    }

    fn call_chunk(&mut self, chunk: event::CallChunk, chunks: &mut Chunks) -> Result<(), CallError> {
        let open = match &self.chunked {
            Some(Chunked::Call(id)) => id.clone(),
            Some(Chunked::Text(_)) | None => {
                let (Some(id), Some(name)) = (chunk.tool_call_id, chunk.tool_call_name) else {
                    return Err(nonsense("the first TOOL_CALL_CHUNK of a call needs toolCallId and toolCallName"));
                };
                self.call(&id, name, chunk.parent_message_id, chunks)?;
                self.chunked = Some(Chunked::Call(id.clone()));
                id
            }
        };
        self.argue(&open, chunk.delta.unwrap_or_default(), chunks)
    }

    fn text(&mut self, id: &str, delta: Units, chunks: &mut Chunks) -> Result<(), CallError> {
        let said = self.talk.say(id, delta)?;
        self.size.add(said.as_ref().map_or(0, String::len))?;
        // What is said while another message is open waits for its turn.
        match said.and_then(|text| self.talk.wait(id, text)) {
            Some(text) => self.tell(id, text, chunks),
            None => Ok(()),
        }
    }

    fn end_text(&mut self, id: &str, chunks: &mut Chunks) -> Result<(), CallError> {
        self.talk.end(id)?;
        self.tell_waiting(chunks)
    }

    fn finish_texts(&mut self, chunks: &mut Chunks) -> Result<(), CallError> {
        self.talk.end_all();
        self.tell_waiting(chunks)
    }

    fn tell_waiting(&mut self, chunks: &mut Chunks) -> Result<(), CallError> {
        while let Some((id, text)) = self.talk.next() {
            self.tell(&id, text, chunks)?;
        }
        Ok(())
    }

    /// Text of a message: of the reply that is being made, or of another one.
    fn tell(&mut self, id: &str, text: String, chunks: &mut Chunks) -> Result<(), CallError> {
        if self.reply.text.as_ref().is_some_and(|last| last != id) {
            if self.reply.awaits() {
                // The results are still to come: it stays in this one.
                chunks.push_back(Chunk::Text("\n\n".to_owned()));
            } else {
                self.next(chunks)?;
            }
        }
        self.has_said = true;
        self.reply.thinking = None;
        if self.reply.text.as_deref() != Some(id) {
            self.reply.text = Some(id.to_owned());
            self.reply.names.push(id.to_owned());
        }
        chunks.push_back(Chunk::Text(text));
        Ok(())
    }

    fn think(&mut self, id: Option<String>, delta: Units, chunks: &mut Chunks) -> Result<(), CallError> {
        let text = self.thought.join(delta);
        self.size.add(text.len())?;
        if text.is_empty() {
            return Ok(());
        }
        // What is thought after a message belongs to the next one.
        if self.reply.text.is_some() && !self.talk.is_speaking() && !self.reply.awaits() {
            self.next(chunks)?;
        }
        let id = id.unwrap_or_else(|| self.thinking.to_string());
        if self.reply.thinking.as_ref().is_some_and(|last| *last != id) {
            chunks.push_back(Chunk::Reasoning("\n\n".to_owned()));
        }
        self.reply.thinking = Some(id);
        chunks.push_back(Chunk::Reasoning(text));
        Ok(())
    }

    fn call(&mut self, id: &str, name: String, parent: Option<String>, chunks: &mut Chunks) -> Result<(), CallError> {
        self.size.add(id.len() + name.len())?;
        if self.reply.open(id).is_some() {
            return Err(nonsense(format!("TOOL_CALL_START of the call {}, which is open", clip(id))));
        }
        let is_anothers = parent.as_ref().is_some_and(|parent| !self.reply.names.contains(parent));
        if is_anothers && self.reply.text.is_some() && !self.talk.is_speaking() && !self.reply.awaits() {
            self.next(chunks)?;
        }
        let is_clients = self.tools.contains(&name);
        let Some(index) = self.reply.call(id, is_clients) else { return Err(nonsense("the agent asks for too many tool calls at once")) };
        self.reply.names.extend(parent);
        self.reply.thinking = None;
        (self.has_said, self.arguments) = (true, Halves::default());
        chunks.push_back(Chunk::ToolCall { index, id: Some(ToolCallId::from(id)), name });
        Ok(())
    }

    fn argue(&mut self, id: &str, delta: Units, chunks: &mut Chunks) -> Result<(), CallError> {
        let Some((index, call)) = self.reply.open(id) else {
            return Err(nonsense(format!("TOOL_CALL_ARGS of the call {}, which isn't open", clip(id))));
        };
        let delta = self.arguments.join(delta);
        call.has_arguments |= !delta.is_empty();
        self.size.add(delta.len())?;
        if !delta.is_empty() {
            chunks.push_back(Chunk::ToolArguments { index, delta });
        }
        Ok(())
    }

    fn end_call(&mut self, id: &str, chunks: &mut Chunks) -> Result<(), CallError> {
        let Some((index, call)) = self.reply.open(id) else {
            return Err(nonsense(format!("TOOL_CALL_END of the call {}, which isn't open", clip(id))));
        };
        call.stage = Stage::Made;
        if !call.has_arguments {
            // Whole, so that what follows is told at once.
            chunks.push_back(Chunk::ToolArguments { index, delta: "{}".to_owned() });
        }
        Ok(())
    }

    /// A result: of a call that the agent carried out. One of a call of before, or of one that has a result, changes nothing.
    fn result(&mut self, id: &str, content: String, chunks: &mut Chunks) -> Result<(), CallError> {
        self.size.add(content.len())?;
        let error = None;
        let Some((index, call)) = self.reply.awaiting(id) else {
            // A call that was waited for goes on: that is told at once.
            if self.waiting.remove(id) {
                chunks.push_back(Chunk::ToolResult { of: CallOf::Before(id.into()), content, error });
                return if self.reply.is_empty() { self.next(chunks) } else { Ok(()) };
            }
            return Ok(());
        };
        call.stage = Stage::Answered;
        chunks.push_back(Chunk::ToolResult { of: CallOf::Reply(index), content, error });
        if self.reply.is_carried_out() { self.next(chunks) } else { Ok(()) }
    }

    /// An agent that only said how the conversation is now: what it added, as if it had been streamed.
    fn catch_up(&mut self, added: Vec<Added>, chunks: &mut Chunks) -> Result<(), CallError> {
        for Added { id, role, content, tool_calls, tool_call_id } in added {
            let said = content.as_ref().map(snapshot::text).unwrap_or_default();
            match (role.as_str(), tool_call_id) {
                ("assistant", _) => {
                    self.size.add(said.len())?;
                    if !said.is_empty() {
                        self.tell(&id, said, chunks)?;
                    }
                    for snapshot::AddedCall { id: call, function } in tool_calls {
                        self.call(&call, function.name, Some(id.clone()), chunks)?;
                        self.size.add(function.arguments.len())?;
                        if let Some((index, open)) = self.reply.open(&call).filter(|_| !function.arguments.is_empty()) {
                            open.has_arguments = true;
                            chunks.push_back(Chunk::ToolArguments { index, delta: function.arguments });
                        }
                        self.end_call(&call, chunks)?;
                    }
                }
                ("tool", Some(call)) => self.result(&call, said, chunks)?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// What an agent says of its failure: its words and its code.
fn run_error(failed: event::Failed, data: &str) -> CallError {
    let said = failure::of_event(data);
    let message = failed.message.filter(|message| !message.is_empty()).unwrap_or_else(|| "without an explanation".to_owned());
    let code = failed.code.map(|code| code.as_str().map_or_else(|| code.to_string(), str::to_owned)).filter(|code| !code.is_empty());
    let code = code.map(|code| format!(" ({})", clip(&code))).unwrap_or_default();
    CallError { message: format!("the agent reported an error: {message}{code}"), ..said }
}

/// An agent's name for something, in a text for people.
pub(super) fn clip(name: &str) -> String {
    let shown: String = name.chars().take(NAME_CHARS_MAX).collect();
    if shown.len() < name.len() { format!("{shown}…") } else { shown }
}
