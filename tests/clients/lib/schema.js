// Validates events against the official schema, strictly: an unknown field fails.
import fs from "node:fs";
import Ajv from "ajv/dist/2020.js";

const ID = "https://ag-ui.com/spec/1.0/schema.json";
const ajv = new Ajv({ strict: false });
ajv.addSchema(JSON.parse(fs.readFileSync(new URL("../schema/ag-ui-1.0.schema.json", import.meta.url), "utf8")));
const anyEvent = ajv.getSchema(ID);

/** What is wrong with `event`, or undefined. The event's own definition is asked for the reason, since it says it more clearly. */
export function invalid(event) {
  if (anyEvent(event)) return undefined;
  const name = String(event?.type).toLowerCase().replace(/(^|_)(.)/g, (_, __, letter) => letter.toUpperCase());
  const own = ajv.getSchema(`${ID}#${name}Event`);
  const errors = own && !own(event) ? own.errors : anyEvent.errors;
  return ajv.errorsText(errors).slice(0, 400);
}
