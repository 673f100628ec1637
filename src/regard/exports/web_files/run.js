// The model of this folder in node: `node run.js [--beam SIZE] [--max-new-tokens COUNT] TEXT ...`
// A text that is not in the arguments is a line of the standard input. There is a line of output for each.

import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { open } from "./open.js";

async function main() {
  const options = { beam: { type: "string" }, "max-new-tokens": { type: "string" } };
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  const count = (name) => {
    const number = values[name] === undefined ? undefined : Number(values[name]);
    if (number === undefined || (Number.isInteger(number) && number > 0)) return number;
    throw new Error(`--${name} ${values[name]} is not a whole number above 0`);
  };
  const settings = { beam: count("beam"), maxNewTokens: count("max-new-tokens") };
  const model = await open();
  if (model.config?.head && (settings.beam || settings.maxNewTokens)) {
    throw new Error("this model generates nothing: leave out --beam and --max-new-tokens");
  }
  let line = 0;
  for await (const text of positionals.length ? positionals : createInterface({ input: process.stdin })) {
    line += 1;
    console.log(text.trim() ? (await model.generate(text, { ...settings, line })).text : "");
  }
}

await main();
