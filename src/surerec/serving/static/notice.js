// Errors above the page, such as a missing key or an unavailable server.

import { byId, show } from "./dom.js";
import * as api from "./api.js";

const RETRY = 2000; // milliseconds

export function notices({ onRetry }) {
  function noticed(text) {
    byId("notice-text").textContent = text;
    show(byId("notice"), text !== "");
  }

  function failed(error) {
    if (error.status === 401) {
      show(byId("key"), true);
      noticed(error.message);
      askKey();
      return;
    }
    noticed(error.status === 0 ? "The server does not answer. Retrying …" : error.message);
    if (error.status === 0) setTimeout(retryIfAlive, RETRY);
  }

  async function retryIfAlive() {
    if (byId("notice").hidden) return;
    if (await api.isAlive()) onRetry();
    else setTimeout(retryIfAlive, RETRY);
  }

  function askKey() {
    const dialog = byId("key-dialog");
    if (!dialog.open) dialog.showModal();
  }

  byId("key").addEventListener("click", askKey);
  byId("key-dialog").addEventListener("close", () => {
    const value = byId("key-value").value.trim();
    byId("key-value").value = "";
    if (byId("key-dialog").returnValue === "use" && value) {
      api.setKey(value);
      onRetry();
    }
  });
  byId("notice-retry").addEventListener("click", onRetry);
  show(byId("key"), api.hasKey());
  return { failed, noticed };
}
