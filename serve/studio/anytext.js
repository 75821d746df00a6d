// Segments any text into facts, aligns them with the record's triples, and checks the text.

import { Api, ApiError, Superseded } from "./api.js";
import { $, announce, h, paint } from "./dom.js";
import * as plan from "./plan.js";
import { coloured, strip } from "./words.js";

export class AnyText {
  constructor({ api, store, follower, facts, highlight }) {
    Object.assign(this, { api, store, follower, facts, highlight });
    this.text = "";
  }

  show(root) {
    if (!root.querySelector("#anytext")) this.draw(root);
    this.showCount();
    this.showSource();
    const { triples } = this.store.doc;
    if (this.checked && this.checked !== triples) {
      this.checked = null;
      paint($("aligned"));
    }
  }

  draw(root) {
    const area = h("textarea", { id: "anytext", rows: 4, dir: "auto", "aria-describedby": "anycount", value: this.text });
    area.addEventListener("input", () => {
      this.text = area.value;
      this.showCount();
    });
    paint(root,
      h("label", { for: "anytext" }, "A text about these facts, from any source"),
      area,
      h("div", { class: "row" }, h("button", { type: "button", id: "check", class: "primary", on: { click: () => this.check() } }, "Check it"), h("span", { id: "references", class: "row" }), h("span", { id: "anycount", class: "quiet small" })),
      h("div", { id: "aligned" }));
    this.checked = null;
    this.offered = null;
  }

  showSource() {
    const texts = this.facts.texts;
    if (this.offered === texts) return;
    this.offered = texts;
    const useText = (text) => {
      this.text = text;
      $("anytext").value = text;
      this.showCount();
      this.check();
    };
    paint($("references"), texts.slice(0, 3).map((text, i) => h("button", { type: "button", key: `reference-${i}`, title: text, on: { click: () => useText(text) } }, `Corpus text ${i + 1}`)));
  }

  showCount() {
    const length = Array.from(this.text).length;
    const limit = this.follower.card?.limits?.text_chars ?? Infinity;
    const isTooLong = length > limit;
    $("anycount").textContent = isTooLong ? `${length.toLocaleString()} characters: at most ${limit.toLocaleString()} are allowed` : length ? `${length.toLocaleString()} characters` : "";
    $("anycount").className = isTooLong ? "error" : "quiet small";
    $("anytext").setAttribute("aria-invalid", String(isTooLong));
    $("check").disabled = isTooLong || !this.text.trim() || !this.store.doc.triples.length;
  }

  async check() {
    const { triples } = this.store.doc;
    const { text } = this;
    const turn = this.api.turn("any");
    const records = [{ triples, text }];
    this.checked = triples;
    paint($("aligned"), h("p", { class: "quiet" }, "Aligning\u2026"));
    try {
      const [aligned, check] = (await Promise.all([turn.post("v1/align", { records }), turn.post("v1/check", { records })])).map(Api.onlyAnswer);
      if (triples !== this.store.doc.triples || !$("aligned")) return;
      this.drawResult(text, aligned, check);
    } catch (error) {
      if (error instanceof Superseded || !$("aligned")) return;
      if (!(error instanceof ApiError)) throw error;
      paint($("aligned"), h("p", { class: "error", role: "alert" }, error.message));
    }
  }

  drawResult(text, aligned, check) {
    const { triples } = this.store.doc;
    const predicates = plan.names(triples);
    let offset = 0;
    let group = -1;
    const facts = aligned.facts.map((fact) => {
      const start = offset;
      offset += Array.from(fact.text).length;
      const indices = fact.predicates.map((name) => predicates.indexOf(name));
      if (indices.length) group += 1;
      return { start, end: offset, group: indices.length ? group : -1, facts: indices, note: fact.posterior < 0.5 ? "uncertain" : null };
    });
    const groups = facts.filter((fact) => fact.facts.length).map((fact) => fact.facts);
    const complete = new Set(groups.flat()).size === triples.length && groups.flat().length === triples.length;
    const knownPredicates = this.follower.card ? new Set(this.follower.card.predicate_names) : null;
    const takePlan = () => {
      this.store.change({ plan: groups }, "took the plan of a text");
      announce(`Took the plan ${plan.format(groups, predicates)}`);
    };
    const summary = aligned.facts.map((fact) => `${fact.predicates.length ? fact.predicates.join(" and ") : "no fact"} ${Math.round(fact.posterior * 100)} %`);
    paint($("aligned"),
      h("p", { class: "text", dir: "auto" }, coloured({ text, facts, check, predicates, highlight: this.highlight })),
      strip(check, triples, null, knownPredicates),
      h("p", { class: "quiet small" }, `Segmented and aligned: ${summary.join(" \u00b7 ")}`),
      h("div", { class: "row" }, h("button", { type: "button", key: "takeplan", disabled: !complete, title: complete ? "" : "The text does not express each fact exactly once", on: { click: takePlan } }, "Use this text's plan")));
    announce(check.faults.length ? `${check.faults.length} faults found` : "No fault found");
  }
}
