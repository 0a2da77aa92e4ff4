// The three ways in which models are asked: OpenAI's chat completions, Anthropic's messages, Gemini's contents. What a piece of each
// stream says, where it ends, and what a model reads of each request: from the bytes themselves, not from what a mock makes of them.

/** What one frame of a stream brings: `{text, reasoning, calls}`, the last a list of `{id?, name?, arguments?}`; nothing empty. */
export function pieceOf(data) {
  if (data.candidates) return pieceOfGemini(data);
  if (data.type) return pieceOfAnthropic(data);
  const { content: text, reasoning_content: reasoning, tool_calls: asked } = data.choices?.[0]?.delta ?? {};
  const calls = asked?.map((call) => ({ id: call.id, name: call.function?.name, arguments: call.function?.arguments }));
  return said({ text, reasoning, calls });
}

function pieceOfAnthropic({ type, content_block: block, delta }) {
  if (type === "content_block_start" && block.type === "tool_use") return said({ calls: [{ id: block.id, name: block.name }] });
  if (type !== "content_block_delta") return {};
  const calls = delta.type === "input_json_delta" ? [{ arguments: delta.partial_json }] : undefined;
  return said({ text: delta.text, reasoning: delta.thinking, calls });
}

function pieceOfGemini({ candidates: [{ content }] }) {
  const parts = content?.parts ?? [];
  const joined = (isThought) => parts.filter((part) => Boolean(part.thought) === isThought).map((part) => part.text ?? "").join("");
  const calls = parts.flatMap(({ functionCall: call }) => (call ? [{ id: call.id, name: call.name, arguments: JSON.stringify(call.args) }] : []));
  return said({ text: joined(false), reasoning: joined(true), calls });
}

function said({ text, reasoning, calls }) {
  return { ...(text && { text }), ...(reasoning && { reasoning }), ...(calls?.length && { calls }) };
}

/** Whether a frame says that the model is done. */
export function isTerminal(data) {
  return Boolean(data.choices?.[0]?.finish_reason ?? data.candidates?.[0]?.finishReason ?? data.delta?.stop_reason);
}

/** The data of a frame; nothing for one without JSON. */
export function dataOf(frame) {
  const line = frame.split("\n").find((row) => row.startsWith("data: {"));
  return line ? JSON.parse(line.slice("data: ".length)) : {};
}

/** What the model reads of a request: `{role, text, calls, answers}` a message, in the roles of chat completions. */
export function messagesOf(body, kind = kindOf(body)) {
  if (kind === "gemini") return messagesOfGemini(body);
  if (kind === "anthropic") return messagesOfAnthropic(body);
  return body.messages.map(({ role, content, tool_calls: calls = [], tool_call_id: answers }) => ({
    role,
    text: textOf(content),
    calls: calls.map((call) => ({ id: call.id, name: call.function.name, arguments: call.function.arguments })),
    answers,
  }));
}

/** Whose request a body is. Anthropic's needs `max_tokens` and knows no `stream_options`. */
export function kindOf(body) {
  if (body.contents) return "gemini";
  return "max_tokens" in body && !("stream_options" in body) ? "anthropic" : "openai";
}

/** Parts of messages that are no text. */
const ANTHROPIC = new Set(["tool_use", "tool_result", "thinking", "redacted_thinking"]);

function messagesOfAnthropic({ system, messages }) {
  const read = system ? [{ role: "system", text: textOf(system), calls: [] }] : [];
  for (const { role, content } of messages) {
    const parts = typeof content === "string" ? [{ type: "text", text: content }] : content;
    for (const { tool_use_id: answers, content: result } of parts.filter((part) => part.type === "tool_result")) {
      read.push({ role: "tool", text: textOf(result), calls: [], answers });
    }
    const rest = parts.filter((part) => part.type !== "tool_result");
    if (rest.length === 0) continue;
    const calls = rest.filter((part) => part.type === "tool_use").map(({ id, name, input }) => ({ id, name, arguments: JSON.stringify(input) }));
    read.push({ role, text: textOf(rest.filter((part) => !ANTHROPIC.has(part.type))), calls });
  }
  return read;
}

function messagesOfGemini({ systemInstruction: system, contents }) {
  const read = system ? [{ role: "system", text: textOf(system.parts), calls: [] }] : [];
  for (const { role, parts } of contents) {
    let open = parts.filter((part) => part.functionResponse);
    for (const { functionResponse: { id, name, response } } of open) {
      read.push({ role: "tool", text: response.error === undefined ? response.output : `Error: ${response.error}`, calls: [], answers: id ?? name });
    }
    open = parts.filter((part) => !part.functionResponse);
    if (open.length === 0) continue;
    const calls = open.flatMap(({ functionCall: call }) => (call ? [{ id: call.id ?? call.name, name: call.name, arguments: JSON.stringify(call.args) }] : []));
    read.push({ role: role === "model" ? "assistant" : role, text: textOf(open.filter((part) => !part.thought && !part.functionCall)), calls });
  }
  return read;
}

/** The opaque parts of a request, in order: `text: …`, `reasoning: …`, `call <name>: …`. */
export function opaqueOf(body) {
  const parts = [...(body.contents ?? []).flatMap((content) => content.parts), ...(body.messages ?? []).flatMap(({ content }) => (Array.isArray(content) ? content : []))];
  return parts.flatMap(({ type, thoughtSignature, signature, data, functionCall, thought }) => {
    if (type === "thinking") return [`reasoning: ${signature}`];
    if (type === "redacted_thinking") return [`redacted: ${data}`];
    if (!thoughtSignature) return [];
    return [`${functionCall ? `call ${functionCall.name}` : thought ? "reasoning" : "text"}: ${thoughtSignature}`];
  });
}

/** The names of the tools that a request offers. */
export function toolsOf({ tools = [] }) {
  return tools.flatMap((tool) => tool.functionDeclarations ?? [tool.function ?? tool]).map((tool) => tool.name);
}

/** The text of a message's content: a string, parts, or an activity's object. */
export function textOf(content) {
  if (content === null || content === undefined) return "";
  if (typeof content === "object" && !Array.isArray(content)) return JSON.stringify(content);
  return typeof content === "string" ? content : content.map((part) => part.text ?? `[${part.type ?? Object.keys(part)[0]}]`).join("");
}
