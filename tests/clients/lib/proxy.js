// A wire that breaks: a TCP proxy that cuts its connections after so many bytes of answers, again and again.
import net from "node:net";

export class Proxy {
  /** In front of `url`; each of the first `cuts` connections is cut after so many bytes of its answer. */
  static async start(url, cuts) {
    const proxy = new Proxy();
    proxy.cuts = [...cuts];
    proxy.made = 0;
    proxy.open = new Set();
    const { hostname, port } = new URL(url);
    proxy.server = net.createServer((client) => proxy.#pass(client, net.connect(Number(port), hostname)));
    await new Promise((resolve) => proxy.server.listen(0, "127.0.0.1", resolve));
    proxy.url = `http://127.0.0.1:${proxy.server.address().port}`;
    return proxy;
  }

  #pass(client, server) {
    for (const socket of [client, server]) {
      this.open.add(socket);
      socket.on("error", () => {}).on("close", () => this.open.delete(socket));
    }
    let left;
    client.pipe(server);
    server.on("data", (data) => {
      // A connection counts once it is answered: those that are only opened don't.
      if (left === undefined) left = this.cuts.shift() ?? Infinity;
      const part = data.subarray(0, left);
      left -= part.length;
      client.write(part);
      if (left > 0) return;
      this.made += 1;
      server.destroy();
      client.end(() => client.destroy());
    });
    server.on("end", () => client.end());
    client.on("close", () => server.destroy());
  }

  async stop() {
    for (const socket of this.open) socket.destroy();
    await new Promise((resolve) => this.server.close(resolve));
  }
}
