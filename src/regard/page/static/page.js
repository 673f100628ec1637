// The entry of the page: in a file that holds its own data, or on regard's server.
import { element, fill } from "./elements.js";
import { start } from "./main.js";
import { askedBy } from "./question.js";
import { fromDocument, fromServer } from "./resources.js";
import { makeState } from "./state.js";

async function begin() {
  const root = document.getElementById("regard");
  const held = document.getElementById("regard-look");
  try {
    const state = makeState({ linked: location.protocol !== "about:" }); // a notebook's frame has no address
    const source = held ? fromDocument(held) : await fromServer();
    const request = askedBy(state);
    // If the Look of the address is no longer available, the Look at the start is shown.
    if (request && source.live) await source.ask(request).catch((problem) => console.error(problem));
    start(root, source, state);
  } catch (problem) {
    fill(root, element("p", { role: "alert" }, `The page could not start: ${problem.message}`));
    console.error(problem);
  }
}

begin();
