// Reference of the API, from its OpenAPI description.

import { byId, make } from "./dom.js";
import { themeButton } from "./theme.js";

const EXAMPLES = {
  "/v1/recommendations": { user: "196", confidence: 0.9, k: 10 },
  "/v1/recommendations/batch": { users: ["196", "22"], confidence: 0.9, k: 10 },
  "/v1/entry-confidences": { history: ["50", "172", "133"], limit: 20 },
  "/v1/p-values": { user: "196", items: ["50", "100"] },
  "/v1/explanations": { user: "196", item: "50" },
};

function resolve(schema, all) {
  return schema?.$ref ? all[schema.$ref.split("/").at(-1)] : schema;
}

function kind(schema, all) {
  if (!schema) return "any";
  if (schema.anyOf) return [...new Set(schema.anyOf.map((arm) => kind(arm, all)))].join(" | ");
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.type === "array") return `list of ${kind(schema.items, all)}`;
  return [schema.type ?? "any"].flat().join(" | ");
}

function fields(schema, all) {
  const needed = schema.required ?? [];
  const rows = Object.entries(schema.properties ?? {}).map(([name, about]) => {
    const field = resolve(about, all);
    const fallback = about.default ?? null;
    const extra = fallback === null || fallback.length === 0 ? "" : ` (${JSON.stringify(fallback)})`;
    return make("tr", {},
      make("td", {}, make("code", { text: name + (needed.includes(name) ? " *" : "") })),
      make("td", { text: kind(about, all) + extra }),
      prose("td", about.description ?? field.description ?? ""));
  });
  return make("div", { className: "scroll" },
    make("table", { className: "fields" }, make("tbody", {}, ...rows)));
}

// Text in which `this` is code.
function prose(tag, text) {
  const parts = text.split("`").map((part, place) => (place % 2 ? make("code", { text: part }) : part));
  return make(tag, {}, ...parts);
}

function curl(path, method, needsKey) {
  const lines = [`curl ${new URL(path.slice(1), document.baseURI).href}`];
  if (needsKey) lines.push("-H 'Authorization: Bearer KEY'");
  if (EXAMPLES[path]) {
    lines.push("-H 'Content-Type: application/json'", `-d '${JSON.stringify(EXAMPLES[path])}'`);
  } else if (method === "post") {
    lines.push("-X POST");
  }
  return lines.join(" \\\n  ");
}

function operation(path, method, about, all) {
  const body = resolve(about.requestBody?.content["application/json"]?.schema, all);
  const [type, answer] = Object.entries(about.responses["200"].content ?? {})[0] ?? ["", {}];
  const shape = resolve(answer.schema, all);
  const inside = make("div", { className: "inside" },
    make("p", { text: about.description ?? "" }),
    make("h3", { text: "Try it" }), make("pre", { text: curl(path, method, about.security) }));
  if (about.parameters) {
    const asSchema = { properties: Object.fromEntries(about.parameters.map((one) =>
      [one.name, { ...one.schema, description: one.description }])) };
    inside.append(make("h3", { text: "Query parameters" }), fields(asSchema, all));
  }
  if (body) inside.append(make("h3", { text: "Body" }), fields(body, all));
  inside.append(make("h3", { text: `Response, ${type}` }));
  if (shape?.properties) inside.append(fields(shape, all));
  const problems = Object.entries(about.responses).filter(([status]) => status !== "200")
    .map(([status, { description }]) => make("tr", {},
      make("td", {}, make("code", { text: status })), make("td", { text: description })));
  inside.append(make("h3", { text: "Errors, application/problem+json" }),
    make("table", { className: "fields" }, make("tbody", {}, ...problems)));
  return make("details", {},
    make("summary", {}, make("span", { className: "method", text: method.toUpperCase() }),
      make("code", { text: path }), make("span", { className: "hint", text: about.summary })),
    inside);
}

async function start() {
  const place = byId("reference");
  try {
    const about = await (await fetch("openapi.json")).json();
    const all = about.components.schemas;
    for (const text of about.info.description.split("\n\n")) place.append(prose("p", text));
    const groups = new Map();
    for (const [path, operations] of Object.entries(about.paths)) {
      for (const [method, one] of Object.entries(operations)) {
        const tag = one.tags?.[0] ?? "other";
        groups.set(tag, [...(groups.get(tag) ?? []), operation(path, method, one, all)]);
      }
    }
    for (const [tag, operations] of groups) place.append(make("h2", { text: tag }), ...operations);
    place.append(make("h2", { text: "Objects" }), ...Object.entries(all).map(([name, shape]) =>
      make("details", { id: name }, make("summary", {}, make("code", { text: name })),
        make("div", { className: "inside" }, make("p", { text: shape.description ?? "" }), fields(shape, all)))));
  } catch {
    place.append(make("p", { className: "error", text: "The description cannot be loaded. Check that the server runs." }));
  }
}

themeButton();
start();
