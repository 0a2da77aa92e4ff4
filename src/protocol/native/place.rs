//! Places in a worker's answer, as they may be logged: names of our own, never one that somebody made up. May not know what is wrong there.

use super::decision::{ActionFields, AnswerFields};
use super::message::MessageFields;
use super::part::{PartFields, SourceFields};
use crate::protocol::reading::{CallFields, Fields};

/// Names inside values that are read by others.
const OTHERS: &[&str] = &["session_id", "function", "system", "op", "path", "from"];

/// What stands for a name that isn't ours.
const FOREIGN: &str = "…";

/// The place without names that aren't those of fields.
pub fn own_place(at: &str) -> String {
    let is_ours = |step: &str| {
        let (name, index) = step.split_at(step.find('[').unwrap_or(step.len()));
        let known = [
            AnswerFields::ALLOWED,
            ActionFields::ALLOWED,
            MessageFields::ALLOWED,
            PartFields::ALLOWED,
            SourceFields::ALLOWED,
            CallFields::ALLOWED,
            OTHERS,
        ];
        known.concat().contains(&name) && index.chars().all(|c| c.is_ascii_digit() || c == '[' || c == ']')
    };
    at.split('.').map(|step| if is_ours(step) { step } else { FOREIGN }).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_fields_are_kept() {
        for (at, kept) in [
            ("actions[0].type", "actions[0].type"),
            ("messages[12].content[3].source.value", "messages[12].content[3].source.value"),
            ("actions[0].canary", "actions[0].…"),
            ("canary", "…"),
            ("actions[canary].type", "….type"),
            ("messages[0].a.b", "messages[0].….…"),
            ("", "…"),
        ] {
            assert_eq!(own_place(at), kept, "{at}");
        }
    }
}
