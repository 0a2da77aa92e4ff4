//! What a message of a view is, before its place is asked: by its id, or a result by its call; never by what it says.

use super::reading::Name;
use super::tree::Tree;
use crate::ids::NodeId;
use crate::protocol::{Digest, IgnoredReason, Message, Role, SameIdEdit};

/// What a message is.
pub(super) enum Meaning {
    /// It stands for a recorded name.
    Known(Name),
    /// It answers an open call of the reply that has this name.
    Answer(Name),
    /// It is passed over; a reason is worth telling.
    Passed(Option<IgnoredReason>),
    /// A client wrote it. `edit_of`: under a recorded id.
    New {
        /// What it edits under the same id.
        edit_of: Option<Name>,
    },
}

/// What `message` is; `known`: what its own id stands for. The flag: it is a user's, and says something else than the recorded one.
pub(super) fn meaning(tree: &Tree, message: &Message, digest: Digest, known: Option<Name>, same_id_edit: SameIdEdit) -> (Meaning, bool) {
    let meaning = match message.role {
        Role::User => return known.map_or((Meaning::New { edit_of: None }, false), |name| of_user(tree, name, digest, same_id_edit)),
        Role::Assistant => match known.or_else(|| parent_named_by_call(tree, message)) {
            Some(name) => Meaning::Known(name),
            None => Meaning::Passed(Some(IgnoredReason::NotFromClients)),
        },
        Role::Tool => of_result(tree, message, known),
        Role::System | Role::Developer => Meaning::Passed(Some(IgnoredReason::Instructions)),
        Role::Reasoning => Meaning::Passed(reasoning_of_nobody(tree, message).then_some(IgnoredReason::NotFromClients)),
        Role::Activity => Meaning::Passed(known.is_none().then_some(IgnoredReason::NotFromClients)),
    };
    (meaning, false)
}

/// Ids decide, unless edits under the same id are taken. The flag: it says something else than the recorded message.
fn of_user(tree: &Tree, name: Name, digest: Digest, same_id_edit: SameIdEdit) -> (Meaning, bool) {
    let differs = tree.user_says(name, digest) == Some(false);
    match (differs, same_id_edit) {
        (false, _) => (Meaning::Known(name), false),
        (true, SameIdEdit::Ignore) => (Meaning::Known(name), true),
        (true, SameIdEdit::Fork) => match tree.edit(name, digest) {
            Some(edit) => (Meaning::Known(edit), false),
            None => (Meaning::New { edit_of: Some(name) }, false),
        },
    }
}

/// Results go by their call, before their id.
fn of_result(tree: &Tree, message: &Message, known: Option<Name>) -> Meaning {
    let Some(called) = message.tool_call_id.as_ref().and_then(|id| tree.call(id)) else {
        return known.map_or(Meaning::Passed(Some(IgnoredReason::CallNotOpen)), Meaning::Known);
    };
    match called.result {
        Some(result) => Meaning::Known(tree.node(result).name),
        None if called.open => Meaning::Answer(tree.node(called.reply).name),
        None => Meaning::Passed(Some(IgnoredReason::CallNotOpen)),
    }
}

/// Some clients make up an assistant message that has its call's id.
fn parent_named_by_call(tree: &Tree, message: &Message) -> Option<Name> {
    let id = message.id.as_ref()?;
    let called = tree.call_like(id)?;
    Some(tree.node(called.reply).name)
}

/// Whether a reasoning message belongs to no reply that is known here.
fn reasoning_of_nobody(tree: &Tree, message: &Message) -> bool {
    let reply = message.id.as_ref().and_then(|id| id.as_str().rsplit_once(":reasoning")).map(|(reply, _)| NodeId::from(reply));
    message.id.is_some() && reply.is_none_or(|reply| tree.known(&reply).is_none())
}
