//! The layers laid over each other: default, file, environment, flags. One tree of values comes out, each with its place.

use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::Flags;
use super::error::{Error, Wrong};
use super::source::{Place, Source, Sources, Written};
use super::words::{Fault, known, meant, said};

const DEFAULT: &str = include_str!("../../config/default.toml");

/// Environment variables that begin so are configuration.
const PREFIX: &str = "HEADWATER__";

/// Keys whose values are paths; `*` stands for any name.
const PATHS: &[&[&str]] = &[
    &["store", "path"],
    &["llm", "*", "file"],
    &["llm", "*", "api_key", "file"],
    &["agent", "*", "worker", "secret", "file"],
    &["agent", "*", "worker", "old_secret", "file"],
    &["agent", "*", "worker", "token", "file"],
    &["agent", "*", "worker", "headers", "*", "file"],
];

/// All texts that say something.
pub(super) fn sources(file: Option<&Path>, variables: impl Iterator<Item = (String, String)>, flags: &Flags) -> Result<Sources, Error> {
    let mut sources = Sources::default();
    sources.add(Written::Default, DEFAULT);
    if let Some(path) = file {
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        sources.add(Written::File(path.to_owned()), text.strip_prefix('\u{feff}').unwrap_or(&text));
    }
    let mut variables: Vec<_> = variables.filter(|(name, _)| name.starts_with(PREFIX)).collect();
    variables.sort();
    for (name, value) in variables {
        sources.add_value(Written::Variable(name), &value);
    }
    if let Some(listen) = &flags.listen {
        sources.add_value(Written::Flag("--listen"), listen);
    }
    Ok(sources)
}

/// The merged values.
#[derive(Debug)]
pub(super) struct Document<'s> {
    sources: &'s Sources,
    root: DeTable<'s>,
}

impl<'s> Document<'s> {
    /// Lays the sources over each other.
    pub(super) fn new(sources: &'s Sources) -> Result<Self, Wrong> {
        let mut document = Self { sources, root: DeTable::new() };
        let mut environment = DeTable::new();
        for source in sources.iter() {
            match &source.origin {
                Written::Default => {
                    let layer = document.parsed(source)?;
                    merge(&mut document.root, layer);
                }
                Written::File(_) => {
                    let layer = document.parsed(source)?;
                    document.drop_demo(&layer);
                    merge(&mut document.root, layer);
                }
                Written::Variable(name) => merge(&mut environment, document.variable(source, &name[PREFIX.len()..])),
                Written::Flag(_) => merge(&mut environment, nested(&["server".to_owned(), "listen".to_owned()], text(source))),
            }
        }
        merge(&mut document.root, environment);
        document.resolve_paths();
        Ok(document)
    }

    /// The value of `[section]` or `[section.name]`.
    pub(super) fn read<T: for<'de> Deserialize<'de>>(&self, path: &[&str]) -> Result<T, Wrong> {
        self.read_with(path, self.value(path).cloned(), T::deserialize)
    }

    /// Those of a table's fields that pass `filter`, through `read`.
    pub(super) fn read_some<T>(
        &self,
        path: &[&str],
        filter: impl Fn(&str) -> bool,
        read: impl FnOnce(ValueDeserializer<'s>) -> Result<T, toml::de::Error>,
    ) -> Result<T, Wrong> {
        let mut value = self.value(path).cloned();
        if let Some(DeValue::Table(table)) = value.as_mut().map(Spanned::get_mut) {
            *table = std::mem::take(table).into_iter().filter(|(key, _)| filter(key.get_ref())).collect();
        }
        self.read_with(path, value, read)
    }

    fn read_with<T>(
        &self,
        path: &[&str],
        value: Option<Spanned<DeValue<'s>>>,
        read: impl FnOnce(ValueDeserializer<'s>) -> Result<T, toml::de::Error>,
    ) -> Result<T, Wrong> {
        let name = path.join(".");
        match value {
            Some(value) if value.get_ref().is_table() => {
                let span = value.span();
                read(ValueDeserializer::from(value)).map_err(|error| self.translate(&error, span, path))
            }
            Some(_) => Err(self.wrong(path, format!("`{name}` is a table, written [{name}]"))),
            None => Err(Wrong { place: None, what: format!("[{name}] is missing"), help: None }),
        }
    }

    /// The names in `section`, which holds tables only.
    pub(super) fn names(&self, section: &str) -> Result<Vec<String>, Wrong> {
        let tables = match self.value(&[section]).map(Spanned::get_ref) {
            None => return Ok(Vec::new()),
            Some(DeValue::Table(tables)) => tables,
            Some(_) => return Err(self.wrong(&[section], format!("`{section}` holds tables, written [{section}.<id>]"))),
        };
        match tables.iter().find(|(_, value)| !value.get_ref().is_table()) {
            None => Ok(tables.keys().map(|key| key.get_ref().to_string()).collect()),
            Some((key, _)) => {
                Err(self.wrong_name(&[section, key.get_ref()], format!("[{section}] holds tables only, written [{section}.<id>]")))
            }
        }
    }

    /// Sections must be among `known`.
    pub(super) fn expect_sections(&self, known: &[&str]) -> Result<(), Wrong> {
        match self.root.keys().find(|key| !known.contains(&key.get_ref().as_ref())) {
            None => Ok(()),
            Some(key) => Err(Wrong {
                place: self.sources.place(key.span()),
                what: format!("`{}` is not a section", key.get_ref()),
                help: Some(meant(key.get_ref(), known, "sections")),
            }),
        }
    }

    /// Keys of the table at `path` must be among `known`.
    pub(super) fn expect_keys(&self, path: &[&str], known: &[&str]) -> Result<(), Wrong> {
        match self.table(path).and_then(|table| table.keys().find(|key| !known.contains(&key.get_ref().as_ref()))) {
            None => Ok(()),
            Some(key) => Err(Wrong {
                place: self.sources.place(key.span()),
                what: format!("`{}` is not a key of [{}]", key.get_ref(), path.join(".")),
                help: Some(meant(key.get_ref(), known, "keys")),
            }),
        }
    }

    /// What is wrong at the value of `path`.
    pub(super) fn wrong(&self, path: &[&str], what: impl Into<String>) -> Wrong {
        let place = self.value(path).and_then(|value| self.sources.place(value.span()));
        Wrong { place, what: what.into(), help: None }
    }

    /// What is wrong at `key` of the `index`th table of the list at `path`.
    pub(super) fn wrong_in_list(&self, path: &[&str], index: usize, key: &str, what: impl Into<String>) -> Wrong {
        let item = self.value(path).and_then(|list| list.get_ref().as_array()?.get(index));
        let value = item.and_then(|item| item.get_ref().as_table()?.get(key)).or(item);
        Wrong { place: value.and_then(|value| self.sources.place(value.span())), what: what.into(), help: None }
    }

    /// What is wrong with the name at the end of `path`.
    pub(super) fn wrong_name(&self, path: &[&str], what: impl Into<String>) -> Wrong {
        let key = path.split_last().and_then(|(name, table)| self.table(table)?.get_key_value(*name));
        Wrong { place: key.and_then(|(key, _)| self.sources.place(key.span())), what: what.into(), help: None }
    }

    /// Whether anything stands at `path`.
    pub(super) fn has(&self, path: &[&str]) -> bool {
        self.value(path).is_some()
    }

    fn value(&self, path: &[&str]) -> Option<&Spanned<DeValue<'s>>> {
        let (name, table) = path.split_last()?;
        self.table(table)?.get(*name)
    }

    fn table(&self, path: &[&str]) -> Option<&DeTable<'s>> {
        path.iter().try_fold(&self.root, |table, name| table.get(*name)?.get_ref().as_table())
    }

    /// What serde says, at its place. Where serde looked at a whole table, the key that it names is the better place.
    fn translate(&self, error: &toml::de::Error, table: Range<usize>, path: &[&str]) -> Wrong {
        let said = said(error.message());
        let span = error.span().unwrap_or_else(|| table.clone());
        let named = said.key.as_deref().and_then(|key| self.table(path)?.get_key_value(key));
        let place = self.sources.place(named.filter(|_| span == table).map_or(span, |(key, _)| key.span()));
        let what = match (&said.key, named, said.fault) {
            (Some(key), Some(_), Fault::UnknownKey) => format!("`{key}` is not a key of [{}]", path.join(".")),
            (Some(key), None, Fault::UnknownKey) => format!("`{key}` is not a key here"),
            (Some(key), _, Fault::MissingKey) => format!("[{}] needs the key `{key}`", path.join(".")),
            (_, _, Fault::UnknownKey | Fault::MissingKey | Fault::Value) => said.what,
        };
        Wrong { place, what, help: said.help }
    }

    fn parsed(&self, source: &'s Source) -> Result<DeTable<'s>, Wrong> {
        let table = DeTable::parse(source.padded()).map_err(|error| self.translate(&error, source.span(), &[]))?;
        Ok(table.into_inner())
    }

    /// The built-in demo agent gives way to a file that names agents of its own.
    fn drop_demo(&mut self, file: &DeTable<'s>) {
        let agents = file.get("agent").and_then(|agents| agents.get_ref().as_table());
        if agents.is_some_and(|agents| !agents.is_empty()) {
            self.root.remove("agent");
        }
    }

    /// What a variable sets. Its value is TOML where it can be read so, else text.
    fn variable(&self, source: &'s Source, name: &str) -> DeTable<'s> {
        let mut path: Vec<String> = Vec::new();
        for part in name.split("__") {
            let known: Vec<&str> = path.iter().map(String::as_str).collect();
            let fits = |key: &str| key.replace('-', "_").eq_ignore_ascii_case(part);
            let found = self.table(&known).and_then(|table| table.keys().find(|key| fits(key.get_ref())));
            path.push(found.map_or_else(|| part.to_ascii_lowercase(), |key| key.get_ref().to_string()));
        }
        nested(&path, source.value().unwrap_or_else(|| text(source)))
    }

    fn resolve_paths(&mut self) {
        let Self { sources, root } = self;
        for path in PATHS {
            resolve(sources, root, path);
        }
    }
}

/// The keys that a table of type `T` may have: it names them when it refuses another.
pub(super) fn known_keys<T: for<'de> Deserialize<'de>>() -> Vec<String> {
    let mut table = DeTable::new();
    table.insert(Spanned::new(0..0, "no key is called so".into()), Spanned::new(0..0, DeValue::Boolean(true)));
    let table = ValueDeserializer::from(Spanned::new(0..0, DeValue::Table(table)));
    T::deserialize(table).err().map(|error| known(error.message())).unwrap_or_default()
}

fn text(source: &Source) -> Spanned<DeValue<'_>> {
    Spanned::new(source.span(), DeValue::String(source.text().into()))
}

/// Tables around `value`, one a name.
fn nested<'s>(path: &[String], value: Spanned<DeValue<'s>>) -> DeTable<'s> {
    let span = value.span();
    let mut table = DeTable::new();
    if let Some((name, rest)) = path.split_first() {
        let inner = if rest.is_empty() { value } else { Spanned::new(span.clone(), DeValue::Table(nested(rest, value))) };
        table.insert(Spanned::new(span, name.clone().into()), inner);
    }
    table
}

/// Tables are merged, unless they are of another `kind`: keys of one kind mean nothing to another. Anything else in `over`
/// replaces what was there.
fn merge<'s>(base: &mut DeTable<'s>, over: DeTable<'s>) {
    for (key, mut value) in over {
        let before = base.remove(&key).map(Spanned::into_inner);
        if let (Some(DeValue::Table(mut merged)), DeValue::Table(new)) = (before, value.get_mut())
            && is_same_kind(&merged, new)
        {
            merge(&mut merged, std::mem::take(new));
            *new = merged;
        }
        base.insert(key, value);
    }
}

fn is_same_kind(base: &DeTable<'_>, over: &DeTable<'_>) -> bool {
    let kind = |table: &DeTable<'_>| table.get("kind").and_then(|kind| kind.get_ref().as_str().map(str::to_owned));
    kind(base).is_none() || kind(over).is_none() || kind(base) == kind(over)
}

/// Makes the relative path at `path` relative to the folder of the file that names it.
fn resolve(sources: &Sources, table: &mut DeTable<'_>, path: &[&str]) {
    let Some((name, rest)) = path.split_first() else { return };
    for (_, value) in table.iter_mut().filter(|(key, _)| *name == "*" || key.get_ref() == name) {
        let place = sources.place(value.span());
        let folder = place.as_deref().and_then(Place::folder);
        match (value.get_mut(), folder) {
            (DeValue::Table(inner), _) => resolve(sources, inner, rest),
            (DeValue::String(text), Some(folder)) if rest.is_empty() => {
                *text = folder.join(&**text).to_string_lossy().into_owned().into();
            }
            _ => {}
        }
    }
}
