//! How much a model reads: the engine's own count, for what no provider has reported yet. One token is four characters, a media part
//! is 1,200 tokens. Sizes are added up in characters, so that a path can be counted message by message; only a sum is turned into
//! tokens. May not know windows, strategies, or what any service really counts.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

use super::{CallRequest, Content, Message, Part, PartKind, Role, Tool, ToolCall};

/// So many characters are a token.
const TOKEN_CHARS: u64 = 4;

/// So many tokens is each image, recording, video, document.
const MEDIA_TOKENS: u64 = 1_200;

/// How much of something a model reads, in characters; a media part weighs as many as its tokens would.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(u64);

impl Size {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// One media part, whatever is in it.
    pub const MEDIA: Self = Self(MEDIA_TOKENS * TOKEN_CHARS);

    /// So many characters: the way back from [`characters`](Self::characters).
    pub const fn from_characters(characters: u64) -> Self {
        Self(characters)
    }

    /// The most that fits into so many tokens.
    pub const fn from_tokens(tokens: u64) -> Self {
        Self(tokens.saturating_mul(TOKEN_CHARS))
    }

    /// A text, for instance a system prompt.
    pub fn of_text(text: &str) -> Self {
        Self(text.chars().count() as u64)
    }

    /// What a model reads of a message: its text, the reasoning that goes back to its maker, its calls' names and arguments, a result
    /// and its error, its media. Ids, names of people, metadata, and what only people see (activities) count nothing.
    pub fn of_message(message: &Message) -> Self {
        match message.role {
            Role::User | Role::Assistant | Role::Tool | Role::System | Role::Developer => {}
            Role::Reasoning | Role::Activity => return Self::ZERO,
        }
        let said = match &message.content {
            Some(Content::Text(text)) => Self::of_text(text),
            Some(Content::Parts(parts)) => parts.iter().map(Self::of_part).sum(),
            Some(Content::Object(_)) | None => Self::ZERO,
        };
        let calls: Self = message.tool_calls.iter().map(Self::of_call).sum();
        said + calls + message.error.as_deref().map_or(Self::ZERO, Self::of_text)
    }

    /// What a model reads of a tool that it may call: name, description, schema.
    pub fn of_tool(tool: &Tool) -> Self {
        let schema = tool.parameters.as_ref().map_or(Self::ZERO, |schema| Self::of_text(schema.get()));
        Self::of_text(&tool.name) + Self::of_text(&tool.description) + schema
    }

    /// Everything that a model reads of a call: system prompt, tools, messages.
    pub fn of_request(request: &CallRequest) -> Self {
        let system = request.system.as_deref().map_or(Self::ZERO, Self::of_text);
        let tools: Self = request.tools.iter().map(Self::of_tool).sum();
        let messages: Self = request.messages.iter().map(|message| Self::of_message(message)).sum();
        system + tools + messages
    }

    /// In characters.
    pub const fn characters(self) -> u64 {
        self.0
    }

    /// In tokens; a part of one is one.
    pub const fn tokens(self) -> u64 {
        self.0.div_ceil(TOKEN_CHARS)
    }

    fn of_part(part: &Part) -> Self {
        let text = || part.text.as_deref().map_or(Self::ZERO, Self::of_text);
        match part.kind {
            PartKind::Text => text(),
            PartKind::Image | PartKind::Audio | PartKind::Video | PartKind::Document => Self::MEDIA,
            // Only what its maker signed goes back. Without a text the opaque form is all there is to count.
            PartKind::Reasoning => match &part.encrypted_value {
                Some(value) if part.text.as_deref().is_none_or(str::is_empty) => Self::of_text(value),
                Some(_) => text(),
                None => Self::ZERO,
            },
            PartKind::ToolCall => Self::ZERO,
        }
    }

    fn of_call(call: &ToolCall) -> Self {
        Self::of_text(&call.function.name) + Self::of_text(&call.function.arguments)
    }
}

impl Size {
    /// The same with `now` in the place of `was`.
    #[must_use]
    pub fn instead(self, was: Self, now: Self) -> Self {
        self + now - was
    }
}

impl Add for Size {
    type Output = Self;

    /// The most that can be said is the most there is.
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Size {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Size {
    type Output = Self;

    /// Never less than nothing.
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Sum for Size {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::ZERO, Add::add)
    }
}

#[cfg(test)]
mod tests;
