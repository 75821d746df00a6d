// Requests the text of the current document, ignores answers to outdated requests, and retries.

import { Api, ApiError, Superseded } from "./api.js";
import { broken, format, names, parse, pinned, repair } from "./plan.js";

const SLOW_MS = 1500;
const MAX_RETRY_DELAY_S = 20;

/** The state that the views show; `result.doc` may be older than the store's document. */
export class Follower {
  constructor(api, store, onChange) {
    this.api = api;
    this.store = store;
    this.onChange = onChange;
    this.result = null;
    this.status = { kind: "idle" };
    this.version = 0;
    this.card = null; // the served model's card
    this.best = new Map(); // log-probability of the most probable plan, by record
  }

  /** Whether the result belongs to the current document. */
  get fresh() {
    return this.result !== null && this.result.doc === this.store.doc;
  }

  /** The groups to show: the user's plan, else the model's plan of the current number of facts, else null. */
  get groups() {
    const { doc } = this.store;
    if (doc.plan) return doc.plan;
    return this.result && this.result.doc.triples.length === doc.triples.length ? this.result.groups : null;
  }

  setStatus(status) {
    this.status = status;
    this.onChange();
  }

  /** Requests the text of the document; `attempt` counts consecutive failures. */
  async follow(attempt = 0) {
    clearTimeout(this.timer);
    const { doc } = this.store;
    const version = ++this.version;
    const turn = this.api.turn("text");
    const problem = missingPart(doc);
    if (problem) {
      this.result = null;
      this.setStatus({ kind: "empty", message: problem });
      return;
    }
    const startedAt = this.startedAt ?? performance.now();
    this.startedAt = startedAt;
    this.setStatus({ kind: "working" });
    const slowTimer = setTimeout(() => version === this.version && this.setStatus({ kind: "slow" }), SLOW_MS);
    try {
      const result = await this.requestText(turn, doc);
      if (version !== this.version) return;
      clearTimeout(slowTimer);
      this.startedAt = null;
      this.result = { ...result, doc, ms: performance.now() - startedAt };
      this.setStatus({ kind: "ready" });
      performance.measure("change-to-text", { start: startedAt, end: performance.now() });
      await this.check(turn, version, doc);
    } catch (error) {
      if (error instanceof Superseded || version !== this.version) return;
      if (!(error instanceof ApiError)) throw error;
      this.handleFailure(error, attempt);
    } finally {
      clearTimeout(slowTimer);
    }
  }

  handleFailure(error, attempt) {
    if (!error.retryable) {
      this.setStatus({ kind: error.kind, message: error.message });
      return;
    }
    const seconds = Math.max(error.after ?? 0, Math.min(MAX_RETRY_DELAY_S, 0.5 * 2 ** attempt));
    this.setStatus({ kind: error.kind, message: error.message, seconds: Math.ceil(seconds) });
    this.timer = setTimeout(() => this.follow(attempt + 1), seconds * 1000);
  }

  /** The text of the user's plan, else of the model's best plan that satisfies the pins. */
  async requestText(turn, doc) {
    const predicates = names(doc.triples);
    const record = { triples: doc.triples };
    const level = doc.level ? { level: doc.level } : {};
    let notice = null;
    if (doc.plan) {
      record.plan = format(doc.plan, predicates);
    } else if (pinned(doc.pins)) {
      const k = Math.min(50, this.card?.limits?.plans ?? 50);
      const { plans } = Api.onlyAnswer(await turn.post("v1/plan", { records: [{ triples: doc.triples }], options: { k, ...level } }));
      const candidates = plans.map((plan) => parse(plan.plan, predicates));
      let groups = candidates.find((plan) => !broken(plan, doc.pins).length);
      if (!groups) {
        groups = repair(candidates[0], doc.pins);
        notice = groups
          ? `None of the ${plans.length} most probable plans satisfies the pins, so the best one was rearranged.`
          : "The pins contradict each other, so the plan does not satisfy all of them.";
      }
      record.plan = format(groups ?? candidates[0], predicates);
    }
    // With a user's plan, a level would only normalise its probability over fewer plans.
    const options = doc.plan ? {} : level;
    const answer = Api.onlyAnswer(await turn.post("v1/generate", { records: [record], options }));
    const text = answer.texts[0];
    return { text, groups: parse(text.plan, predicates), notice, check: null };
  }

  /** Requests the check of the text, and the log-probability of the record's most probable plan. */
  async check(turn, version, doc) {
    const { result } = this;
    const key = JSON.stringify(doc.triples);
    const record = { triples: doc.triples };
    const checkRequest = turn.post("v1/check", { records: [{ ...record, text: result.text.text }] });
    const planRequest = this.best.has(key) ? null : turn.post("v1/plan", { records: [record], options: { k: 1 } });
    const [checkResponse, planResponse] = await Promise.all([checkRequest, planRequest]);
    const check = Api.onlyAnswer(checkResponse);
    const plan = planResponse && Api.onlyAnswer(planResponse).plans[0];
    if (plan) this.best.set(key, plan.log_probability);
    if (version !== this.version) return;
    this.result = { ...result, check, best: this.best.get(key) };
    this.onChange();
  }
}

/** A message about the first missing part of the record; null if it is complete. */
function missingPart(doc) {
  if (!doc.triples.length) return "There are no facts yet. Pick an example, paste records, or add a fact.";
  const row = doc.triples.findIndex(([, predicate, value]) => !predicate.trim() || !value.trim());
  if (row >= 0) return `Fact ${row + 1} lacks ${doc.triples[row][1].trim() ? "a value" : "a predicate"}.`;
  return null;
}
