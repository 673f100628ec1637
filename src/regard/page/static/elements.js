// The only file that creates elements. Text becomes text nodes, so no string is parsed as markup.

/**
 * An HTML element. In `properties`: `class`, `data` and `aria` (objects), `on` (event -> listener), `style`
 * (CSS property -> value, custom ones too); everything else is an attribute; null, undefined and false leave
 * an attribute out, true makes it empty.
 * Children: nodes, strings, numbers, arrays of them; null, undefined and false are left out.
 */
export function element(tag, properties = {}, ...children) {
  return dress(document.createElement(tag), properties, children);
}

/** The same for an SVG element. */
export function svgElement(tag, properties = {}, ...children) {
  return dress(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);
}

function dress(node, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    } else if (name === "data" || name === "aria") {
      for (const [key, text] of Object.entries(value)) attribute(node, `${name}-${key}`, aria(name, text));
    } else if (name === "style") {
      for (const [key, text] of Object.entries(value)) node.style.setProperty(key, text);
    } else if (name.startsWith("on")) {
      throw new TypeError(`${name}: listeners go under "on"`);
    } else {
      attribute(node, name, value);
    }
  }
  node.append(...nodes(children));
  return node;
}

function aria(name, value) {
  return name === "aria" && typeof value === "boolean" ? String(value) : value; // aria-x="false" differs from no attribute
}

function attribute(node, name, value) {
  if (value === null || value === undefined || value === false) return;
  node.setAttribute(name, value === true ? "" : String(value));
}

function nodes(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));
}

/** Replaces the children of `root` by `children`. */
export function fill(root, ...children) {
  root.replaceChildren(...nodes(children));
  return root;
}

/** A button; `pressed` (a boolean) makes it a switch. */
export function button(label, onclick, { pressed, ...properties } = {}) {
  const aria = { ...properties.aria, ...(pressed === undefined ? {} : { pressed }) };
  return element("button", { type: "button", ...properties, aria, on: { click: onclick } }, label);
}

/** A labelled drop-down. `options`: [value, label] pairs or plain strings; `onchange` gets the value as text. */
export function select({ label, options, value, onchange, hint }) {
  const list = element(
    "select",
    { on: { change: () => onchange(list.value) } },
    options.map((option) => {
      const [key, text] = Array.isArray(option) ? option : [option, option];
      return element("option", { value: key, selected: String(key) === String(value) }, text);
    }),
  );
  return element("label", { class: "field" }, element("span", {}, label), list, hint && element("small", {}, hint));
}

/** A labelled slider, followed by its value as text; `oninput` gets a number. */
export function slider({ label, min, max, step, value, oninput, format = String }) {
  const shown = element("output", {}, format(value));
  const input = element("input", {
    type: "range", min, max, step, value,
    aria: { label, valuetext: format(value) }, // a <label> around an <output> would label the output
    on: {
      input: () => {
        const number = Number(input.value);
        shown.textContent = format(number);
        input.setAttribute("aria-valuetext", format(number));
        oninput(number);
      },
    },
  });
  return element("div", { class: "field slider" }, element("span", { aria: { hidden: "true" } }, label, " ", shown), input);
}

/** A labelled check box; `onchange` gets a boolean. */
export function checkbox({ label, checked, onchange }) {
  const input = element("input", { type: "checkbox", on: { change: () => onchange(input.checked) } });
  input.checked = Boolean(checked);
  return element("label", { class: "check" }, input, element("span", {}, label));
}

/** A row of controls above a chart. */
export function controls(...children) {
  return element("div", { class: "controls" }, ...children);
}

/** Makes many buttons one tab stop (roving tabindex): arrow keys, Home and End move among them. Returns `holder`. */
export function roving(holder, items, at = 0) {
  let here = Math.min(items.length - 1, Math.max(0, at));
  items.forEach((item, i) => item.setAttribute("tabindex", i === here ? "0" : "-1"));
  const go = (next) => {
    items[here].setAttribute("tabindex", "-1");
    here = Math.min(items.length - 1, Math.max(0, next));
    items[here].setAttribute("tabindex", "0");
  };
  holder.addEventListener("focusin", (event) => items.includes(event.target) && go(items.indexOf(event.target)));
  holder.addEventListener("keydown", (event) => {
    const onward = getComputedStyle(holder).direction === "rtl" ? -1 : 1;
    const next = { ArrowRight: here + onward, ArrowLeft: here - onward, ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: items.length - 1 }[event.key];
    if (next === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    go(next);
    items[here].focus();
  });
  return holder;
}
