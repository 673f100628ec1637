// The operations of openapi.json, one after the other.

import { element } from "./elements.js";

function fields(schema, schemas) {
  const named = schema && schema.$ref ? schemas[schema.$ref.split("/").pop()] : schema;
  return Object.entries((named && named.properties) || {}).map(([name, field]) => {
    const parts = [element("code", { textContent: name })];
    const about = field.description || (field.anyOf || []).map((each) => each.description).find(Boolean);
    if (about) parts.push(` ${about}`);
    return element("li", {}, ...parts);
  });
}

const answer = await fetch("openapi.json");
const { paths, components } = await answer.json();
const articles = Object.entries(paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => {
    const [body] = operation.requestBody ? Object.values(operation.requestBody.content) : [];
    const list = fields(body && body.schema, components.schemas);
    const parts = [
      element("h2", {}, element("code", { textContent: `${method.toUpperCase()} ${path}` })),
      element("p", { textContent: `${operation.summary} (${operation.tags.join(", ")})` }),
    ];
    if (list.length) {
      parts.push(element("details", {}, element("summary", { textContent: "Fields" }), element("ul", {}, ...list)));
    }
    return element("article", {}, ...parts);
  }),
);
document.getElementById("operations").replaceChildren(...articles);
