//! Where configuration is written, and how a place in it is shown. All sources share one number line: each begins where the
//! one before ends, so a span found anywhere says which source it is in.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Keys whose values are secrets, named and never written.
const SECRETS: &[&str] = &["api_key", "secret", "old_secret", "token"];

/// The key that stands before the text of a value, so that it can be parsed as TOML.
const VALUE_KEY: &str = "value";

/// What holds a piece of configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// `config/default.toml`.
    Default,
    /// The user's file.
    File(PathBuf),
    /// An environment variable.
    Variable(String),
    /// A command-line flag.
    Flag(&'static str),
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("config/default.toml"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// A text, and where it begins on the number line.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) origin: Written,
    start: usize,
    padded: String,
}

impl Source {
    /// The text behind so much white space that the spans of what is parsed from it lie on the number line.
    pub(super) fn padded(&self) -> &str {
        &self.padded
    }

    /// The text alone.
    pub(super) fn text(&self) -> &str {
        &self.padded[self.start..]
    }

    /// The value that the text is in TOML, if it is one.
    pub(super) fn value(&self) -> Option<Spanned<DeValue<'_>>> {
        let mut table = DeTable::parse(&self.padded).ok()?.into_inner();
        if table.len() == 1 { table.remove(VALUE_KEY) } else { None }
    }

    /// The whole of it.
    pub(super) fn span(&self) -> Range<usize> {
        self.start..self.padded.len()
    }
}

/// All sources, lowest first.
#[derive(Debug, Default)]
pub(super) struct Sources(Vec<Source>);

impl Sources {
    /// Adds a file's text.
    pub(super) fn add(&mut self, origin: Written, text: &str) {
        let start = self.0.last().map_or(0, |last| last.padded.len() + 1);
        self.0.push(Source { origin, start, padded: format!("{:start$}{text}", "") });
    }

    /// Adds the text of one value.
    pub(super) fn add_value(&mut self, origin: Written, text: &str) {
        self.add(origin, &format!("{VALUE_KEY} = {text}"));
        if let Some(source) = self.0.last_mut() {
            source.start += VALUE_KEY.len() + " = ".len();
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Source> {
        self.0.iter()
    }

    /// The source that a span lies in.
    pub(super) fn of(&self, span: &Range<usize>) -> Option<&Source> {
        self.0.iter().rev().find(|source| source.start <= span.start)
    }

    /// The place of a span.
    pub(super) fn place(&self, span: Range<usize>) -> Option<Box<Place>> {
        let source = self.of(&span)?;
        let excerpt = match &source.origin {
            Written::Default | Written::File(_) => Some(Excerpt::new(source.text(), span.start - source.start..span.end - source.start)),
            Written::Variable(_) | Written::Flag(_) => None,
        };
        Some(Box::new(Place { origin: source.origin.clone(), excerpt }))
    }
}

/// A place in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    origin: Written,
    excerpt: Option<Excerpt>,
}

impl Place {
    /// The folder that relative paths at this place are relative to.
    pub(super) fn folder(&self) -> Option<&Path> {
        match &self.origin {
            Written::File(path) => path.parent(),
            Written::Default | Written::Variable(_) | Written::Flag(_) => None,
        }
    }

    /// What holds it.
    pub fn origin(&self) -> &Written {
        &self.origin
    }

    /// The line with carets under the place, below a line break; nothing for a variable or a flag.
    pub(super) fn picture(&self) -> String {
        self.excerpt.as_ref().map(Excerpt::picture).unwrap_or_default()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.excerpt {
            None => write!(f, "{}", self.origin),
            Some(excerpt) => write!(f, "{}:{}:{}", self.origin, excerpt.line, excerpt.column),
        }
    }
}

/// A line of a file, and what in it is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Excerpt {
    /// From 1.
    line: usize,
    /// In characters, from 1.
    column: usize,
    text: String,
    width: usize,
}

impl Excerpt {
    fn new(text: &str, span: Range<usize>) -> Self {
        let start = text.floor_char_boundary(span.start);
        let end = text.floor_char_boundary(span.end.max(start));
        let begin = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let length = text[begin..].find('\n').unwrap_or(text.len() - begin);
        let line = text[begin..begin + length].trim_end_matches('\r');
        Self {
            line: text[..start].matches('\n').count() + 1,
            column: text[begin..start].chars().count() + 1,
            text: masked(line),
            width: text[start..end.min(begin + line.len()).max(start)].chars().count().max(1),
        }
    }

    fn picture(&self) -> String {
        let number = self.line.to_string();
        let gutter = " ".repeat(number.len());
        let indent: String = self.text.chars().take(self.column - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let room = self.text.chars().count().saturating_sub(self.column - 1).max(1);
        let carets = "^".repeat(self.width.min(room));
        format!("\n{gutter} |\n{number} | {}\n{gutter} | {indent}{carets}", self.text)
    }
}

/// The line without a secret that was written into it against all advice.
fn masked(line: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let words = SECRETS.iter().flat_map(|key| line.match_indices(key));
    let end =
        words.map(|(at, key)| (at, at + key.len())).find(|&(at, end)| !line[..at].ends_with(is_part) && !line[end..].starts_with(is_part));
    let end = end.map(|(_, end)| end);
    let value = end.and_then(|end| line[end..].find('=').map(|equals| end + equals + 1));
    match value {
        Some(at) if line[at..].trim_start().starts_with(['"', '\'']) => format!("{} …", &line[..at]),
        Some(_) | None => line.to_owned(),
    }
}
