// ag-ui-validate from PyPI, in a virtual environment of its own; made at its first use.
import { execFile } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const CLIENTS = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const VENV = path.join(CLIENTS, ".venv");
const REQUIREMENTS = path.join(CLIENTS, "requirements.txt");
const MARK = path.join(VENV, "installed.txt");
const INSTALL_LIMIT_MS = 120_000;
const RUN_LIMIT_MS = 20_000;

/** A remark about when bytes arrived, which depends on the machine. */
const REMARKS = ["AGUI507"];

async function installed() {
  const wanted = fs.readFileSync(REQUIREMENTS, "utf8");
  if (fs.existsSync(MARK) && fs.readFileSync(MARK, "utf8") === wanted) return;
  const python = process.env.PYTHON ?? "python3";
  await run(python, ["-m", "venv", "--clear", VENV], { timeout: INSTALL_LIMIT_MS });
  const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", REQUIREMENTS];
  await run(path.join(VENV, "bin/python"), pip, { timeout: INSTALL_LIMIT_MS });
  fs.writeFileSync(MARK, wanted);
}

/** Judges an agent's address or a recorded stream: every finding but remarks, and how many events there were. */
export async function validate(target) {
  await installed();
  const args = ["-m", "ag_ui_validate.cli", target, "--json", "--fail-on", "none"];
  if (/^http/.test(target)) args.push("--timeout", "15");
  const { stdout } = await run(path.join(VENV, "bin/python"), args, { timeout: RUN_LIMIT_MS });
  const report = JSON.parse(stdout);
  const findings = report.diagnostics.filter((finding) => !REMARKS.includes(finding.rule));
  return { findings: [...findings, ...report.internalErrors], events: report.eventCount };
}
