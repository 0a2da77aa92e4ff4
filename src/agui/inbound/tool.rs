//! Tools that a front end offers. May not know who calls them.

use serde::de::{self, MapAccess};

use super::reading::{Fields, Reading};
use crate::protocol::{Code, Json, Tool};

#[derive(Default)]
pub(super) struct ToolFields {
    name: Option<String>,
    description: Option<String>,
    parameters: Option<Json>,
    metadata: Option<Json>,
}

impl<'de> Fields<'de> for ToolFields {
    type Value = Tool;

    const EXPECTED: &'static str = "a tool (an object)";

    fn field<A: MapAccess<'de>>(&mut self, reading: &Reading<'_>, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "name" => self.name = reading.value(map, "name")?,
            "description" => self.description = reading.value(map, "description")?,
            "parameters" => self.parameters = reading.json(map, "parameters")?,
            "metadata" => self.metadata = reading.json(map, "metadata")?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish<E: de::Error>(self, reading: &Reading<'_>) -> Result<Tool, E> {
        let Some(name) = self.name.filter(|name| !name.is_empty()) else {
            return Err(reading.refuse_field("name", Code::BadRequest, "a tool needs a name"));
        };
        Ok(Tool { name, description: self.description.unwrap_or_default(), parameters: self.parameters, metadata: self.metadata })
    }
}
