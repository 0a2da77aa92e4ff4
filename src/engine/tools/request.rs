//! What is asked of those who carry out a call.

use super::{arguments, tools_of};
use crate::engine::Context;
use crate::engine::call::turn;
use crate::engine::reading::Ix;
use crate::engine::record::OnServer;
use crate::engine::session::Session;
use crate::ids::{SessionId, ToolCallId};
use crate::protocol::{Action, DecisionAnswer, DecisionRequest, FunctionCall, Json, ToolInput, Trigger};

/// What the agent's worker is asked about a call whose attempt runs; nothing: none does. Or the node whose content isn't in memory.
pub fn execution_request(session: &Session, id: &SessionId, call: &ToolCallId, context: &Context) -> Result<Option<DecisionRequest>, Ix> {
    let Some((turn, execution)) = turn(session).zip(session.execution(call).filter(|execution| execution.runs())) else { return Ok(None) };
    let Some(FunctionCall { name, arguments }) = asked(session, call)? else { return Ok(None) };
    let tools = tools_of(&context.agents, &turn.agent_id);
    let input = tools.get(&name).map_or_else(|| arguments::read(None, &arguments), |own| own.read(&arguments));
    let refused = arguments::fault(&name, &input);
    let proposed = refused.map(|error| Action::ToolError { id: Some(call.clone()), error, retryable: false });
    Ok(Some(DecisionRequest {
        session_id: id.clone(),
        decision_id: execution.call.decision_id.clone(),
        agent_id: turn.agent_id.clone(),
        turn_id: turn.id.clone(),
        trigger: Trigger::ToolExecute { id: call.clone(), name, arguments, input, attempt: execution.attempt, key: format!("{id}/{call}") },
        proposed: DecisionAnswer::from(Vec::from_iter(proposed)),
        state: session.state().ok().flatten().cloned(),
        agent: session.overrides(&turn.agent_id).cloned(),
        // A tool needs little of the conversation.
        messages: Vec::new(),
        calls: Vec::new(),
        pending_calls: Vec::new(),
        attempt: execution.attempt,
        deadline: execution.deadline,
    }))
}

/// What a server of tools is asked about a call whose attempt runs: its tool and the arguments.
pub fn server_request(session: &Session, call: &ToolCallId) -> Result<Option<(OnServer, Json)>, Ix> {
    let execution = session.execution(call).filter(|execution| execution.runs());
    let Some(server) = execution.and_then(|execution| execution.call.server.clone()) else { return Ok(None) };
    let Some(FunctionCall { arguments, .. }) = asked(session, call)? else { return Ok(None) };
    Ok(match arguments::read(None, &arguments) {
        ToolInput::Valid(json) => Some((server, json)),
        ToolInput::Invalid { .. } | ToolInput::Malformed(_) => None,
    })
}

/// What a model asks for with a call.
fn asked(session: &Session, call: &ToolCallId) -> Result<Option<FunctionCall>, Ix> {
    let Some(called) = session.tree.call(call) else { return Ok(None) };
    let reply = session.content(called.reply).ok_or(called.reply)?;
    Ok(reply.tool_calls.iter().find(|asked| asked.id == *call).map(|asked| asked.function.clone()))
}
