//! The tools of an agent's own, made ready, and what a model is offered of them and of the client's.

use std::collections::HashMap;

use super::arguments;
use crate::engine::record::OnServer;
use crate::protocol::{CarriedOutBy, Client, Schema, ServerTool, Size, Tool, ToolInput};

/// The longest name of a tool, in bytes: what all providers take.
const NAME_BYTES_MAX: usize = 64;
/// The most attempts of a call.
const ATTEMPTS_MAX: u32 = 100;
/// The longest attempt, in seconds.
const ATTEMPT_SECS_MAX: u64 = 24 * 60 * 60;

/// Who carries out the calls of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// The agent's worker.
    Worker,
    /// Somebody outside, in time.
    Outside,
    /// A server of tools.
    Server(OnServer),
}

impl From<CarriedOutBy> for Carrier {
    fn from(by: CarriedOutBy) -> Self {
        match by {
            CarriedOutBy::Worker => Self::Worker,
            CarriedOutBy::Outside => Self::Outside,
        }
    }
}

/// A tool of an agent's own, made ready.
#[derive(Clone, Debug)]
pub struct OwnTool {
    /// As it is declared.
    pub tool: ServerTool,
    /// Who carries it out.
    pub carrier: Carrier,
    schema: Option<Schema>,
}

impl OwnTool {
    /// Reads the arguments of a call.
    pub fn read(&self, arguments: &str) -> ToolInput {
        arguments::read(self.schema.as_ref(), arguments)
    }
}

/// The tools of an agent's own.
#[derive(Clone, Debug, Default)]
pub struct Tools {
    list: Vec<OwnTool>,
    by_name: HashMap<String, usize>,
    size: Size,
}

/// A tool that can't be offered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct BadTool {
    /// Which of them, from 0.
    pub index: usize,
    /// Which key is to blame.
    pub key: &'static str,
    /// What is wrong.
    pub what: String,
    /// What to write instead.
    pub help: String,
}

impl Tools {
    /// Makes tools ready; or says which can't be offered, and why.
    pub fn new(tools: impl IntoIterator<Item = (ServerTool, Carrier)>) -> Result<Self, BadTool> {
        let mut made = Self::default();
        for (index, (tool, carrier)) in tools.into_iter().enumerate() {
            made.add(tool, carrier).map_err(|bad| BadTool { index, ..bad })?;
        }
        Ok(made)
    }

    /// Tools that a worker has given an agent, made ready. They were checked when they came.
    pub fn of_worker(tools: &[ServerTool]) -> Self {
        let mut made = Self::default();
        for tool in tools {
            let _ = made.add(tool.clone(), Carrier::from(tool.by));
        }
        made
    }

    /// Makes one more ready, unless it can't be offered.
    pub fn add(&mut self, tool: ServerTool, carrier: Carrier) -> Result<(), BadTool> {
        let index = self.list.len();
        let wrong = |key, what: String, help: &str| Err(BadTool { index, key, what, help: help.to_owned() });
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if tool.name.is_empty() || tool.name.len() > NAME_BYTES_MAX || !tool.name.chars().all(plain) {
            let what = format!("{:?} can't be the name of a tool", tool.name);
            return wrong("name", what, &format!("write at most {NAME_BYTES_MAX} letters, digits, `-` and `_`"));
        }
        if self.by_name.contains_key(&tool.name) {
            return wrong("name", format!("there are two tools named {:?}", tool.name), "give each tool its own name");
        }
        if tool.attempts == 0 || tool.attempts > ATTEMPTS_MAX {
            return wrong("attempts", format!("{} attempts", tool.attempts), &format!("write a number from 1 to {ATTEMPTS_MAX}"));
        }
        if tool.attempt_secs == 0 || tool.attempt_secs > ATTEMPT_SECS_MAX {
            return wrong(
                "attempt_secs",
                format!("{} seconds", tool.attempt_secs),
                &format!("write a number from 1 to {ATTEMPT_SECS_MAX}"),
            );
        }
        let schema = match tool.parameters.as_ref().map(Schema::new).transpose() {
            Ok(schema) => schema,
            Err(why) => {
                let what = format!("the parameters of {:?} are no JSON Schema: {why}", tool.name);
                return wrong("parameters", what, "write a schema of an object, or leave it out");
            }
        };
        self.size += Size::of_tool(&tool.offered());
        self.by_name.insert(tool.name.clone(), self.list.len());
        self.list.push(OwnTool { tool, carrier, schema });
        Ok(())
    }

    /// The tool of this name.
    pub fn get(&self, name: &str) -> Option<&OwnTool> {
        self.by_name.get(name).map(|&at| &self.list[at])
    }

    /// All of them, as they were declared.
    pub fn iter(&self) -> impl Iterator<Item = &OwnTool> {
        self.list.iter()
    }

    /// What a model is offered: these, and the client's that have other names.
    pub fn offered(&self, client: &Client) -> Vec<Tool> {
        self.list.iter().map(|own| own.tool.offered()).chain(self.of_client(client).cloned()).collect()
    }

    /// How much a model reads of that.
    pub fn size(&self, client: &Client) -> Size {
        self.size + self.of_client(client).map(Size::of_tool).sum::<Size>()
    }

    /// Tools of the client's that nobody is offered: their names are taken.
    pub fn ignored(&self, client: &Client) -> Vec<String> {
        let taken = client.tools.iter().flatten().filter(|tool| self.get(&tool.name).is_some());
        taken.map(|tool| tool.name.clone()).collect()
    }

    fn of_client<'c>(&self, client: &'c Client) -> impl Iterator<Item = &'c Tool> {
        client.tools.iter().flatten().filter(|tool| self.get(&tool.name).is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(tools: Vec<ServerTool>) -> Result<Tools, BadTool> {
        Tools::new(tools.into_iter().map(|tool| (tool, Carrier::Worker)))
    }

    #[test]
    fn a_tool_that_cannot_be_offered_is_refused() {
        let bad = |change: fn(&mut ServerTool), key: &str| {
            let mut tool = ServerTool::new("f");
            change(&mut tool);
            let error = made(vec![ServerTool::new("g"), tool]).unwrap_err();
            assert_eq!((error.index, error.key), (1, key), "{error}");
        };
        bad(|tool| tool.name = String::new(), "name");
        bad(|tool| tool.name = "look up".to_owned(), "name");
        bad(|tool| tool.name = "g".to_owned(), "name");
        bad(|tool| tool.name = "x".repeat(65), "name");
        bad(|tool| tool.attempts = 0, "attempts");
        bad(|tool| tool.attempt_secs = 0, "attempt_secs");
        bad(|tool| tool.parameters = serde_json::from_str("{\"type\": 3}").unwrap(), "parameters");
    }

    #[test]
    fn a_name_that_is_taken_is_not_the_clients() {
        let tools = made(vec![ServerTool::new("look"), ServerTool::new("find")]).unwrap();
        let of_client = |name: &str| Tool { name: name.to_owned(), description: "x".repeat(400), parameters: None, metadata: None };
        let client = Client { tools: Some(vec![of_client("paint"), of_client("find")]), ..Client::default() };
        let names: Vec<String> = tools.offered(&client).into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["look", "find", "paint"]);
        assert_eq!(tools.ignored(&client), ["find"]);
        let more = tools.size(&client).tokens() - tools.size(&Client::default()).tokens();
        assert!((100..150).contains(&more), "one of the client's: {more}");
    }
}
