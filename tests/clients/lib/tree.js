// The tree of a session as the server tells it, and as a drawing that tests compare.
import { textOf } from "./upstream.js";

/** Reads the whole tree, page by page, and checks what holds for every tree. */
export async function readTree(server, threadId) {
  const route = `/v1/sessions/${encodeURIComponent(threadId)}/tree`;
  const tree = await server.get(route);
  for (let page = tree; page.next; ) {
    page = await server.get(`${route}?after=${encodeURIComponent(page.next)}`);
    tree.nodes.push(...page.nodes);
  }
  const known = new Set();
  for (const node of tree.nodes) {
    if (node.parent_id != null && !known.has(node.parent_id)) throw new Error(`node ${node.id} before its parent ${node.parent_id}, or without it`);
    if (known.has(node.id)) throw new Error(`node ${node.id} twice`);
    known.add(node.id);
  }
  if (tree.head_id != null && !known.has(tree.head_id)) throw new Error(`the head ${tree.head_id} is no node`);
  return tree;
}

/** The nodes from the root to the head. */
export function pathOf(tree, id = tree.head_id) {
  const byId = new Map(tree.nodes.map((node) => [node.id, node]));
  const path = [];
  for (let node = byId.get(id); node; node = byId.get(node.parent_id)) path.unshift(node);
  return path;
}

/**
 * The tree as lines `role: text`, one a node. Siblings begin with a dash, oldest first, with what follows each indented below it;
 * a single child stands below its parent. The head is marked, and what is partial or a copy.
 */
export function draw(tree) {
  const children = new Map();
  for (const node of tree.nodes) {
    const parent = node.parent_id ?? null;
    children.set(parent, [...(children.get(parent) ?? []), node]);
  }
  const lines = [];
  const below = (parent, indent) => {
    const siblings = children.get(parent) ?? [];
    for (const node of siblings) {
      const dash = siblings.length > 1;
      lines.push(`${indent}${dash ? "- " : ""}${line(node, tree.head_id)}`);
      below(node.id, dash ? `${indent}  ` : indent);
    }
  };
  below(null, "");
  return lines.join("\n");
}

/** What a native message says; its reasoning is left out. */
function saidIn({ content }) {
  return textOf(Array.isArray(content) ? content.filter((part) => part.type !== "reasoning") : content);
}

function line(node, head) {
  const marks = [node.partial && "partial", node.copied_from && "copy", node.id === head && "head"].filter(Boolean);
  const what = node.kind === "message" ? node.message.role : node.kind;
  const asks = (node.message.tool_calls ?? []).map((call) => ` [${call.id} ${call.function.name}]`).join("");
  const answers = node.message.tool_call_id ? ` ${node.message.tool_call_id}` : "";
  return `${what}${answers}: ${saidIn(node.message)}${asks}${marks.length ? ` (${marks.join(", ")})` : ""}`;
}

/** A drawing in a test, without its indentation. */
export function drawing(strings, ...values) {
  const text = String.raw({ raw: strings }, ...values).replace(/^\n|\n\s*$/g, "");
  const indent = Math.min(...text.split("\n").filter((row) => row.trim()).map((row) => /^ */.exec(row)[0].length));
  return text.split("\n").map((row) => row.slice(indent)).join("\n");
}
