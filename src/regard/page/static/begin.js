// Starts the page with its source, in a file that holds a Look or on a server.
import { element, fill } from "./elements.js";
import { start } from "./main.js";
import { askedBy } from "./question.js";
import { makeState } from "./state.js";

/** `open(held)` gives the source; `held` is the element that holds a Look, or null. */
export async function begin(open) {
  const root = document.getElementById("regard");
  try {
    const state = makeState({ linked: location.protocol !== "about:" }); // a notebook's frame has no address
    const source = await open(document.getElementById("regard-look"));
    const request = askedBy(state);
    // If the Look of the address is no longer available, the Look at the start is shown.
    if (request && source.live) await source.ask(request).catch((problem) => console.error(problem));
    start(root, source, state);
  } catch (problem) {
    fill(root, element("p", { role: "alert" }, `The page could not start: ${problem.message}`));
    console.error(problem);
  }
}
