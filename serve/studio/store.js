// The user's document, with undo; saved in the tab, so that it survives a reload or a restart of the endpoint.
//
// `doc` is immutable: { triples, plan (null: the model's), level (null: the model's), pins }.

import { NO_PINS, drop, dropPins } from "./plan.js";

const STORAGE_KEY = "agggen-studio";
const MAX_UNDO = 200;
const TYPING_MS = 1500;

const EMPTY = { triples: [], plan: null, level: null, pins: NO_PINS };

export class Store {
  constructor() {
    this.doc = EMPTY;
    this.past = [];
    this.future = [];
    this.listeners = [];
    this.kept = []; // corrected texts: { triples, text }
    this.typed = null;
  }

  subscribe(listener) {
    this.listeners.push(listener);
  }

  /**
   * Replaces parts of the document. `label` describes the change, for undo; changes with the same `typing` within
   * TYPING_MS are one step.
   */
  change(changes, label, typing = null) {
    const now = performance.now();
    const extendsStep = typing !== null && this.typed?.name === typing && now - this.typed.at < TYPING_MS;
    if (!extendsStep) this.past = [...this.past.slice(1 - MAX_UNDO), { doc: this.doc, label }];
    this.typed = typing === null ? null : { name: typing, at: now };
    this.future = [];
    this.set({ ...this.doc, ...changes }, typing);
  }

  undo() {
    return this.step(this.past, this.future);
  }

  redo() {
    return this.step(this.future, this.past);
  }

  step(from, to) {
    const last = from.pop();
    if (!last) return null;
    to.push({ doc: this.doc, label: last.label });
    this.typed = null;
    this.set(last.doc);
    return last.label;
  }

  set(doc, typing = null) {
    const previous = this.doc;
    this.doc = doc;
    this.save();
    for (const listener of this.listeners) listener(doc, previous, typing);
  }

  // --- records -------------------------------------------------------------------------------------------------------

  load(triples, label) {
    this.change({ triples, plan: null, pins: NO_PINS }, label);
  }

  edit(row, column, value) {
    const triples = this.doc.triples.map((triple, i) => (i === row ? triple.map((part, j) => (j === column ? value : part)) : triple));
    this.change({ triples }, `edited fact ${row + 1}`, `${row}.${column}`);
  }

  add(triple) {
    const { triples, plan } = this.doc;
    this.change({ triples: [...triples, triple], plan: plan && [...plan, [triples.length]] }, "added a fact");
  }

  remove(row) {
    const { triples, plan, pins } = this.doc;
    const remaining = triples.filter((_, i) => i !== row);
    this.change({ triples: remaining, plan: plan && remaining.length ? drop(plan, row) : null, pins: dropPins(pins, row) }, `removed fact ${row + 1}`);
  }

  // --- kept texts ----------------------------------------------------------------------------------------------------

  keep(text) {
    this.kept = [...this.kept.filter((other) => other.text !== text), { triples: this.doc.triples, text }];
    this.save();
  }

  forget(index) {
    this.kept = this.kept.filter((_, i) => i !== index);
    this.save();
  }

  /** The kept texts as `agggen train` and `agggen adapt` read them. */
  jsonl() {
    const records = new Map();
    for (const { triples, text } of this.kept) {
      const key = JSON.stringify(triples);
      if (!records.has(key)) records.set(key, { id: `studio-${records.size + 1}`, triples, references: [] });
      records.get(key).references.push(text);
    }
    return [...records.values()].map((record) => `${JSON.stringify(record)}\n`).join("");
  }

  // --- storage of the tab, and links -----------------------------------------------------------------------------------

  save() {
    try {
      sessionStorage.setItem(STORAGE_KEY, JSON.stringify({ doc: this.doc, kept: this.kept }));
    } catch {
      // The storage is full or forbidden: the page works without it.
    }
  }

  /** Restores the document that is saved in the tab; false if there is none. */
  restore() {
    try {
      const saved = JSON.parse(sessionStorage.getItem(STORAGE_KEY));
      const doc = validDocument(saved?.doc);
      if (!doc) return false;
      this.kept = (saved.kept ?? []).filter((correction) => typeof correction.text === "string" && validDocument({ triples: correction.triples }));
      this.set(doc);
      return true;
    } catch {
      return false;
    }
  }
}

/** The document as the fragment of an address, which browsers do not send to a server. */
export function encode(doc) {
  const data = { t: doc.triples };
  if (doc.plan) data.p = doc.plan;
  if (doc.level !== null) data.l = doc.level;
  if (doc.pins !== NO_PINS) data.n = doc.pins;
  const bytes = new TextEncoder().encode(JSON.stringify(data));
  const text = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return `#r=${btoa(text).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}`;
}

/** The document of an address fragment; null if the fragment has no valid document. */
export function decode(hash) {
  const encoded = hash.match(/^#r=([\w-]+)$/)?.[1];
  if (!encoded) return null;
  try {
    const bytes = Uint8Array.from(atob(encoded.replaceAll("-", "+").replaceAll("_", "/")), (character) => character.charCodeAt(0));
    const data = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    return validDocument({ triples: data.t, plan: data.p ?? null, level: data.l ?? null, pins: data.n ?? NO_PINS });
  } catch {
    return null;
  }
}

/** `doc` if it is a valid document, else null: storage and links are untrusted. */
function validDocument(doc) {
  const { triples, plan = null, level = null, pins = NO_PINS } = doc ?? {};
  const isTriple = (triple) => Array.isArray(triple) && triple.length === 3 && triple.every((part) => typeof part === "string");
  if (!Array.isArray(triples) || !triples.every(isTriple)) return null;
  const isFact = (fact) => Number.isInteger(fact) && fact >= 0 && fact < triples.length;
  if (plan !== null) {
    if (!Array.isArray(plan) || !plan.every((group) => Array.isArray(group) && group.length)) return null;
    const facts = plan.flat();
    if (!facts.every(isFact) || new Set(facts).size !== triples.length || facts.length !== triples.length) return null;
  }
  if (level !== null && !(Number.isInteger(level) && level > 0)) return null;
  const isPair = (pair) => Array.isArray(pair) && pair.length === 2 && pair.every(isFact);
  const lists = [pins.first, pins.last, pins.together, pins.apart];
  if (!lists.every(Array.isArray) || ![...pins.first, ...pins.last].every(isFact)) return null;
  if (![...pins.together, ...pins.apart].every(isPair)) return null;
  return { triples, plan, level, pins };
}
