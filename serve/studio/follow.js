// Keeps the text up to date with the document: requests it, drops answers to outdated requests, and retries.

import { Api, ApiError, Superseded } from "./api.js";
import { broken, format, names, parse, pinned, repair } from "./plan.js";

const SLOW_MS = 1500;
const LONGEST_PAUSE_S = 20;

/** What is shown: `result` belongs to `doc`, which may be older than the store's. */
export class Follower {
  constructor(api, store, changed) {
    this.api = api;
    this.store = store;
    this.changed = changed;
    this.result = null;
    this.status = { kind: "idle" };
    this.version = 0;
    this.card = null; // what is served
    this.best = new Map(); // the most probable plan's log-probability, by record
  }

  /** Whether the result is that of the document as it is now. */
  get fresh() {
    return this.result !== null && this.result.doc === this.store.doc;
  }

  /** The groups to show: the person's plan, else the model's for these very facts. */
  get groups() {
    const { doc } = this.store;
    if (doc.plan) return doc.plan;
    return this.result && this.result.doc.triples.length === doc.triples.length ? this.result.groups : null;
  }

  setStatus(status) {
    this.status = status;
    this.changed();
  }

  /** Asks for the text of the document; `attempt` counts failures in a row. */
  async follow(attempt = 0) {
    clearTimeout(this.timer);
    const { doc } = this.store;
    const version = ++this.version;
    const turn = this.api.turn("text");
    const problem = incomplete(doc);
    if (problem) {
      this.result = null;
      this.setStatus({ kind: "empty", message: problem });
      return;
    }
    const since = this.since ?? performance.now();
    this.since = since;
    this.setStatus({ kind: "working" });
    const slow = setTimeout(() => version === this.version && this.setStatus({ kind: "slow" }), SLOW_MS);
    try {
      const result = await this.ask(turn, doc);
      if (version !== this.version) return;
      clearTimeout(slow);
      this.since = null;
      this.result = { ...result, doc, ms: performance.now() - since };
      this.setStatus({ kind: "ready" });
      performance.measure("change-to-text", { start: since, end: performance.now() });
      await this.check(turn, version, doc);
    } catch (error) {
      if (error instanceof Superseded || version !== this.version) return;
      if (!(error instanceof ApiError)) throw error;
      this.failed(error, attempt);
    } finally {
      clearTimeout(slow);
    }
  }

  failed(error, attempt) {
    if (!error.retryable) {
      this.setStatus({ kind: error.kind, message: error.message, field: error.problem.field });
      return;
    }
    const seconds = Math.max(error.after ?? 0, Math.min(LONGEST_PAUSE_S, 0.5 * 2 ** attempt));
    this.setStatus({ kind: error.kind, message: error.message, seconds: Math.ceil(seconds) });
    this.timer = setTimeout(() => this.follow(attempt + 1), seconds * 1000);
  }

  /** The model's plan that keeps to the pins, or the person's plan, and its text. */
  async ask(turn, doc) {
    const all = names(doc.triples);
    const record = { triples: doc.triples };
    const level = doc.level ? { level: doc.level } : {};
    let notice = null;
    if (doc.plan) {
      record.plan = format(doc.plan, all);
    } else if (pinned(doc.pins)) {
      const k = Math.min(50, this.card?.limits?.plans ?? 50);
      const { plans } = Api.only(await turn.post("v1/plan", { records: [{ triples: doc.triples }], options: { k, ...level } }));
      const parsed = plans.map((plan) => parse(plan.plan, all));
      let groups = parsed.find((plan) => !broken(plan, doc.pins).length);
      if (!groups) {
        groups = repair(parsed[0], doc.pins);
        notice = groups
          ? `None of the ${plans.length} most probable plans keeps to the pins: the best of them was rearranged.`
          : "The pins contradict each other; the plan does not keep to all of them.";
      }
      record.plan = format(groups ?? parsed[0], all);
    }
    // With a plan the level would only narrow the plans among which its probability is taken.
    const options = doc.plan ? {} : level;
    const answer = Api.only(await turn.post("v1/generate", { records: [record], options }));
    const text = answer.texts[0];
    return { text, groups: parse(text.plan, all), model: answer.model, notice, check: null };
  }

  /** The details of the check, and the most probable plan to compare with. */
  async check(turn, version, doc) {
    const { result } = this;
    const name = JSON.stringify(doc.triples);
    const record = { triples: doc.triples };
    const checking = turn.post("v1/check", { records: [{ ...record, text: result.text.text }] });
    const planning = this.best.has(name) ? null : turn.post("v1/plan", { records: [record], options: { k: 1 } });
    const [checked, planned] = await Promise.all([checking, planning]);
    const check = Api.only(checked);
    const plan = planned && Api.only(planned).plans[0];
    if (plan) this.best.set(name, plan.log_probability);
    if (version !== this.version) return;
    this.result = { ...result, check, best: this.best.get(name) };
    this.changed();
  }
}

function incomplete(doc) {
  if (!doc.triples.length) return "There are no facts yet. Pick an example, paste records, or add a fact.";
  const row = doc.triples.findIndex(([, predicate, value]) => !predicate.trim() || !value.trim());
  if (row >= 0) return `Fact ${row + 1} lacks ${doc.triples[row][1].trim() ? "a value" : "a predicate"}.`;
  return null;
}
