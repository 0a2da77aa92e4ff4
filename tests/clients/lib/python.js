// Programs in Python, each in a virtual environment of its own; made at its first use.
import { execFile } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const CLIENTS = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const INSTALL_LIMIT_MS = 300_000;

/** The interpreter of an environment `.venv-<name>` that holds what the file `requirements` lists. */
export async function python(name, requirements) {
  const folder = path.join(CLIENTS, `.venv-${name}`);
  const mark = path.join(folder, "installed.txt");
  const interpreter = path.join(folder, "bin/python");
  const wanted = fs.readFileSync(requirements, "utf8");
  if (fs.existsSync(mark) && fs.readFileSync(mark, "utf8") === wanted) return interpreter;
  await run(process.env.PYTHON ?? "python3", ["-m", "venv", "--clear", folder], { timeout: INSTALL_LIMIT_MS });
  await run(interpreter, ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements], { timeout: INSTALL_LIMIT_MS });
  fs.writeFileSync(mark, wanted);
  return interpreter;
}
