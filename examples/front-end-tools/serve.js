// Serves this folder's page on loopback, which a Headwater without a list of origins lets ask.
import fs from "node:fs";
import http from "node:http";
import { fileURLToPath } from "node:url";

const FILES = { "/": ["index.html", "text/html"], "/page.js": ["page.js", "text/javascript"] };

const server = http.createServer((request, response) => {
  const [name, type] = FILES[request.url.split("?")[0]] ?? [];
  if (!name) return response.writeHead(404).end();
  const content = fs.readFileSync(fileURLToPath(new URL(name, import.meta.url)));
  response.writeHead(200, { "content-type": `${type}; charset=utf-8`, "cache-control": "no-store" }).end(content);
});
server.listen(Number(process.argv[2] ?? 5173), "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/`));
