// Two plans side by side: what is held, and what is on the board. An endpoint serves one bundle, so both are its.

import { h, paint, percent } from "./dom.js";
import { diagram } from "./alternatives.js";

export class Compare {
  constructor({ store, follower }) {
    Object.assign(this, { store, follower });
    this.held = null;
  }

  show(root) {
    const { result } = this.follower;
    const now = this.follower.fresh ? result : null;
    const hold = () => {
      this.held = this.follower.result;
      this.show(root);
    };
    const let_go = () => {
      this.held = null;
      this.show(root);
    };
    const held = this.held && JSON.stringify(this.held.doc.triples) === JSON.stringify(this.store.doc.triples) ? this.held : null;
    const [left, right] = held && now ? difference(held.text.text, now.text.text) : [null, null];
    paint(root,
      h("div", { class: "row" },
        h("button", { type: "button", key: "hold", class: "primary", disabled: !now, on: { click: hold } }, held ? "Hold the present one instead" : "Hold this plan and text"),
        held ? h("button", { type: "button", key: "letgo", on: { click: let_go } }, "Let go") : null),
      held ? h("div", { class: "sides" }, side("Held", held, left), now ? side("Now", now, right) : h("p", { class: "quiet" }, "Writing\u2026"))
        : h("p", { class: "quiet" }, this.held ? "What is held is about other facts." : "Hold a plan, change it, and see both texts with their differences marked. The endpoint serves one model, so both texts are its."));
  }
}

function side(title, { text, groups, doc }, words) {
  const own = text.plan_log_probability;
  return h("div", { class: "card" }, h("h3", {}, title), diagram(groups, doc.triples),
    h("p", { class: "text small", dir: "auto" }, words ?? text.text),
    h("p", { class: "quiet small" }, `plan ${own === null ? "not known" : percent(Math.exp(own))} \u00b7 text log p = ${text.text_log_probability.toFixed(1)} \u00b7 ${text.fulfilled ? "no fault found" : "faults found"}`));
}

/** The words of both texts; those that only one has are marked. */
function difference(one, other) {
  const [a, b] = [one, other].map((text) => text.match(/\s+|[^\s]+/gu) ?? []);
  const table = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) table[i][j] = a[i] === b[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
  }
  const sides = [[], []];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      sides[0].push(a[i++]);
      sides[1].push(b[j++]);
    } else if (i < a.length && (j === b.length || table[i + 1][j] >= table[i][j + 1])) {
      sides[0].push(only(a[i++], "del"));
    } else {
      sides[1].push(only(b[j++], "ins"));
    }
  }
  return sides;
}

const only = (word, tag) => (word.trim() ? h(tag, {}, word) : word);
