// The stock clients, and how they reach the server: both dialects in the field, over SSE and WebSocket.
import * as current from "@ag-ui/client";
import * as legacy from "@ag-ui/client-legacy";
import { Observable } from "rxjs";
import WebSocket from "ws";

/** Client × transport; each scenario runs once for each. */
export const COMBINATIONS = [
  { name: "client 1.0.0 over SSE", library: current, transport: "sse" },
  { name: "client 1.0.0 over WebSocket", library: current, transport: "ws" },
  { name: "client 0.0.59 over SSE", library: legacy, transport: "sse" },
  { name: "client 0.0.59 over WebSocket", library: legacy, transport: "ws" },
].map((combination) => ({ ...combination, isLegacy: combination.library === legacy }));

/** The stock HttpAgent. Its abort closes the connection. */
export function httpAgent({ library, url, wire, threadId }) {
  return new library.HttpAgent({ url, threadId, fetch: wire.fetch });
}

/**
 * One text frame with a RunAgentInput out, one event a text frame in; the socket stays open between runs. Its abort is a frame.
 * The stock packages have no WebSocket agent: this is the least that makes one of their AbstractAgent.
 */
export function webSocketAgent({ library, url, wire, threadId }) {
  class WebSocketAgent extends library.AbstractAgent {
    sockets = 0;

    run(input) {
      return new Observable((subscriber) => {
        this.exchange = wire.sent(new URL(url).pathname, input);
        this.subscriber = subscriber;
        const send = () => this.socket.send(JSON.stringify(input));
        if (this.socket?.readyState === WebSocket.OPEN) send();
        else this.open().once("open", send);
      });
    }

    open() {
      const socket = new WebSocket(url);
      this.socket = socket;
      this.sockets += 1;
      socket.on("message", (data, isBinary) => this.receive(data, isBinary));
      socket.on("error", (error) => this.subscriber?.error(error));
      socket.on("close", (code, reason) => {
        if (this.socket === socket) this.socket = undefined;
        this.subscriber?.error(new Error(`the socket closed: ${code} ${reason}`));
        this.subscriber = undefined;
      });
      return socket;
    }

    receive(data, isBinary) {
      const { subscriber, exchange } = this;
      wire.received(exchange, data, isBinary);
      const event = exchange?.events.at(-1);
      if (!event) return;
      const ends = event.type === "RUN_FINISHED" || event.type === "RUN_ERROR";
      if (ends) this.exchange = this.subscriber = undefined;
      subscriber?.next(event);
      if (ends) subscriber?.complete();
    }

    abortRun() {
      this.socket?.send(JSON.stringify({ type: "abort", runId: this.exchange?.input.runId }));
    }

    /** Closes the socket and waits for it, also in the middle of a run. */
    async leave() {
      if (this.exchange) this.exchange.left = true;
      const { socket } = this;
      if (!socket) return;
      await new Promise((resolve) => {
        socket.once("close", resolve);
        socket.close();
      });
    }
  }
  return new WebSocketAgent({ threadId });
}
