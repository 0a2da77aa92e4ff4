// The web server that the pages come from: on a port of its own, so that they are of another origin than the server under test.
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const PAGES = fileURLToPath(new URL("../page/", import.meta.url));

export class Pages {
  static async start() {
    const pages = new Pages();
    const entryPoints = ["chat.js", "assistant.js"].map((name) => PAGES + name);
    const define = { "process.env.NODE_ENV": '"production"' };
    const bundle = await build({ entryPoints, outdir: PAGES, define, bundle: true, format: "esm", platform: "browser", write: false, logLevel: "silent" });
    const scripts = bundle.outputFiles.map(({ path: name, contents }) => [`/${path.basename(name)}`, ["text/javascript; charset=utf-8", contents]]);
    const html = (name) => ["text/html; charset=utf-8", fs.readFileSync(PAGES + name)];
    const files = new Map([
      ["/chat.html", html("chat.html")],
      ["/empty.html", html("empty.html")],
      ["/assistant.html", html("assistant.html")],
      ...scripts,
    ]);
    pages.server = http.createServer((request, response) => {
      const [type, content] = files.get(request.url.split("?")[0]) ?? ["text/plain", "no such page"];
      response.writeHead(type === "text/plain" ? 404 : 200, { "content-type": type, "cache-control": "no-store" }).end(content);
    });
    await new Promise((resolve, reject) => {
      pages.server.once("error", reject);
      pages.server.listen(0, "127.0.0.1", resolve);
    });
    return pages;
  }

  /** The address of a page, under a name that leads here. */
  at(page, host = "127.0.0.1") {
    return `http://${host}:${this.server.address().port}${page}`;
  }

  async stop() {
    const closed = new Promise((resolve) => this.server.close(resolve));
    this.server.closeAllConnections();
    await closed;
  }
}
