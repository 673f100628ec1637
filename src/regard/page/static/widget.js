// The page in a notebook's cell, as an anywidget module: https://anywidget.dev/en/afm/
import { start } from "./main.js";
import { fromWidget } from "./resources.js";
import { makeState } from "./state.js";

/** The notebook's theme, if it is known: JupyterLab and VS Code mark their body element. */
function notebookTheme() {
  const { jpThemeLight, vscodeThemeKind } = document.body.dataset;
  if (jpThemeLight !== undefined) return jpThemeLight === "false" ? "dark" : "light";
  if (vscodeThemeKind !== undefined) return vscodeThemeKind.includes("dark") ? "dark" : "light";
  return null;
}

function render({ model, el }) {
  const theme = notebookTheme();
  return start(el, fromWidget(model), makeState({ linked: false, initial: theme ? { theme } : {} }));
}

export default { render };
