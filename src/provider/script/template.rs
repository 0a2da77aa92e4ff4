//! Texts with placeholders. What fills one is never read as a template again. May not know rules.

use super::reading::Reading;
use crate::protocol::Role;

/// Between the texts of `{users}` and of `{results}`.
const BETWEEN: &str = " | ";

/// An `{opening}` has at most so many characters.
const OPENING_CHARS: usize = 200;

/// What a placeholder stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placeholder {
    Last,
    First,
    Opening,
    Users,
    History,
    System,
    Count,
    Tokens,
    Result,
    Results,
    Call,
}

impl Placeholder {
    const ALL: [(&str, Self); 11] = [
        ("last", Self::Last),
        ("first", Self::First),
        ("opening", Self::Opening),
        ("users", Self::Users),
        ("history", Self::History),
        ("system", Self::System),
        ("count", Self::Count),
        ("tokens", Self::Tokens),
        ("result", Self::Result),
        ("results", Self::Results),
        ("call", Self::Call),
    ];

    fn fill(self, reading: &Reading, text: &mut String) {
        match self {
            Self::Last => text.push_str(&reading.last_user),
            Self::Users => text.push_str(&reading.users.join(BETWEEN)),
            Self::First => text.push_str(reading.users.first().map_or("", String::as_str)),
            Self::Opening => text.extend(reading.last_user.chars().take(OPENING_CHARS)),
            Self::History => {
                let line = |(role, said)| format!("{}: {said}", name(role));
                text.push_str(&reading.history().map(line).collect::<Vec<_>>().join("\n"));
            }
            Self::System => text.push_str(&reading.system),
            Self::Count => text.push_str(&reading.count().to_string()),
            Self::Tokens => text.push_str(&reading.size.tokens().to_string()),
            Self::Result => text.push_str(reading.results.last().map_or("", |(_, result)| result)),
            Self::Results => {
                let results: Vec<&str> = reading.results.iter().map(|(_, result)| result.as_str()).collect();
                text.push_str(&results.join(BETWEEN));
            }
            Self::Call => text.push_str(&reading.call.to_string()),
        }
    }
}

/// Who speaks, in a `{history}`.
fn name(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
        Role::System => "system",
        Role::Developer => "developer",
        Role::Reasoning => "reasoning",
        Role::Activity => "activity",
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Filled(Placeholder),
}

/// A text to be filled. Only `{word}` is a placeholder, so JSON may stand in a text; `{{word}}` gives `{word}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Template(Vec<Piece>);

impl Template {
    /// Reads a template; the error says which placeholder is unknown, and which are known.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(brace) = rest.find('{') {
            literal.push_str(&rest[..brace]);
            rest = &rest[brace..];
            if let Some(after) = escaped(rest) {
                literal.push_str(&rest[1..rest.len() - after.len() - 1]);
                rest = after;
                continue;
            }
            let Some(name) = word(rest) else {
                literal.push('{');
                rest = &rest[1..];
                continue;
            };
            let (_, placeholder) = Placeholder::ALL.into_iter().find(|(known, _)| *known == name).ok_or_else(|| unknown(name))?;
            if !literal.is_empty() {
                pieces.push(Piece::Literal(std::mem::take(&mut literal)));
            }
            pieces.push(Piece::Filled(placeholder));
            rest = &rest[name.len() + 2..];
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        Ok(Self(pieces))
    }

    /// The text for one call.
    pub fn render(&self, reading: &Reading) -> String {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Literal(literal) => text.push_str(literal),
                Piece::Filled(placeholder) => placeholder.fill(reading, &mut text),
            }
        }
        text
    }
}

/// The word of a `{word}` that `text` begins with.
fn word(text: &str) -> Option<&str> {
    let (word, _) = text.strip_prefix('{')?.split_once('}')?;
    (!word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')).then_some(word)
}

/// What follows the `{{word}}` that `text` begins with.
fn escaped(text: &str) -> Option<&str> {
    let word = word(text.strip_prefix('{')?)?;
    text[word.len() + 3..].strip_prefix('}')
}

fn unknown(name: &str) -> String {
    let known = Placeholder::ALL.map(|(known, _)| format!("{{{known}}}")).join(", ");
    format!("unknown placeholder {{{name}}}; there are {known}; write {{{{{name}}}}} for the text itself")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::protocol::{CallRequest, Message, Role};

    fn render(text: &str) -> String {
        let message = |role, text| Arc::new(Message::text(role, text));
        let messages = vec![message(Role::User, "one"), message(Role::Assistant, "1"), message(Role::User, "{count}")];
        let system = Some("Be kind.".to_owned());
        let request = CallRequest { model: None, system, messages, tools: Vec::new(), index: 2, hidden: false, occasion: None };
        Template::parse(text).unwrap().render(&Reading::of(&request))
    }

    #[test]
    fn placeholders_are_filled_once() {
        assert_eq!(render("<{last}> of {count}: {users}; {call}{result}"), "<{count}> of 3: one | {count}; 2");
        assert_eq!(render("{last}"), "{count}");
        assert_eq!(render("{opening}"), "{count}");
        assert_eq!(render("{first}; {system}; {tokens}"), "one; Be kind.; 5");
        assert_eq!(render("{history}"), "user: one\nassistant: 1\nuser: {count}");
    }

    #[test]
    fn other_braces_are_text() {
        for text in ["", "{", "}", "{}", "{ last }", "{{", r#"{"a": {"b": 1}}"#, "{Last}", "{\u{17c}}", "a{", "{{}}"] {
            assert_eq!(render(text), text);
        }
        assert_eq!(render("{{last}} {{other}}"), "{last} {other}");
        assert_eq!(render("{{last}"), "{{count}");
    }

    #[test]
    fn an_unknown_placeholder_is_refused_with_what_there_is() {
        assert_eq!(
            Template::parse("a {lats}").unwrap_err(),
            "unknown placeholder {lats}; there are {last}, {first}, {opening}, {users}, {history}, {system}, {count}, {tokens}, {result}, {results}, {call}; write {{lats}} for the text itself"
        );
    }
}
