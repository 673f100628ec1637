// The selection, shared by all views and kept in the address, so that a link shows what its sender saw.

const REST = 200; // milliseconds without a change, before the address is written

/**
 * A state: strings by key. `linked`: kept in the address's fragment (the page), or only in memory (a notebook,
 * whose address is not regard's). Each change fires "state" on window with {state, keys} in its detail.
 */
export function makeState({ linked = true, initial = {} } = {}) {
  let values = linked ? read() : new Map(Object.entries(initial));
  let waiting = null;

  /** A new view or Look is an entry of the browser's history. A new cell is not, and waits: browsers limit address changes. */
  function record(step) {
    clearTimeout(waiting);
    if (step) history.pushState(null, "", `#${written(values)}`);
    else waiting = setTimeout(() => history.replaceState(null, "", `#${written(values)}`), REST);
  }

  function notify(keys) {
    window.dispatchEvent(new CustomEvent("state", { detail: { state, keys } }));
  }

  const state = {
    linked,
    /** The text under `key`, or `fallback`. */
    get(key, fallback = null) {
      return values.get(key) ?? fallback;
    },
    /** The value as a number, or `fallback`. */
    number(key, fallback = null) {
      const text = values.get(key);
      return text === undefined || text === "" || !Number.isFinite(Number(text)) ? fallback : Number(text);
    },
    /** set(key, value) or set({key: value, ...}); null removes a key. No event if nothing changed. */
    set(key, value) {
      const changes = typeof key === "string" ? { [key]: value } : key;
      const keys = Object.keys(changes).filter((name) => (values.get(name) ?? null) !== text(changes[name]));
      if (!keys.length) return;
      values = changed(values, changes);
      if (linked) record(keys.includes("view") || keys.includes("ask"));
      notify(keys);
    },
    /** Calls `listener` at each change of this state; a notebook may have several states. */
    listen(listener, options) {
      window.addEventListener("state", (event) => event.detail.state === state && listener(event), options);
    },
    /** The address of this state with some values changed. */
    href(changes) {
      return `#${written(changed(values, changes))}`;
    },
  };

  if (linked) {
    window.addEventListener("popstate", () => {
      clearTimeout(waiting);
      const before = values;
      values = read();
      const keys = [...new Set([...before.keys(), ...values.keys()])].filter((key) => before.get(key) !== values.get(key));
      if (keys.length) notify(keys);
    });
  }
  return state;
}

function text(value) {
  return value === null || value === undefined ? null : String(value);
}

function changed(values, changes) {
  const next = new Map(values);
  for (const [key, value] of Object.entries(changes)) {
    if (text(value) === null) next.delete(key);
    else next.set(key, text(value));
  }
  return next;
}

function read() {
  return new Map(new URLSearchParams(location.hash.slice(1)));
}

function written(values) {
  return new URLSearchParams([...values]).toString();
}
