//! What an agent is sent: a run of its own, whose messages are the path. Fields that older agents want are always there. May not know
//! the network.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::interrupt::{self, Answer};
use crate::agui::Path;
use crate::ids::{NodeId, ToolCallId};
use crate::protocol::{CallError, CallErrorKind, CallRequest, Json, Message, Occasion, Role, Tool};
use crate::provider::UpstreamThread;

/// Where Headwater's own options are among the forwarded properties.
const OWN: &str = "headwater";

/// The name of the instructions, which are no node.
const SYSTEM: &str = "hw_system";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RunAgentInput<'a> {
    thread_id: String,
    run_id: String,
    state: Lent<'a>,
    messages: Path<'a>,
    tools: Vec<Offered<'a>>,
    context: Lent<'a>,
    forwarded_props: Value,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resume: Vec<Answer<'a>>,
}

/// A tool that the client carries out.
#[derive(Serialize)]
struct Offered<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Lent<'a>,
}

/// The client's JSON, or what stands for it.
#[derive(Serialize)]
#[serde(untagged)]
enum Lent<'a> {
    Given(&'a Json),
    Else(Value),
}

impl<'a> Lent<'a> {
    fn or(given: Option<&'a Json>, other: impl FnOnce() -> Value) -> Self {
        given.filter(|given| given.get() != "null").map_or_else(|| Self::Else(other()), Self::Given)
    }
}

/// The body of a request.
pub(super) fn body(thread: UpstreamThread, request: &CallRequest) -> Result<Vec<u8>, CallError> {
    let occasion = request.occasion.as_deref();
    let none = || "none".to_owned();
    let thread_id = occasion.map_or_else(none, |occasion| self::thread(thread, occasion));
    let run_id = occasion.map_or_else(none, run);
    let instructions = request.system.iter().map(|text| Arc::new(Message::text(Role::System, text.clone()).with_id(SYSTEM.into())));
    // A call that was waited for has no result yet: none is made up.
    let waits = |message: &&Arc<Message>| {
        let call = message.tool_call_id.as_ref().filter(|_| message.id.is_none());
        call.is_some_and(|call| occasion.is_some_and(|occasion| waiting(occasion).any(|waiting| waiting == call)))
    };
    let messages: Vec<Arc<Message>> = instructions.chain(request.messages.iter().filter(|message| !waits(message)).cloned()).collect();
    let client = occasion.map(|occasion| &occasion.client);
    let input = RunAgentInput {
        thread_id,
        run_id,
        state: Lent::or(occasion.and_then(|occasion| occasion.state.as_ref()), || serde_json::json!({})),
        messages: Path(&messages),
        tools: request.tools.iter().map(offered).collect(),
        context: Lent::or(client.and_then(|client| client.context.as_ref()), || serde_json::json!([])),
        forwarded_props: forwarded(client.and_then(|client| client.forwarded_props.as_ref())),
        resume: occasion.map(|occasion| interrupt::answers(&occasion.resumed)).unwrap_or_default(),
    };
    serde_json::to_vec(&input).map_err(|error| CallError::new(CallErrorKind::Refused, format!("the conversation can't be sent: {error}")))
}

fn offered(tool: &Tool) -> Offered<'_> {
    let parameters = Lent::or(tool.parameters.as_ref(), || serde_json::json!({"type": "object", "properties": {}}));
    Offered { name: &tool.name, description: &tool.description, parameters }
}

/// The calls that what is answered now was about.
pub(super) fn waiting(occasion: &Occasion) -> impl Iterator<Item = &ToolCallId> {
    occasion.resumed.iter().filter_map(|(_, interrupt)| interrupt.tool_call_id.as_ref())
}

/// The thread as the agent is told it: where it waits for an answer, the one on which it does. Nobody can guess another tenant's.
pub(super) fn thread(thread: UpstreamThread, occasion: &Occasion) -> String {
    interrupt::thread(&occasion.resumed).unwrap_or_else(|| match thread {
        UpstreamThread::Run => derived("run", occasion, &[occasion.call.as_str(), &occasion.attempt.to_string()]),
        UpstreamThread::Branch => derived("branch", occasion, &[occasion.branch.as_ref().map_or("", NodeId::as_str)]),
        UpstreamThread::Session => occasion.session.session.to_string(),
    })
}

/// The run as the agent is told it.
fn run(occasion: &Occasion) -> String {
    derived("call", occasion, &[occasion.call.as_str(), &occasion.attempt.to_string()])
}

fn derived(kind: &str, occasion: &Occasion, parts: &[&str]) -> String {
    let mut hasher = blake3::Hasher::new();
    let session = &occasion.session;
    for part in [kind, session.tenant.as_str(), session.session.as_str()].iter().chain(parts) {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    // Some agents want a UUID.
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string()
}

/// The client's properties, without what is for Headwater.
fn forwarded(props: Option<&Json>) -> Value {
    let empty = || serde_json::json!({});
    let mut value: Value =
        props.and_then(|props| serde_json::from_str(props.get()).ok()).filter(|value: &Value| !value.is_null()).unwrap_or_else(empty);
    if let Value::Object(fields) = &mut value {
        fields.shift_remove(OWN);
    }
    value
}
