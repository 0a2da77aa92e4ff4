//! When a rule fits: every condition that is given must hold. May not know answers.

use serde::de::{Error as _, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::reading::Reading;
use crate::protocol::Role;

/// `when`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Condition {
    is: Option<AnyOf>,
    starts_with: Option<AnyOf>,
    contains: Option<AnyOf>,
    role: Option<Speaker>,
    call: Option<u32>,
    tool_result: Option<ToolResult>,
    anywhere: Option<AnyOf>,
    offered: Option<String>,
    model: Option<String>,
    over_tokens: Option<u64>,
    over_characters: Option<u64>,
    hidden: Option<bool>,
}

impl Condition {
    /// Whether everything that is asked holds.
    pub fn fits(&self, reading: &Reading) -> bool {
        let last = comparable(&reading.last);
        let text = |any: &Option<AnyOf>, holds: fn(&str, &str) -> bool| any.as_ref().is_none_or(|any| any.holds(|text| holds(&last, text)));
        let is_read =
            |text: &str| comparable(&reading.system).contains(text) || reading.history().any(|(_, said)| comparable(&said).contains(text));
        text(&self.is, |last, text| last == text)
            && text(&self.starts_with, |last, text| last.starts_with(text))
            && text(&self.contains, |last, text| last.contains(text))
            && self.role.is_none_or(|role| reading.role == Some(role.into()))
            && self.call.is_none_or(|call| reading.call == call)
            && self.tool_result.as_ref().is_none_or(|wanted| wanted.fits(reading))
            && self.anywhere.as_ref().is_none_or(|any| any.holds(is_read))
            && self.offered.as_ref().is_none_or(|tool| reading.offered.contains(tool))
            && self.model.as_ref().is_none_or(|model| reading.model.as_ref() == Some(model))
            && self.over_tokens.is_none_or(|tokens| reading.size.tokens() > tokens)
            && self.over_characters.is_none_or(|characters| reading.size.characters() > characters)
            && self.hidden.is_none_or(|hidden| reading.hidden == hidden)
    }
}

/// Texts are compared without regard to case and to white space around them.
fn comparable(text: &str) -> String {
    text.trim().to_lowercase()
}

/// One text, or a list of which one is enough; kept comparable.
#[derive(Debug)]
struct AnyOf(Vec<String>);

impl AnyOf {
    /// Whether something holds for one of them.
    fn holds(&self, holds: impl Fn(&str) -> bool) -> bool {
        self.0.iter().any(|text| holds(text))
    }
}

impl<'de> Deserialize<'de> for AnyOf {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Texts;

        impl<'de> Visitor<'de> for Texts {
            type Value = AnyOf;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text, or a list of texts of which one is enough")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<AnyOf, E> {
                Ok(AnyOf(vec![comparable(text)]))
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<AnyOf, A::Error> {
                let mut texts = Vec::new();
                while let Some(text) = list.next_element::<String>()? {
                    texts.push(comparable(&text));
                }
                if texts.is_empty() {
                    return Err(A::Error::invalid_length(0, &"at least one text: with an empty list the rule never fits"));
                }
                Ok(AnyOf(texts))
            }
        }

        deserializer.deserialize_any(Texts)
    }
}

/// Roles that a model reads.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Speaker {
    User,
    Assistant,
    Tool,
}

impl From<Speaker> for Role {
    fn from(speaker: Speaker) -> Self {
        match speaker {
            Speaker::User => Self::User,
            Speaker::Assistant => Self::Assistant,
            Speaker::Tool => Self::Tool,
        }
    }
}

/// Whether a result stands after the last user message, or of which tool the newest is.
#[derive(Debug)]
enum ToolResult {
    Present(bool),
    Of(String),
}

impl ToolResult {
    fn fits(&self, reading: &Reading) -> bool {
        match self {
            Self::Present(present) => reading.results.is_empty() != *present,
            Self::Of(name) => reading.results.last().is_some_and(|(tool, _)| tool == name),
        }
    }
}

impl<'de> Deserialize<'de> for ToolResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Wanted;

        impl Visitor<'_> for Wanted {
            type Value = ToolResult;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("true, false, or the name of a tool")
            }

            fn visit_bool<E: serde::de::Error>(self, present: bool) -> Result<ToolResult, E> {
                Ok(ToolResult::Present(present))
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<ToolResult, E> {
                match name {
                    "" => Err(E::invalid_value(Unexpected::Str(name), &self)),
                    name => Ok(ToolResult::Of(name.to_owned())),
                }
            }
        }

        deserializer.deserialize_any(Wanted)
    }
}
