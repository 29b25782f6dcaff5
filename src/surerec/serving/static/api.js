// Requests to the server, with API key, error messages and retries when it is busy.

const KEY = "surerec-key";
const TRIES = 3;

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status; // 0: no response
  }
}

export const hasKey = () => sessionStorage.getItem(KEY) !== null;
export const setKey = (key) =>
  key ? sessionStorage.setItem(KEY, key) : sessionStorage.removeItem(KEY);

const wait = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

async function once(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The server does not answer. Check that it runs.");
  }
}

async function call(path, { body, signal } = {}) {
  const headers = {};
  const key = sessionStorage.getItem(KEY);
  if (key) headers.Authorization = `Bearer ${key}`;
  const options = { headers, signal };
  if (body !== undefined) {
    options.method = "POST";
    options.body = JSON.stringify(body);
    headers["Content-Type"] = "application/json";
  }
  for (let attempt = 1; ; attempt += 1) {
    const response = await once(path, options);
    if (response.ok) return response.json();
    const retry = Number(response.headers.get("Retry-After"));
    if ((response.status === 503 || response.status === 429) && retry > 0 && attempt < TRIES) {
      await wait(Math.min(retry, 5));
      continue;
    }
    let detail = `The server answered with status ${response.status}.`;
    try {
      detail = (await response.json()).detail ?? detail;
    } catch {
      // not JSON, perhaps from a proxy
    }
    throw new ApiError(response.status, detail);
  }
}

export const model = () => call("v1/model");
export const live = () => call("v1/live");
export const isAlive = async () => {
  try {
    return (await fetch("healthz")).ok;
  } catch {
    return false;
  }
};
export const search = (words, signal, limit = 8) =>
  call(`v1/items?q=${encodeURIComponent(words)}&limit=${limit}`, { signal });
export const entryConfidences = (body, signal) => call("v1/entry-confidences", { body, signal });
// The guarantee and the size of a set, without its items.
export const guarantee = (body, signal) =>
  call("v1/recommendations", { body: { ...body, limit: 0 }, signal });
export const explanation = (body, signal) => call("v1/explanations", { body, signal });
