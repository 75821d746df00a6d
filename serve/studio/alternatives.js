// Other plans and texts of the record, whose plans the user can take.

import { Api, ApiError, Superseded } from "./api.js";
import { announce, colour, decimal, h, paint, percent, spoken } from "./dom.js";
import * as plan from "./plan.js";
import { coloured, factsOf } from "./words.js";

const PLAN_COUNT = 8;
const TEXT_COUNT = 5;

export class Alternatives {
  constructor({ api, store, follower, highlight }) {
    Object.assign(this, { api, store, follower, highlight });
    this.sampled = false;
    this.seed = 1;
    this.answers = { plans: null, texts: null }; // { key, ... }: the last request and its answer
  }

  levelOption() {
    return this.store.doc.level ? { level: this.store.doc.level } : {};
  }

  /** Requests alternatives once the text has arrived, so as not to delay it; shows the last answer meanwhile. */
  load(kind, key, path, options, root, draw) {
    const { doc } = this.store;
    if (!doc.triples.length) {
      this.answers[kind] = null;
      paint(root, h("p", { class: "quiet" }, "There are no facts yet."));
      return;
    }
    const previous = this.answers[kind];
    if (previous?.key === key) {
      if (!root.firstChild || previous.drawn !== this.drawingKey()) draw(previous);
      previous.drawn = this.drawingKey();
      return;
    }
    if (!root.firstChild) paint(root, h("p", { class: "quiet" }, "Loading\u2026"));
    if (!this.follower.fresh) return;
    this.answers[kind] = { key, pending: true };
    const predicates = plan.names(doc.triples);
    this.api.turn(kind).post(path, { records: [{ triples: doc.triples }], options }).then(
      (answer) => {
        const loaded = { key, doc, predicates, answer: Api.onlyAnswer(answer), drawn: this.drawingKey() };
        this.answers[kind] = loaded;
        if (root.dataset.open === kind) draw(loaded); // else another tab was opened meanwhile
      },
      (error) => {
        if (error instanceof Superseded) return;
        if (!(error instanceof ApiError)) throw error;
        this.answers[kind] = null;
        if (root.dataset.open === kind) paint(root, h("p", { class: "error" }, error.message));
      },
    );
  }

  /** A key of the state, besides the answer, that a drawing depends on. */
  drawingKey() {
    return `${JSON.stringify(this.follower.groups)} ${this.follower.result?.text.text}`;
  }

  // --- plans ---------------------------------------------------------------------------------------------------------

  showPlans(root) {
    const { triples, level } = this.store.doc;
    this.load("plans", JSON.stringify([triples, level]), "v1/plan", { k: PLAN_COUNT, ...this.levelOption() }, root, (loaded) => !loaded.pending && this.drawPlans(root, loaded));
  }

  drawPlans(root, { doc, predicates, answer }) {
    const { plans } = answer;
    const highest = Math.max(...plans.map((item) => item.probability ?? 0));
    const exact = plans[0].search === "exact";
    const item = ({ plan: text, probability }) => {
      const groups = plan.parse(text, predicates);
      const isCurrent = plan.same(groups, this.follower.groups);
      const width = highest ? Math.round((10 * (probability ?? 0)) / highest) : 0;
      return h("li", {},
        h("button", { type: "button", class: "option", key: `take-${text}`, "aria-pressed": String(isCurrent), "aria-label": `Take the plan ${text}, probability ${percent(probability)}`, on: { click: () => this.take(doc, groups) } },
          diagram(groups, doc.triples),
          h("span", { class: `bar w${width}`, "aria-hidden": "true" }),
          h("span", { class: "share-of" }, probability === null ? "" : percent(probability))));
    };
    paint(root, h("ol", { class: "options" }, plans.map(item)), h("p", { class: "quiet small" }, exact ? (plans.length === 1 ? "There is no other plan." : `The ${plans.length} most probable plans.`) : "The best plans of a beam search; there may be better ones."));
  }

  take(doc, groups) {
    if (doc.triples !== this.store.doc.triples) return;
    this.store.change({ plan: groups }, "took another plan");
    announce(`Took the plan ${plan.format(groups, plan.names(doc.triples))}`);
  }

  // --- texts ---------------------------------------------------------------------------------------------------------

  showTexts(root) {
    const { triples, level } = this.store.doc;
    const options = this.sampled ? { n_best: TEXT_COUNT, plans: TEXT_COUNT, planner: "sample", seed: this.seed, ...this.levelOption() } : { n_best: TEXT_COUNT, ...this.levelOption() };
    const key = JSON.stringify([triples, level, this.sampled, this.seed]);
    this.load("texts", key, "v1/generate", options, root, (loaded) => !loaded.pending && this.drawTexts(root, loaded));
  }

  drawTexts(root, { doc, predicates, answer }) {
    const choose = (sampled) => {
      this.seed += sampled && this.sampled ? 1 : 0;
      this.sampled = sampled;
      this.answers.texts = null;
      this.showTexts(root);
    };
    const item = (text) => {
      const groups = plan.parse(text.plan, predicates);
      return h("li", { class: "card" },
        h("p", { class: "text small", dir: "auto" }, coloured({ text: text.text, facts: factsOf(text, groups, predicates), highlight: this.highlight })),
        h("div", { class: "row between" }, h("span", { class: "quiet small" }, `${text.fulfilled ? "\u2713 no fault found" : "\u2715 faults found"} \u00b7 log p = ${decimal(text.text_log_probability + (text.plan_log_probability ?? 0), 1)}`), h("button", { type: "button", key: `take-${text.text}`, "aria-label": `Take the plan of this text: ${text.plan}`, on: { click: () => this.take(doc, groups) } }, "Take its plan")));
    };
    paint(root,
      h("div", { class: "row", role: "group", "aria-label": "Which texts" },
        h("button", { type: "button", key: "best", "aria-pressed": String(!this.sampled), on: { click: () => choose(false) } }, "Best"),
        h("button", { type: "button", key: "sampled", "aria-pressed": String(this.sampled), on: { click: () => choose(true) } }, this.sampled ? "Sample again" : "Sampled")),
      h("ol", { class: "cards" }, answer.texts.map(item)),
      h("p", { class: "quiet small" }, this.sampled ? "Texts of plans sampled by probability." : "The best texts of the most probable plans."));
  }
}

/** A small drawing of a plan: a box per group, a label per fact. */
export function diagram(groups, triples) {
  return h("span", { class: "diagram", "aria-hidden": "true" }, groups.map((group, i) => h("span", { class: `box ${colour(i)}` }, group.map((fact) => h("span", { class: "bit", "data-facts": fact }, h("bdi", {}, spoken(triples[fact][1])))))));
}
