// The stock client over the browser's own WebSocket: a frame with a RunAgentInput out, a frame an event in, one socket for all runs.
import { AbstractAgent } from "@ag-ui/client";
import { Observable } from "rxjs";

export class WebSocketAgent extends AbstractAgent {
  constructor({ url, ...config }) {
    super(config);
    this.url = url;
  }

  run(input) {
    return new Observable((subscriber) => {
      this.reader = subscriber;
      const send = () => this.socket.send(JSON.stringify(input));
      if (this.socket?.readyState === WebSocket.OPEN) send();
      else this.open().onopen = send;
    });
  }

  open() {
    const socket = new WebSocket(this.url);
    this.socket = socket;
    socket.onmessage = ({ data }) => {
      const event = JSON.parse(data);
      this.reader.next(event);
      if (event.type === "RUN_FINISHED" || event.type === "RUN_ERROR") this.reader.complete();
    };
    socket.onclose = ({ code, reason }) => this.reader.error(new Error(`the socket closed: ${code} ${reason}`));
    return socket;
  }

  abortRun() {
    this.socket.send(JSON.stringify({ type: "abort" }));
  }
}
