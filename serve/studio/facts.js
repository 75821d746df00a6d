// The choice of a record, and the table of its triples.

import { $, announce, colour, focusKey, h, letter, paint } from "./dom.js";
import { names } from "./plan.js";
import { parseRecords } from "./paste.js";

const PARTS = ["subject", "predicate", "value"];

export class Facts {
  constructor(store, follower, highlight) {
    Object.assign(this, { store, follower, highlight });
    this.records = []; // to choose from: { id, triples, texts }
    this.origin = "";
    this.index = -1; // of the chosen record; -1: none
  }

  // --- the source of the records ---------------------------------------------------------------------------------------

  offer(records, origin) {
    this.records = records;
    this.offered = true;
    this.origin = origin;
    this.index = -1;
    this.showSource();
  }

  pick(index) {
    this.index = (index + this.records.length) % this.records.length;
    const record = this.records[this.index];
    this.store.load(record.triples, `picked ${record.id}`);
    announce(`Record ${record.id}, ${record.triples.length} facts`);
  }

  /** The corpus texts of the chosen record, if its facts are unchanged. */
  get texts() {
    const record = this.records[this.index];
    return record && JSON.stringify(record.triples) === JSON.stringify(this.store.doc.triples) ? record.texts : [];
  }

  showSource() {
    const label = this.origin ? `Record of ${this.origin}` : "Record";
    const options = this.records.map((record, i) => h("option", { value: i, selected: i === this.index }, title(record)));
    const placeholder = h("option", { value: -1, selected: this.index < 0, disabled: true }, this.records.length ? "your own facts" : this.offered ? "no examples available" : "examples");
    const select = h("select", { key: "record", "aria-label": label, disabled: !this.records.length, on: { change: (event) => this.pick(Number(event.target.value)) } }, this.index < 0 ? placeholder : null, options);
    const step = (offset, name, sign) =>
      h("button", { type: "button", class: "square", key: name, title: name, "aria-label": name, disabled: !this.records.length, on: { click: () => this.pick(this.index < 0 && offset < 0 ? -1 : this.index + offset) } }, sign);
    paint(
      $("source"),
      h("div", { class: "source" }, select, step(-1, "Previous record", "\u2039"), step(1, "Next record", "\u203a"),
        h("button", { type: "button", key: "paste", "aria-expanded": String(!$("paste").hidden), "aria-controls": "paste", on: { click: () => this.togglePaste() } }, "Paste")),
      h("p", { class: "quiet small" }, this.origin ? `${this.records.length} record${this.records.length === 1 ? "" : "s"} of ${this.origin}` : !this.offered ? "Examples are loading; you can also paste records." : "The corpus of this model is not on the endpoint's machine: paste records or type facts."),
    );
  }

  togglePaste(open = $("paste").hidden) {
    const form = $("paste");
    form.hidden = !open;
    this.showSource();
    if (!open) return focusKey($("source"), "paste");
    const area = h("textarea", { id: "pasted", rows: 6, spellcheck: "false", dir: "auto", placeholder: 'subject,predicate,object\nSilicon,symbol,Si', "aria-describedby": "paste-help paste-error" });
    const error = h("p", { id: "paste-error", class: "error", role: "alert" });
    const usePasted = () => {
      try {
        const records = parseRecords(area.value, this.follower.card?.predicate_names);
        this.offer(records, "what you pasted");
        form.hidden = true;
        this.pick(0);
        focusKey($("source"), "record");
      } catch (failure) {
        error.textContent = failure.message;
      }
    };
    paint(
      form,
      h("label", { for: "pasted" }, "Paste records"),
      area,
      h("p", { id: "paste-help", class: "quiet small" }, "CSV, JSON or JSON lines with a triple or a record per row; or lines of subject | predicate | value."),
      error,
      h("div", { class: "row" }, h("button", { type: "submit", class: "primary" }, "Use these"), h("button", { type: "button", on: { click: () => this.togglePaste(false) } }, "Cancel")),
    );
    form.onsubmit = (event) => {
      event.preventDefault();
      usePasted();
    };
    area.focus();
  }

  // --- the table -----------------------------------------------------------------------------------------------------

  /** Redraws the table, after any change except typing in it. */
  showTable() {
    const { triples } = this.store.doc;
    const knownPredicates = this.follower.card?.predicate_names ?? [];
    this.index = this.records.findIndex((record) => JSON.stringify(record.triples) === JSON.stringify(triples));
    this.showSource();
    const rows = triples.map((triple, row) => this.row(triple, row));
    const add = h("button", { type: "button", key: "add", on: { click: () => this.add() } }, "Add a fact");
    const header = h("div", { class: "triple head", "aria-hidden": "true" }, h("span"), ...PARTS.map((part) => h("span", {}, part)), h("span"));
    const list = h("datalist", { id: "known" }, knownPredicates.map((name) => h("option", { value: name })));
    paint($("table"), rows.length ? header : null, h("ul", { class: "triples" }, rows), add, list);
    this.mark();
  }

  row(triple, row) {
    const field = (column) =>
      h("input", {
        key: `${row}.${column}`, "aria-label": `${PARTS[column]} of fact ${row + 1}`, dir: "auto", autocomplete: "off", spellcheck: "false", class: PARTS[column],
        list: column === 1 ? "known" : null, value: triple[column], on: { input: (event) => this.store.edit(row, column, event.target.value) },
      });
    const remove = h("button", { type: "button", class: "square ghost", key: `remove-${row}`, "aria-label": `Remove fact ${row + 1}`, title: "Remove", on: { click: () => this.remove(row) } }, "\u00d7");
    const events = { pointerenter: () => this.highlight(row), pointerleave: () => this.highlight(null), focusin: () => this.highlight(row), focusout: () => this.highlight(null) };
    return h("li", { class: "triple", "data-facts": row, on: events }, h("span", { class: "badge" }), field(0), field(1), field(2), remove, h("p", { class: "note", id: `note-${row}` }));
  }

  add() {
    $("sheet").open = true;
    const subject = this.store.doc.triples.at(-1)?.[0] ?? "";
    this.store.add([subject, "", ""]);
    focusKey($("table"), `${this.store.doc.triples.length - 1}.${subject ? 1 : 0}`);
  }

  remove(row) {
    const name = names(this.store.doc.triples)[row];
    this.store.remove(row);
    announce(`Removed ${name || "a fact"}`);
    focusKey($("table"), `remove-${Math.min(row, this.store.doc.triples.length - 1)}`) ?? focusKey($("table"), "add");
  }

  /** Updates each triple's group, and notes on unknown predicates and on the check of its value. */
  mark() {
    const { triples } = this.store.doc;
    const { groups, card, fresh, result } = this.follower;
    const knownPredicates = card ? new Set(card.predicate_names) : null;
    $("count").textContent = triples.length ? `${triples.length} of at most ${card?.limits?.triples ?? 24}` : "";
    for (const [row, element] of [...$("table").querySelectorAll(".triples > li")].entries()) {
      const group = groups?.findIndex((members) => members.includes(row)) ?? -1;
      const badge = element.querySelector(".badge");
      badge.className = `badge ${group < 0 ? "" : colour(group)}`;
      badge.textContent = group < 0 ? "" : letter(group);
      badge.title = group < 0 ? "" : `group ${letter(group)}`;
      const name = triples[row]?.[1].trim();
      const notes = [];
      if (knownPredicates && name && !knownPredicates.has(name)) notes.push(`? unknown predicate${suggestion(name, knownPredicates)}: written as a separate clause`);
      const expression = fresh ? result.check?.values[row]?.how : null;
      if (expression === "missing") notes.push("\u2715 this value is missing from the text");
      if (expression === "part") notes.push("\u25d0 only a part of this value is in the text");
      const note = element.querySelector(".note");
      note.textContent = notes.join(" \u00b7 ");
      element.querySelector(".predicate").setAttribute("aria-describedby", note.id);
      element.classList.toggle("unknown", notes.length > 0);
    }
  }
}

function title(record) {
  const subject = record.triples[0][0];
  return `${subject || record.id}, ${record.triples.length} fact${record.triples.length === 1 ? "" : "s"}`;
}

function suggestion(name, predicates) {
  const normalised = (text) => text.toLowerCase().replace(/[\s_-]/g, "");
  const match = [...predicates].find((predicate) => normalised(predicate) === normalised(name) || (name.length > 2 && normalised(predicate).startsWith(normalised(name))));
  return match ? ` (did you mean ${match}?)` : "";
}
