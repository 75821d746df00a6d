// Texts of two plans, and of two models if the endpoint serves them, side by side with marked differences.

import { Api, ApiError, Superseded } from "./api.js";
import { diagram } from "./alternatives.js";
import { decimal, h, paint, percent } from "./dom.js";
import * as plan from "./plan.js";
import { strip } from "./words.js";

export class Compare {
  constructor({ api, store, follower }) {
    Object.assign(this, { api, store, follower });
    this.saved = null; // the result to compare the current one with
    this.ownPlans = false; // whether each model follows its own most probable plan
    this.modelTexts = null; // the models' texts: { key, sides }; after an error { key, problem, result }, retried when the result changes
  }

  show(root) {
    const { result, fresh, card } = this.follower;
    const current = fresh ? result : null;
    paint(root, card?.compared ? this.models(root, current, card) : null, this.plans(root, current, Boolean(card?.compared)));
  }

  // --- two plans -----------------------------------------------------------------------------------------------------

  plans(root, current, titled) {
    const save = (result) => () => {
      this.saved = result;
      this.show(root);
    };
    const saved = this.saved && plan.same(this.saved.doc.triples, this.store.doc.triples) ? this.saved : null;
    const knownPredicates = this.knownPredicates();
    return [
      titled ? h("h3", {}, "Two plans") : null,
      h("div", { class: "row" },
        h("button", { type: "button", key: "hold", class: titled ? null : "primary", disabled: !current, on: { click: save(this.follower.result) } }, saved ? "Replace by the current one" : "Save this plan and text"),
        saved ? h("button", { type: "button", key: "letgo", on: { click: save(null) } }, "Discard") : null),
      saved ? sides(["Saved", saved, knownPredicates], ["Current", current, knownPredicates])
        : h("p", { class: "quiet" }, this.saved ? "The saved text is about other facts." : "Save a plan, change it, and compare both texts, with marked differences."),
    ];
  }

  knownPredicates() {
    return new Set(this.follower.card?.predicate_names);
  }

  // --- two models ----------------------------------------------------------------------------------------------------

  models(root, current, card) {
    const { triples } = this.store.doc;
    const choice = (label, ownPlans) => h("button", { type: "button", key: `own-${ownPlans}`, "aria-pressed": String(this.ownPlans === ownPlans), on: { click: () => { this.ownPlans = ownPlans; this.show(root); } } }, label);
    const key = current && JSON.stringify([triples, this.ownPlans ? null : current.groups]);
    if (current && (this.modelTexts?.key !== key || (this.modelTexts.problem && this.modelTexts.result !== current))) this.write(root, key, current, card);
    const { sides: pair, problem } = this.modelTexts ?? {};
    return [
      h("div", { class: "row between" }, h("h3", {}, "Two models"),
        h("div", { class: "row", role: "group", "aria-label": "Plans of the two texts" }, choice("The same plan", false), choice("Each model's own plan", true))),
      problem ? h("p", { class: "error", role: "alert" }, problem)
        : pair && this.modelTexts.key === key ? sides([title(card), pair[0], this.knownPredicates()], [title(card.compared), pair[1], pair[1].knownPredicates])
          : h("p", { class: "quiet" }, triples.length ? "Both models are writing\u2026" : "There are no facts yet."),
    ];
  }

  /** Requests a text and its check from both models, for the shown plan or for each model's own. */
  async write(root, key, current, card) {
    const { doc } = current;
    const predicates = plan.names(doc.triples);
    const record = { triples: doc.triples, ...(this.ownPlans ? {} : { plan: plan.format(current.groups, predicates) }) };
    const turn = this.api.turn("compare");
    const requestSide = async (model) => {
      const { texts: [text] } = Api.onlyAnswer(await turn.post("v1/generate", { records: [record] }, model));
      const check = Api.onlyAnswer(await turn.post("v1/check", { records: [{ triples: doc.triples, text: text.text }] }, model));
      return { doc, text, check, groups: plan.parse(text.plan, predicates) };
    };
    this.modelTexts = { key, result: current };
    try {
      const compared = card.compared.fingerprint;
      const [first, second, { predicate_names }] = await Promise.all([requestSide(card.fingerprint), requestSide(compared), turn.get("v1/model", compared)]);
      this.modelTexts = { key, sides: [first, { ...second, knownPredicates: new Set(predicate_names) }] };
    } catch (error) {
      if (error instanceof Superseded) return;
      if (!(error instanceof ApiError)) throw error;
      this.modelTexts = { key, result: this.follower.result, problem: error.message };
    }
    if (root.dataset.open === "compare") this.show(root);
  }
}

const title = ({ address, fingerprint }) => `${address.split("/").slice(-2).join("/")} \u00b7 ${fingerprint.slice(0, 8)}`;

/** Two cards, each from [title, result (null: not yet available), set of predicates that the model knows]. */
function sides(...entries) {
  const words = entries.every(([, result]) => result) ? difference(...entries.map(([, result]) => result.text.text)) : [null, null];
  return h("div", { class: "sides" }, entries.map(([name, result, knownPredicates], i) => (result ? resultCard(name, result, knownPredicates, words[i]) : h("p", { class: "quiet" }, "Writing\u2026"))));
}

function resultCard(name, { text, groups, doc, check }, knownPredicates, words) {
  const logp = text.plan_log_probability;
  return h("div", { class: "card" }, h("h3", {}, h("bdi", {}, name)), diagram(groups, doc.triples),
    h("p", { class: "text small", dir: "auto" }, words ?? text.text),
    check ? strip(check, doc.triples, text, knownPredicates) : null,
    h("p", { class: "quiet small" }, `plan ${logp === null ? "unknown" : percent(Math.exp(logp))} \u00b7 text log p = ${decimal(text.text_log_probability, 1)}`));
}

/** The nodes of both texts, with words outside their longest common subsequence marked. */
function difference(...texts) {
  const [a, b] = texts.map((text) => text.match(/(?:[\p{L}\p{M}\p{N}]+|\S|^\s)\s*/gu) ?? []);
  const areEqual = (i, j) => a[i].trimEnd() === b[j].trimEnd();
  const common = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1)); // length of the longest common subsequence of a[i:] and b[j:]
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) common[i][j] = areEqual(i, j) ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
  }
  const isUnmatched = [a.map(() => true), b.map(() => true)];
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    if (areEqual(i, j)) isUnmatched[0][i++] = isUnmatched[1][j++] = false;
    else if (common[i + 1][j] >= common[i][j + 1]) i++;
    else j++;
  }
  return [marked(a, isUnmatched[0], "del"), marked(b, isUnmatched[1], "ins")];
}

/** The words of a text, with each run of unmatched words in an element `tag`. */
function marked(words, isUnmatched, tag) {
  const nodes = [];
  for (let start = 0, end = 0; start < words.length; start = end) {
    while (end < words.length && isUnmatched[end] === isUnmatched[start]) end++;
    const run = words.slice(start, end).join("");
    nodes.push(isUnmatched[start] ? [h(tag, {}, run.trimEnd()), run.slice(run.trimEnd().length)] : run);
  }
  return nodes;
}
