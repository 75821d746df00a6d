// The tabs: other plans, other texts, check of any text, comparison, corrections, sharing.

import { $, announce, copy, download, h, paint } from "./dom.js";
import { Alternatives } from "./alternatives.js";
import { AnyText } from "./anytext.js";
import { Compare } from "./compare.js";
import * as plan from "./plan.js";
import { encode } from "./store.js";

export class Panels {
  constructor(parts) {
    Object.assign(this, parts);
    this.alternatives = new Alternatives(parts);
    this.anyText = new AnyText(parts);
    this.compare = new Compare(parts);
    this.tabs = [
      ["plans", "Other plans", (root) => this.alternatives.showPlans(root)],
      ["texts", "Other texts", (root) => this.alternatives.showTexts(root)],
      ["any", "Check any text", (root) => this.anyText.show(root)],
      ["compare", "Compare", (root) => this.compare.show(root)],
      ["kept", "Corrections", (root) => this.showKept(root)],
      ["share", "Share", (root) => this.showShare(root)],
    ];
    this.open = "plans";
    this.build();
  }

  build() {
    const tab = ([name, label]) => h("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "panel", on: { click: () => this.choose(name) } }, label);
    const list = h("div", { role: "tablist", "aria-label": "More about this record", on: { keydown: (event) => this.key(event) } }, this.tabs.map(tab));
    this.panel = h("div", { id: "panel", role: "tabpanel", tabindex: "0" });
    paint($("more"), list, this.panel);
    this.markOpenTab();
  }

  markOpenTab() {
    for (const [name] of this.tabs) {
      const isOpen = name === this.open;
      $(`tab-${name}`).setAttribute("aria-selected", String(isOpen));
      $(`tab-${name}`).tabIndex = isOpen ? 0 : -1;
    }
    this.panel.dataset.open = this.open;
    this.panel.setAttribute("aria-labelledby", `tab-${this.open}`);
  }

  choose(name) {
    this.open = name;
    this.panel.replaceChildren();
    this.markOpenTab();
    $(`tab-${name}`).scrollIntoView({ block: "nearest", inline: "nearest" });
    this.show();
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (!step) return;
    event.preventDefault();
    const index = this.tabs.findIndex(([name]) => name === this.open);
    const target = Math.abs(step) === 1 ? (index + step + this.tabs.length) % this.tabs.length : step < 0 ? 0 : this.tabs.length - 1;
    this.choose(this.tabs[target][0]);
    $(`tab-${this.tabs[target][0]}`).focus();
  }

  show() {
    this.tabs.find(([name]) => name === this.open)[2](this.panel);
  }

  // --- corrections ---------------------------------------------------------------------------------------------------

  /** Draws the form once and updates it afterwards, so that typed text is kept. */
  showKept(root) {
    const { store, follower } = this;
    const currentText = follower.result?.text.text ?? "";
    if (!root.querySelector("#correction")) {
      const area = h("textarea", { id: "correction", rows: 3, dir: "auto" });
      area.addEventListener("input", () => (this.edited = true));
      const save = () => {
        if (!area.value.trim()) return;
        store.keep(area.value.trim());
        this.edited = false;
        announce(`Saved. ${store.kept.length} texts are saved.`);
        this.showKept(root);
      };
      paint(root, h("label", { for: "correction" }, "Corrected text"), area,
        h("div", { class: "row" }, h("button", { type: "button", class: "primary", on: { click: save } }, "Save correction"), h("button", { type: "button", on: { click: () => { this.edited = false; this.showKept(root); } } }, "Restore the model's text")),
        h("div", { id: "keptlist" }));
      this.edited = false;
    }
    const area = root.querySelector("#correction");
    if (!this.edited && document.activeElement !== area) area.value = currentText;
    const remove = (i) => {
      store.forget(i);
      this.showKept(root);
    };
    paint(
      root.querySelector("#keptlist"),
      store.kept.length
        ? [h("ul", { class: "cards" }, store.kept.map(({ triples, text }, i) => h("li", { class: "card" }, h("p", { dir: "auto" }, text), h("p", { class: "quiet small" }, h("bdi", {}, triples[0][0] || "no subject"), ` \u00b7 ${triples.length} facts`), h("button", { type: "button", class: "square ghost", key: `forget-${i}`, "aria-label": `Remove saved text ${i + 1}`, on: { click: () => remove(i) } }, "\u00d7")))),
          h("div", { class: "row" }, h("button", { type: "button", key: "download", on: { click: () => download("corrections.jsonl", "application/x-ndjson", store.jsonl()) } }, `Download ${store.kept.length} as JSON lines`)),
          h("p", { class: "quiet small" }, "agggen adapt BUNDLE corrections.jsonl fine-tunes the model on them; agggen train reads them too.")]
        : h("p", { class: "quiet small" }, "Saved texts stay in this tab until you download them."),
    );
  }

  // --- sharing -------------------------------------------------------------------------------------------------------

  showShare(root) {
    const { store, follower } = this;
    const { doc } = store;
    if (!doc.triples.length) {
      paint(root, h("p", { class: "empty" }, "There is nothing to share yet."));
      return;
    }
    const groups = follower.groups;
    const record = { triples: doc.triples, ...(groups ? { plan: plan.format(groups, plan.names(doc.triples)) } : {}) };
    const request = { records: [record] };
    const address = new URL("v1/generate", document.baseURI).href;
    const key = this.api.key ? ' \\\n  -H "Authorization: Bearer $AGGGEN_API_KEY"' : "";
    const body = JSON.stringify(request).replaceAll("'", "'\\''");
    const curl = `curl -s '${address}' -H 'Content-Type: application/json'${key} \\\n  -d '${body}'`;
    const link = new URL(encode({ ...doc, plan: groups ?? doc.plan }), location.href).href;
    const items = [
      ["link", "Link", "Record and plan are in the address after #, which browsers send to no server.", link],
      ["json", "Request", "The body of POST /v1/generate.", formatRequest(request)],
      ["curl", "curl", this.api.key ? "With the key in AGGGEN_API_KEY." : "", curl],
      ["plain", "Text", "", follower.fresh ? follower.result.text.text : ""],
    ];
    if (JSON.stringify(items) === this.shared && root.querySelector(".share")) return;
    this.shared = JSON.stringify(items);
    const area = (name, label, value) => h("textarea", { id: `share-${name}`, readonly: true, rows: Math.min(6, value.split("\n").length + (value.length > 120 ? 1 : 0)), spellcheck: "false", dir: "auto", value });
    paint(root, items.map(([name, label, note, value]) =>
      h("div", { class: "share" }, h("div", { class: "row between" }, h("label", { for: `share-${name}` }, label), h("button", { type: "button", key: `copy-${name}`, "aria-label": `Copy ${label}`, on: { click: (event) => copy(value, event.currentTarget) } }, "Copy")), area(name, label, value), note ? h("p", { class: "quiet small" }, note) : null)));
  }
}

/** JSON with one triple per line. */
function formatRequest(request) {
  const string = '("(?:[^"\\\\]|\\\\.)*")';
  return JSON.stringify(request, null, 2).replace(new RegExp(`\\[\\s+${string},\\s+${string},\\s+${string}\\s+\\]`, "g"), "[$1, $2, $3]");
}
