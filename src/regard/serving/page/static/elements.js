// What the scripts of the pages share.

export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

export function percent(value) {
  return `${(100 * value).toFixed(value > 0.995 ? 0 : 1)} %`;
}

/** How a token of this probability is underlined: 0 is not. */
export function levelOf(probability) {
  return probability > 0.8 ? 0 : probability > 0.5 ? 1 : probability > 0.2 ? 2 : 3;
}
