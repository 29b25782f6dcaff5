// The group panel: members, guarantee and satisfaction.

import { byId, make, named, percent, show } from "./dom.js";

const GUARANTEE_KINDS = {
  any: "items that any member consumes",
  most: "items that most members consume",
  all: "items that all members consume",
  worst: "items of the worst-served member",
  "hit-any": "a hit for at least one member",
  "hit-all": "a hit for all members",
  mean: "items of all members (twice the mean p-value)",
  geometric: "items of all members (geometric mean)",
  harmonic: "items of all members (harmonic mean)",
  bonferroni: "items of all members (Bonferroni)",
  maximum: "items of some member (largest p-value)",
};
const LARGEST = { most: 4, all: 2, "hit-all": 2 };

export const memberName = (member, place) => member.user ?? `member ${place + 1}`;

export function groupPanel({ state, titles, onChange }) {
  let active = -1; // member whose history is edited
  let offered = [];
  let sizes = [];

  function draw() {
    byId("members").replaceChildren(...state.members.map(row));
    show(byId("mode-history"), state.mode === "history" || (state.mode === "group" && active >= 0));
    const known = sizes.length ? `Calibrated group sizes: ${sizes.join(", ")}.` : "";
    byId("group-hint").textContent = `Add users by id, or new users by their history. ${known}`;
    drawGuarantees();
  }

  function drawGuarantees() {
    const n = state.members.length;
    const now = offered.filter((name) => n <= (LARGEST[name] ?? Infinity));
    if (!now.includes(state.group_guarantee)) state.group_guarantee = now[0] ?? "";
    byId("group-guarantee").replaceChildren(
      ...now.map((name) => make("option", { value: name, text: GUARANTEE_KINDS[name] ?? name })),
    );
    byId("group-guarantee").value = state.group_guarantee;
  }

  function row(member, place) {
    const name = memberName(member, place);
    const remove = make("button", { type: "button", className: "remove", text: "×", "aria-label": `Remove ${name}` });
    remove.addEventListener("click", () => {
      state.members.splice(place, 1);
      active = -1;
      draw();
      onChange();
    });
    const words = member.user === undefined
      ? named(member.history, member.history.map((id) => titles.get(id))).join(", ") || "add titles below"
      : "user in the data";
    const text = make("span", {}, make("strong", { text: name }), make("span", { className: "hint consumed", text: words }));
    const parts = [text];
    if (member.user === undefined) {
      const more = make("button", { type: "button", className: "quiet", text: active === place ? "Done" : "Add titles",
                                    "aria-pressed": String(active === place) });
      more.addEventListener("click", () => {
        active = active === place ? -1 : place;
        draw();
        if (active >= 0) byId("search").focus();
      });
      parts.push(more);
    }
    return make("li", {}, ...parts, remove);
  }

  byId("add-user").addEventListener("submit", (event) => {
    event.preventDefault();
    const user = byId("member-user").value.trim();
    if (!user || state.members.some((member) => member.user === user)) return;
    state.members.push({ user });
    byId("member-user").value = "";
    draw();
    onChange();
  });

  byId("add-new").addEventListener("click", () => {
    active = state.members.push({ history: [] }) - 1;
    draw();
    byId("search").focus();
    onChange();
  });

  byId("group-guarantee").addEventListener("change", (event) => {
    state.group_guarantee = event.target.value;
    onChange();
  });

  return {
    draw,
    // Adds a search result to the member that is being edited.
    add(id) {
      const member = state.members[active];
      if (!member || member.history.includes(id)) return;
      member.history.push(id);
      draw();
      onChange();
    },
    offer(recommender) {
      offered = recommender.group_guarantee;
      sizes = recommender.group_sizes;
      show(byId("mode-group-label"), offered.length > 0);
      document.querySelector(".segments").classList.toggle("three", offered.length > 0);
      if (state.mode === "group") draw();
      return offered.length > 0;
    },
    // Shows the satisfaction of each member, and marks the least served.
    serve(response) {
      show(byId("served"), Boolean(response));
      if (!response) return;
      byId("served-list").replaceChildren(
        ...response.members.map(({ member, satisfaction }) => {
          const share = satisfaction ?? 0;
          const fill = make("span", { className: "fill" });
          fill.style.width = `${100 * share}%`;
          const least = member === response.least_served && response.members.some((m) => m.satisfaction !== satisfaction);
          return make("li", { className: least ? "least" : "" },
            make("span", { text: String(member) }),
            make("span", { className: "bar", role: "img", "aria-label": `${member}: ${percent(share, 0)}` }, fill),
            make("span", { className: "number", text: `${percent(share, 0)}${least ? ", least" : ""}` }));
        }),
      );
    },
  };
}
