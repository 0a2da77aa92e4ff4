//! `forwardedProps.headwater`: options of one run. May not know the agent's defaults.

use serde::de::{self, MapAccess};
use serde_json::value::RawValue;

use super::reading::{Fields, Object, Reading, clip};
use crate::protocol::{Code, Json, OnBusy, PartialView, SameIdEdit, json_fault};

const ALLOWED: &str = "queue, run, partial_view, same_id_edit";

/// No more unknown keys are named in an error.
const UNKNOWN_MAX: usize = 5;

/// What a run says for itself, instead of the agent's defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forwarded {
    /// `queue`: what becomes of it when a turn is there already.
    pub on_busy: Option<OnBusy>,
    /// Whether a reply is due, whatever the view says.
    pub run: Option<bool>,
    /// A view with no known id on a session that has nodes.
    pub partial_view: Option<PartialView>,
    /// A known user id with other content.
    pub same_id_edit: Option<SameIdEdit>,
}

/// The options in `props`, which may be any JSON and say nothing.
pub(super) fn read<E: de::Error>(reading: &Reading<'_>, props: &Json) -> Result<Forwarded, E> {
    if !props.is_object() || !props.get().contains("headwater") {
        return Ok(Forwarded::default());
    }
    let mut deserializer = serde_json::Deserializer::from_str(props.get());
    de::DeserializeSeed::deserialize(Object::<PropsFields>::new(reading), &mut deserializer).map_err(|error| E::custom(json_fault(&error)))
}

#[derive(Default)]
struct PropsFields(Option<Forwarded>);

impl<'de> Fields<'de> for PropsFields {
    type Value = Forwarded;

    const EXPECTED: &'static str = "an object";

    fn field<A: MapAccess<'de>>(&mut self, reading: &Reading<'_>, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "headwater" => self.0 = reading.maybe(map, "headwater", Object::<OptionFields>::new(reading))?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish<E: de::Error>(self, _: &Reading<'_>) -> Result<Forwarded, E> {
        Ok(self.0.unwrap_or_default())
    }
}

#[derive(Default)]
struct OptionFields {
    options: Forwarded,
    unknown: Vec<String>,
}

impl<'de> Fields<'de> for OptionFields {
    type Value = Forwarded;

    const EXPECTED: &'static str = "an object of options";

    fn field<A: MapAccess<'de>>(&mut self, reading: &Reading<'_>, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "queue" => self.options.on_busy = queue(reading, map)?,
            "run" => self.options.run = reading.value(map, "run")?,
            "partial_view" => self.options.partial_view = reading.word(map, "partial_view", &PartialView::WORDS)?,
            "same_id_edit" => self.options.same_id_edit = reading.word(map, "same_id_edit", &SameIdEdit::WORDS)?,
            _ => {
                if self.unknown.len() < UNKNOWN_MAX {
                    self.unknown.push(format!("`{}`", clip(name)));
                }
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn finish<E: de::Error>(self, reading: &Reading<'_>) -> Result<Forwarded, E> {
        if self.unknown.is_empty() {
            return Ok(self.options);
        }
        let unknown = self.unknown.join(", ");
        Err(reading.refuse(Code::BadRequest, format_args!("{unknown} is no option; allowed: {ALLOWED}")))
    }
}

fn queue<'de, A: MapAccess<'de>>(reading: &Reading<'_>, map: &mut A) -> Result<Option<OnBusy>, A::Error> {
    let Some(json) = reading.value::<Option<&RawValue>, A>(map, "queue")? else { return Ok(None) };
    let on_busy = OnBusy::from_queue(json.get());
    on_busy.map(Some).map_err(|refusal| reading.refuse_field("queue", refusal.code, &refusal.message))
}
