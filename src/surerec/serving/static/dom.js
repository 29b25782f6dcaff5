// Helpers of the page. Text is always set by textContent, so that titles are never markup.

export const byId = (id) => document.getElementById(id);

export function make(tag, { text, className, ...attributes } = {}, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

export function show(element, visible) {
  element.hidden = !visible;
}

// Titles, or ids without a title; equal titles get their id as a suffix.
export function named(ids, titles) {
  const seen = new Map();
  for (const title of titles) seen.set(title, (seen.get(title) ?? 0) + 1);
  return ids.map((id, place) => {
    const title = titles[place];
    if (title === null || title === undefined) return String(id);
    return seen.get(title) > 1 && title !== String(id) ? `${title} (${id})` : title;
  });
}

// The tooltip of a select shows its whole text, which may be truncated.
export function hoverText(select) {
  select.title = select.selectedOptions[0]?.textContent ?? "";
}

const whole = new Intl.NumberFormat("en");
export const count = (number) => whole.format(number);

export const percent = (share, digits = 1) =>
  `${(100 * share).toFixed(digits).replace(/\.?0+$/, "")}%`;

export const sentence = (words) => `${words[0].toUpperCase()}${words.slice(1)}.`;

export const items = (number) => `${count(number)} item${number === 1 ? "" : "s"}`;

export function later(milliseconds, action) {
  let timer;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...args), milliseconds);
  };
}

// Runs at most once a frame, with the latest arguments.
export function eachFrame(action) {
  let waiting;
  return (...args) => {
    if (waiting === undefined) {
      requestAnimationFrame(() => {
        const latest = waiting;
        waiting = undefined;
        action(...latest);
      });
    }
    waiting = args;
  };
}
