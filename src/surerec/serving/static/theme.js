// Light or dark colours, by default those of the system.

import { byId } from "./dom.js";

const KEY = "surerec-theme";

export function themeButton(onChange) {
  const button = byId("theme");
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);

  function apply() {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
    onChange?.();
  }

  const chosen = localStorage.getItem(KEY);
  if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    localStorage.setItem(KEY, root.dataset.theme);
    apply();
  });
  dark.addEventListener("change", apply);
  apply();
}
