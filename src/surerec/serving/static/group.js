// The panel of a group: who is in it, and what each of them gets.

import { byId, make, named, percent, show } from "./dom.js";

const GUARANTEE_KINDS = {
  any: "what any member takes",
  most: "what most of them take",
  all: "what all of them take",
  worst: "what the worst-served takes",
  "hit-any": "a hit for at least one of them",
  "hit-all": "a hit that all of them take",
  mean: "what everyone takes (twice the mean of p-values)",
  geometric: "what everyone takes (geometric mean)",
  harmonic: "what everyone takes (harmonic mean)",
  bonferroni: "what everyone takes (Bonferroni)",
  maximum: "what someone takes (largest p-value)",
};
const LARGEST = { most: 4, all: 2, "hit-all": 2 };

export const memberName = (member, place) => member.user ?? `member ${place + 1}`;

export function groupPanel({ state, titles, onChange }) {
  let active = -1; // whose titles are being added
  let offered = [];
  let sizes = [];

  function draw() {
    byId("members").replaceChildren(...state.members.map(row));
    show(byId("mode-history"), state.mode === "history" || (state.mode === "group" && active >= 0));
    const known = sizes.length ? `This model knows groups of ${sizes.join(", ")}.` : "";
    byId("group-hint").textContent = `Add known users by id, or people by what they took. ${known}`;
    promises();
  }

  function promises() {
    const n = state.members.length;
    const now = offered.filter((name) => n <= (LARGEST[name] ?? Infinity));
    if (!now.includes(state.group_guarantee)) state.group_guarantee = now[0] ?? "";
    byId("group_guarantee").replaceChildren(
      ...now.map((name) => make("option", { value: name, text: GUARANTEE_KINDS[name] ?? name })),
    );
    byId("group_guarantee").value = state.group_guarantee;
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
      ? named(member.history, member.history.map((id) => titles.get(id))).join(", ") || "search a title below"
      : "a user of the data";
    const text = make("span", {}, make("strong", { text: name }), make("span", { className: "hint took", text: words }));
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

  byId("group_guarantee").addEventListener("change", (event) => {
    state.group_guarantee = event.target.value;
    onChange();
  });

  return {
    draw,
    // A title that was found belongs to whoever is being described.
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
    // How well each member is served by the set, the least served in words too.
    serve(told) {
      show(byId("served"), Boolean(told));
      if (!told) return;
      byId("served-list").replaceChildren(
        ...told.members.map(({ member, satisfaction }) => {
          const share = satisfaction ?? 0;
          const fill = make("span", { className: "fill" });
          fill.style.width = `${100 * share}%`;
          const least = member === told.least_served && told.members.some((m) => m.satisfaction !== satisfaction);
          return make("li", { className: least ? "least" : "" },
            make("span", { text: String(member) }),
            make("span", { className: "bar", role: "img", "aria-label": `${member}: ${percent(share, 0)}` }, fill),
            make("span", { className: "number", text: `${percent(share, 0)}${least ? ", least" : ""}` }));
        }),
      );
    },
  };
}
