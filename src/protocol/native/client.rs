//! What a client offers the agent: `{tools, context, state, forwarded_props}`. May not know who uses it.

use serde::de::{self, MapAccess};

use crate::protocol::reading::{Fields, List, Object, Reading};
use crate::protocol::{Client, Code, Json, Tool};

#[derive(Default)]
pub(super) struct ClientFields(Client);

impl<'de> Fields<'de> for ClientFields {
    type Value = Client;

    const EXPECTED: &'static str = "what the client offers (an object)";
    const ALLOWED: &'static [&'static str] = &["tools", "context", "state", "forwarded_props"];

    fn field<A: MapAccess<'de>>(&mut self, reading: &Reading<'_>, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "tools" => {
                let list = List {
                    reading,
                    each: Object::<ToolFields>::new(reading),
                    max: Some((reading.limits.tools_max, Code::ContentTooLarge)),
                };
                self.0.tools = reading.maybe(map, "tools", list)?;
            }
            "context" => self.0.context = reading.json(map, "context")?,
            "state" => self.0.state = reading.json(map, "state")?,
            "forwarded_props" => self.0.forwarded_props = reading.json(map, "forwarded_props")?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish<E: de::Error>(self, reading: &Reading<'_>) -> Result<Client, E> {
        if self.0.context.as_ref().is_some_and(|context| !context.get().starts_with('[')) {
            return Err(reading.refuse_field("context", Code::BadRequest, "a list is expected"));
        }
        reading.expect_client(&self.0)?;
        Ok(self.0)
    }
}

#[derive(Default)]
struct ToolFields {
    name: Option<String>,
    description: Option<String>,
    parameters: Option<Json>,
    metadata: Option<Json>,
}

impl<'de> Fields<'de> for ToolFields {
    type Value = Tool;

    const EXPECTED: &'static str = "a tool (an object)";
    const ALLOWED: &'static [&'static str] = &["name", "description", "parameters", "metadata"];

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
        let refuse = |field, what: &str| Err(reading.refuse_field(field, Code::BadRequest, what));
        let Some(name) = self.name.filter(|name| !name.is_empty()) else {
            return refuse("name", "a tool needs a name");
        };
        if self.parameters.as_ref().is_some_and(|schema| !schema.is_object()) {
            return refuse("parameters", "a JSON Schema, an object, is expected");
        }
        if self.metadata.as_ref().is_some_and(|metadata| !metadata.is_object()) {
            return refuse("metadata", "an object is expected");
        }
        Ok(Tool { name, description: self.description.unwrap_or_default(), parameters: self.parameters, metadata: self.metadata })
    }
}
