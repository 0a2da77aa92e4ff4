//! How JSON from outside is read: in one pass, strings moved into place, and with the place at hand when something is wrong.
//! May not know what is read, or in whose spelling.

mod content;

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::fmt::{self, Display};
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

pub(crate) use content::{CallFields, ContentSeed, ROLES, RoleSeed, check_content, source};

use super::{Client, Code, Json, Refusal, json_fault};
use crate::ids::ID_BYTES_MAX;

/// No more of a name from outside is repeated in an error.
const NAME_CHARS_MAX: usize = 64;

/// What is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most messages of a view.
    pub view_messages_max: usize,
    /// The most bytes of one message's content. Replies are exempt: they are Headwater's own, sent back.
    pub content_bytes_max: usize,
    /// The most tools that a client offers.
    pub tools_max: usize,
    /// The most bytes of all that a client offers.
    pub client_bytes_max: usize,
    /// The most values in JSON that is only relayed.
    pub json_values_max: usize,
    /// The most bytes of a title.
    pub title_bytes_max: usize,
}

impl Limits {
    /// As they are configured when nothing is said.
    pub const DEFAULT: Self = Self {
        view_messages_max: 20_000,
        content_bytes_max: 1 << 20,
        tools_max: 256,
        client_bytes_max: 1 << 20,
        json_values_max: 100_000,
        title_bytes_max: 1024,
    };
}

/// One reading of one document.
pub(crate) struct Reading<'l> {
    pub(crate) limits: &'l Limits,
    /// Whether a field that nobody knows, or that stands twice, is refused instead of passed over.
    strict: bool,
    /// The way to the value that is being read. Left as it is when reading fails there.
    place: RefCell<Vec<Step>>,
    refusal: Cell<Option<Refusal>>,
}

enum Step {
    Field(&'static str),
    Unknown(String),
    Index(usize),
}

impl<'l> Reading<'l> {
    pub(crate) fn new(limits: &'l Limits) -> Self {
        Self { limits, strict: false, place: RefCell::new(Vec::with_capacity(8)), refusal: Cell::new(None) }
    }

    /// A reading that refuses fields that nobody knows.
    pub(crate) fn strict(limits: &'l Limits) -> Self {
        Self { strict: true, ..Self::new(limits) }
    }

    /// Reads the whole of `text` as one object.
    pub(crate) fn whole<'de, F: Fields<'de>>(self, text: &'de str) -> Result<F::Value, Refusal> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let read = Object::<F>::new(&self).deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
        read.map_err(|error| self.refusal(&error))
    }

    /// The value of `field`.
    pub(crate) fn value<'de, T: Deserialize<'de>, A: MapAccess<'de>>(&self, map: &mut A, field: &'static str) -> Result<T, A::Error> {
        self.seed(map, field, PhantomData)
    }

    /// The word that is the value of `field`, if it isn't `null`. (Serde says of an enum's value that is no string that it isn't JSON.)
    pub(crate) fn word<'de, T: Copy, A: MapAccess<'de>>(
        &self,
        map: &mut A,
        field: &'static str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, A::Error> {
        let Some(Name(word)) = self.value::<Option<Name<'de>>, A>(map, field)? else { return Ok(None) };
        if let Some((_, meant)) = words.iter().find(|(known, _)| *known == word) {
            return Ok(Some(*meant));
        }
        let known = words.iter().map(|(known, _)| format!("`{known}`")).collect::<Vec<_>>().join(", ");
        Err(self.refuse_field(field, Code::BadRequest, format_args!("`{}` isn't known; allowed: {known}", clip(&word))))
    }

    /// The value of `field`, if it isn't `null`.
    pub(crate) fn maybe<'de, S: DeserializeSeed<'de>, A: MapAccess<'de>>(
        &self,
        map: &mut A,
        field: &'static str,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.seed(map, field, Maybe(seed))
    }

    fn seed<'de, S: DeserializeSeed<'de>, A: MapAccess<'de>>(
        &self,
        map: &mut A,
        field: &'static str,
        seed: S,
    ) -> Result<S::Value, A::Error> {
        self.at(Step::Field(field), || map.next_value_seed(seed))
    }

    /// The value of `field` as its text.
    pub(crate) fn json<'de, A: MapAccess<'de>>(&self, map: &mut A, field: &'static str) -> Result<Option<Json>, A::Error> {
        self.at(Step::Field(field), || match map.next_value::<Option<&'de RawValue>>()? {
            Some(raw) => {
                let json = Json::checked(raw).map_err(|error| self.refuse(Code::BadJson, error))?;
                let max = self.limits.json_values_max;
                if json.has_more_than(max) {
                    return Err(self.refuse(Code::ContentTooLarge, format_args!("more than {max} values are not accepted")));
                }
                Ok(Some(json))
            }
            None => Ok(None),
        })
    }

    /// Refuses what a client offers when all of it together is too large.
    pub(crate) fn expect_client<E: de::Error>(&self, client: &Client) -> Result<(), E> {
        let (bytes, max) = (client.bytes(), self.limits.client_bytes_max);
        if bytes <= max {
            return Ok(());
        }
        let what = format_args!("what the client offers (tools, context, state, forwarded props) has {bytes} bytes, more than {max}");
        Err(self.refuse(Code::ContentTooLarge, what))
    }

    /// Refuses a field that nobody knows, or that stands twice.
    fn expect<E: de::Error>(&self, name: &str, allowed: &[&str], seen: &mut u64) -> Result<(), E> {
        let refuse = |what: String| {
            self.place.borrow_mut().push(Step::Unknown(clip(name)));
            Err(self.refuse(Code::BadRequest, what))
        };
        let Some(at) = allowed.iter().position(|known| *known == name) else {
            return refuse(format!("there is no such field; allowed: {}", allowed.join(", ")));
        };
        if *seen & (1 << at) != 0 {
            return refuse("it stands twice".to_owned());
        }
        *seen |= 1 << at;
        Ok(())
    }

    /// Passes over the value of a field that nobody knows.
    fn skip<'de, A: MapAccess<'de>>(&self, map: &mut A, name: &str) -> Result<(), A::Error> {
        self.at(Step::Unknown(clip(name)), || {
            let raw = map.next_value::<&'de RawValue>()?;
            Json::check(raw).map_err(|error| self.refuse(Code::BadJson, error))
        })
    }

    fn at<T, E>(&self, step: Step, read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.place.borrow_mut().push(step);
        let value = read()?;
        self.place.borrow_mut().pop();
        Ok(value)
    }

    /// Does `read` as at `field`.
    pub(crate) fn within<T, E>(&self, field: &'static str, read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.at(Step::Field(field), read)
    }

    /// Does `read` as at element `index`.
    pub(crate) fn within_element<T, E>(&self, index: usize, read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.at(Step::Index(index), read)
    }

    /// Stops reading: what is wrong, here.
    pub(crate) fn refuse<E: de::Error>(&self, code: Code, what: impl Display) -> E {
        let refusal = self.refusal_here(code, &what);
        self.refusal.set(Some(refusal));
        E::custom(what)
    }

    /// Stops reading: what is wrong with `field`.
    pub(crate) fn refuse_field<E: de::Error>(&self, field: &'static str, code: Code, what: impl Display) -> E {
        self.place.borrow_mut().push(Step::Field(field));
        self.refuse(code, what)
    }

    fn refusal_here(&self, code: Code, what: &dyn Display) -> Refusal {
        let place = self.place();
        if place.is_empty() {
            Refusal::new(code, what.to_string())
        } else {
            Refusal::new(code, format!("{place}: {what}")).with("at", place)
        }
    }

    fn place(&self) -> String {
        use fmt::Write as _;
        let mut text = String::new();
        for step in self.place.borrow().iter() {
            let dot = if text.is_empty() { "" } else { "." };
            let _ = match step {
                Step::Field(name) => write!(text, "{dot}{name}"),
                Step::Unknown(name) => write!(text, "{dot}{name}"),
                Step::Index(index) => write!(text, "[{index}]"),
            };
        }
        text
    }

    fn refusal(&self, error: &serde_json::Error) -> Refusal {
        if let Some(refusal) = self.refusal.take() {
            return refusal;
        }
        match error.classify() {
            serde_json::error::Category::Data => self.refusal_here(Code::BadRequest, &json_fault(error)),
            serde_json::error::Category::Syntax | serde_json::error::Category::Eof | serde_json::error::Category::Io => {
                let what = json_fault(error);
                let what = if what.contains("hex escape") { "a surrogate escape has no partner" } else { &what };
                bad_json(what, error.line(), error.column())
            }
        }
    }
}

/// JSON is UTF-8.
pub(crate) fn text(bytes: &[u8]) -> Result<&str, Refusal> {
    std::str::from_utf8(bytes).map_err(|error| {
        let good = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
        let last = good.rsplit('\n').next().unwrap_or_default();
        bad_json("a byte that is not UTF-8", good.split('\n').count(), last.len() + 1)
    })
}

/// The text is not JSON.
pub(crate) fn bad_json(what: &str, line: usize, column: usize) -> Refusal {
    let message = format!("this is not JSON: {what} at line {line}, column {column}");
    Refusal::new(Code::BadJson, message).with("line", line).with("column", column)
}

/// The beginning of a name from outside.
pub(crate) fn clip(name: &str) -> String {
    name.chars().take(NAME_CHARS_MAX).collect()
}

/// An object that is read field by field.
pub(crate) trait Fields<'de>: Default {
    /// What it becomes.
    type Value;

    /// What it is, for errors.
    const EXPECTED: &'static str;

    /// Its fields, at most 64; only a strict reading asks.
    const ALLOWED: &'static [&'static str] = &[];

    /// Reads the value of the field `name`; false, and nothing read, when it has no such field.
    fn field<A: MapAccess<'de>>(&mut self, reading: &Reading<'_>, name: &str, map: &mut A) -> Result<bool, A::Error>;

    /// All fields were read.
    fn finish<E: de::Error>(self, reading: &Reading<'_>) -> Result<Self::Value, E>;
}

/// Reads an object.
pub(crate) struct Object<'c, F> {
    reading: &'c Reading<'c>,
    fields: PhantomData<F>,
}

impl<'c, F> Object<'c, F> {
    pub(crate) fn new(reading: &'c Reading<'c>) -> Self {
        Self { reading, fields: PhantomData }
    }
}

impl<F> Clone for Object<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Object<'_, F> {}

impl<'de, F: Fields<'de>> DeserializeSeed<'de> for Object<'_, F> {
    type Value = F::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<F::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

/// A key or a word, borrowed where it has no escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de, F: Fields<'de>> Visitor<'de> for Object<'_, F> {
    type Value = F::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(F::EXPECTED)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<F::Value, A::Error> {
        let (mut fields, mut seen) = (F::default(), 0);
        while let Some(Name(name)) = map.next_key()? {
            if self.reading.strict {
                self.reading.expect(&name, F::ALLOWED, &mut seen)?;
            }
            if !fields.field(self.reading, &name, &mut map)? {
                self.reading.skip(&mut map, &name)?;
            }
        }
        fields.finish(self.reading)
    }
}

/// Reads a list.
#[derive(Clone, Copy)]
pub(crate) struct List<'c, S> {
    pub(crate) reading: &'c Reading<'c>,
    pub(crate) each: S,
    /// The most elements, and the code that says that there are more.
    pub(crate) max: Option<(usize, Code)>,
}

impl<'de, S: DeserializeSeed<'de> + Copy> DeserializeSeed<'de> for List<'_, S> {
    type Value = Vec<S::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, S: DeserializeSeed<'de> + Copy> Visitor<'de> for List<'_, S> {
    type Value = Vec<S::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = self.reading.at(Step::Index(list.len()), || seq.next_element_seed(self.each))? {
            if let Some((max, code)) = self.max
                && list.len() >= max
            {
                return Err(self.reading.refuse(code, format_args!("more than {max} are not accepted")));
            }
            list.push(element);
        }
        Ok(list)
    }
}

/// Reads an id: 1 to 128 bytes.
pub(crate) struct Id<'c, T> {
    reading: &'c Reading<'c>,
    id: PhantomData<T>,
}

impl<'c, T> Id<'c, T> {
    pub(crate) fn new(reading: &'c Reading<'c>) -> Self {
        Self { reading, id: PhantomData }
    }
}

impl<T> Clone for Id<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Id<'_, T> {}

impl<'de, T: for<'s> From<&'s str>> DeserializeSeed<'de> for Id<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<T: for<'s> From<&'s str>> Visitor<'_> for Id<'_, T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an id (a string)")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        match text.len() {
            1..=ID_BYTES_MAX => Ok(T::from(text)),
            length => Err(self.reading.refuse(Code::BadId, format_args!("an id has 1 to {ID_BYTES_MAX} bytes; this one has {length}"))),
        }
    }
}

/// Reads what may be `null`.
struct Maybe<S>(S);

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Maybe<S> {
    type Value = Option<S::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de, S: DeserializeSeed<'de>> Visitor<'de> for Maybe<S> {
    type Value = Option<S::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or null")
    }

    fn visit_none<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        self.0.deserialize(deserializer).map(Some)
    }
}
