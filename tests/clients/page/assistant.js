// assistant-ui over AG-UI: its runtime, tools as its pages declare them, and nothing to look at. A test does with the runtime what its
// buttons do.
import { HttpAgent } from "@ag-ui/client-legacy";
import { AssistantRuntimeProvider, useAssistantTool } from "@assistant-ui/react";
import { useAgUiRuntime } from "@assistant-ui/react-ag-ui";
import { createElement, useMemo } from "react";
import { createRoot } from "react-dom/client";

const asked = new URLSearchParams(location.search);
const [url, threadId] = ["agent", "thread"].map((name) => asked.get(name));
const parameters = { type: "object", properties: { place: { type: "string" } }, required: ["place"] };

window.failures = [];

function Tools() {
  useAssistantTool({ toolName: "weather", description: "The weather", parameters, execute: async ({ place }) => `18 degrees in ${place}` });
  useAssistantTool({ toolName: "ask", description: "Asks the person", parameters, type: "human" });
  return null;
}

function Page() {
  const agent = useMemo(() => new HttpAgent({ url, threadId }), []);
  const runtime = useAgUiRuntime({ agent, onError: (error) => void window.failures.push(error.message) });
  window.thread = runtime.thread;
  return createElement(AssistantRuntimeProvider, { runtime }, createElement(Tools));
}

createRoot(document.getElementById("root")).render(createElement(Page));
