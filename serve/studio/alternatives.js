// Other plans and other texts of the record, to look at and to take.

import { Api, ApiError, Superseded } from "./api.js";
import { announce, colour, decimal, h, paint, percent, spoken } from "./dom.js";
import * as plan from "./plan.js";
import { coloured, factsOf } from "./words.js";

const PLANS = 8;
const TEXTS = 5;

export class Alternatives {
  constructor({ api, store, follower, point }) {
    Object.assign(this, { api, store, follower, point });
    this.sampled = false;
    this.seed = 1;
    this.answers = { plans: null, texts: null }; // { name, ... } of the last question
  }

  level() {
    return this.store.doc.level ? { level: this.store.doc.level } : {};
  }

  /** Sends its request after the text has arrived, so as not to delay it; shows the last answer meanwhile. */
  ask(what, name, path, options, root, draw) {
    const { doc } = this.store;
    if (!doc.triples.length) {
      this.answers[what] = null;
      paint(root, h("p", { class: "quiet" }, "There are no facts yet."));
      return;
    }
    const last = this.answers[what];
    if (last?.name === name) {
      if (!root.firstChild || last.drawn !== this.drawnFor()) draw(last);
      last.drawn = this.drawnFor();
      return;
    }
    if (!root.firstChild) paint(root, h("p", { class: "quiet" }, "Looking for others\u2026"));
    if (!this.follower.fresh) return;
    this.answers[what] = { name, pending: true };
    const all = plan.names(doc.triples);
    this.api.turn(what).post(path, { records: [{ triples: doc.triples }], options }).then(
      (answer) => {
        const loaded = { name, doc, all, answer: Api.only(answer), drawn: this.drawnFor() };
        this.answers[what] = loaded;
        if (root.dataset.open === what) draw(loaded); // else another tab is open by now
      },
      (error) => {
        if (error instanceof Superseded) return;
        if (!(error instanceof ApiError)) throw error;
        this.answers[what] = null;
        if (root.dataset.open === what) paint(root, h("p", { class: "error" }, error.message));
      },
    );
  }

  /** What the drawing depends on besides the answer. */
  drawnFor() {
    return `${JSON.stringify(this.follower.groups)} ${this.follower.result?.text.text}`;
  }

  // --- plans ---------------------------------------------------------------------------------------------------------

  showPlans(root) {
    const { triples, level } = this.store.doc;
    this.ask("plans", JSON.stringify([triples, level]), "v1/plan", { k: PLANS, ...this.level() }, root, (answered) => !answered.pending && this.drawPlans(root, answered));
  }

  drawPlans(root, { doc, all, answer }) {
    const { plans } = answer;
    const most = Math.max(...plans.map((item) => item.probability ?? 0));
    const exact = plans[0].search === "exact";
    const item = ({ plan: text, probability }) => {
      const groups = plan.parse(text, all);
      const taken = plan.same(groups, this.follower.groups);
      const width = most ? Math.round((10 * (probability ?? 0)) / most) : 0;
      return h("li", {},
        h("button", { type: "button", class: "option", key: `take-${text}`, "aria-pressed": String(taken), "aria-label": `Take the plan ${text}, probability ${percent(probability)}`, on: { click: () => this.take(doc, groups) } },
          diagram(groups, doc.triples),
          h("span", { class: `bar w${width}`, "aria-hidden": "true" }),
          h("span", { class: "share-of" }, probability === null ? "" : percent(probability))));
    };
    paint(root, h("ol", { class: "options" }, plans.map(item)), h("p", { class: "quiet small" }, exact ? (plans.length === 1 ? "There is no other plan." : `The ${plans.length} most probable plans.`) : "The best plans that a search found; there are too many to be certain."));
  }

  take(doc, groups) {
    if (doc.triples !== this.store.doc.triples) return;
    this.store.change({ plan: groups }, "took another plan");
    announce(`Took the plan ${plan.format(groups, plan.names(doc.triples))}`);
  }

  // --- texts ---------------------------------------------------------------------------------------------------------

  showTexts(root) {
    const { triples, level } = this.store.doc;
    const options = this.sampled ? { n_best: TEXTS, plans: TEXTS, planner: "sample", seed: this.seed, ...this.level() } : { n_best: TEXTS, ...this.level() };
    const name = JSON.stringify([triples, level, this.sampled, this.seed]);
    this.ask("texts", name, "v1/generate", options, root, (answered) => !answered.pending && this.drawTexts(root, answered));
  }

  drawTexts(root, { doc, all, answer }) {
    const choose = (sampled) => {
      this.seed += sampled && this.sampled ? 1 : 0;
      this.sampled = sampled;
      this.answers.texts = null;
      this.showTexts(root);
    };
    const item = (text) => {
      const groups = plan.parse(text.plan, all);
      return h("li", { class: "card" },
        h("p", { class: "text small", dir: "auto" }, coloured({ text: text.text, facts: factsOf(text, groups, all), point: this.point })),
        h("div", { class: "row between" }, h("span", { class: "quiet small" }, `${text.fulfilled ? "\u2713 no fault found" : "\u2715 faults found"} \u00b7 log p = ${decimal(text.text_log_probability + (text.plan_log_probability ?? 0), 1)}`), h("button", { type: "button", key: `take-${text.text}`, "aria-label": `Take the plan of this text: ${text.plan}`, on: { click: () => this.take(doc, groups) } }, "Take its plan")));
    };
    paint(root,
      h("div", { class: "row", role: "group", "aria-label": "Which texts" },
        h("button", { type: "button", key: "best", "aria-pressed": String(!this.sampled), on: { click: () => choose(false) } }, "Best"),
        h("button", { type: "button", key: "sampled", "aria-pressed": String(this.sampled), on: { click: () => choose(true) } }, this.sampled ? "Sample again" : "Sampled")),
      h("ol", { class: "cards" }, answer.texts.map(item)),
      h("p", { class: "quiet small" }, this.sampled ? "Plans drawn by their probabilities: varied texts." : "The best texts over the most probable plans."));
  }
}

/** A plan as a small drawing: a box for each group, a label for each fact. */
export function diagram(groups, triples) {
  return h("span", { class: "diagram", "aria-hidden": "true" }, groups.map((group, i) => h("span", { class: `box ${colour(i)}` }, group.map((fact) => h("span", { class: "bit", "data-facts": fact }, h("bdi", {}, spoken(triples[fact][1])))))));
}
