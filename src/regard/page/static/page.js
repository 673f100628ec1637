// Where the page begins: in a file that holds its own data, or in front of regard's server.
import { element, fill } from "./elements.js";
import { start } from "./main.js";
import { fromDocument, fromServer } from "./resources.js";
import { makeState } from "./state.js";

async function begin() {
  const root = document.getElementById("regard");
  const held = document.getElementById("regard-look");
  try {
    start(root, held ? fromDocument(held) : await fromServer(), makeState());
  } catch (problem) {
    fill(root, element("p", { role: "alert" }, `The page could not begin: ${problem.message}`));
    console.error(problem);
  }
}

begin();
