// The plan as rows of chips, which the user moves by pointer, keyboard or menu.

import { $, announce, colour, focusKey, h, letter, paint, spoken } from "./dom.js";
import { drag } from "./drag.js";
import * as plan from "./plan.js";

export class Board {
  constructor(store, follower, highlight) {
    Object.assign(this, { store, follower, highlight });
    this.lifted = null; // { fact or group, groups, ... }: what the user has picked up by keyboard, and the plan with its current place
    this.dragging = false;
  }

  get groups() {
    return this.lifted?.groups ?? this.follower.groups;
  }

  get names() {
    return plan.names(this.store.doc.triples);
  }

  show() {
    if (this.dragging) return;
    const { groups } = this;
    const root = $("board");
    if (!groups) {
      const { kind, message } = this.follower.status;
      paint(root, kind === "empty" ? h("p", { class: "empty" }, message) : placeholder(this.store.doc.triples.length));
      return;
    }
    root.classList.toggle("stale", !this.follower.fresh && !this.store.doc.plan);
    paint(root, h("ol", { class: "groups" }, groups.map((group, i) => this.row(group, i, groups))));
  }

  row(group, i, groups) {
    const lifted = this.lifted?.group === i;
    const handle = h("button", {
      type: "button", class: `handle badge ${colour(i)}`, key: `group-${i}`, "data-group": i, "aria-label": `Group ${letter(i)}, ${i + 1} of ${groups.length}${lifted ? ", picked up" : ""}`,
      "aria-roledescription": "movable group", title: "Drag, or Enter and arrows", on: { click: () => this.toggleGroup(i), keydown: (event) => this.groupKey(event, i), pointerdown: (event) => this.dragGroup(event, i) },
    }, letter(i));
    const tools = h("span", { class: "rowtools" },
      group.length > 1 ? h("button", { type: "button", class: "ghost tiny", key: `split-${i}`, "aria-label": `Split group ${letter(i)}`, on: { click: () => this.apply(plan.split(groups, i), `split group ${letter(i)}`) } }, "Split") : null,
      i + 1 < groups.length ? h("button", { type: "button", class: "ghost tiny", key: `merge-${i}`, "aria-label": `Merge group ${letter(i)} with ${letter(i + 1)}`, on: { click: () => this.apply(plan.merge(groups, i), `merged groups ${letter(i)} and ${letter(i + 1)}`) } }, "Merge \u2193") : null);
    return h("li", { class: `group ${colour(i)}${lifted ? " lifted" : ""}`, "data-row": i }, handle, h("span", { class: "chips" }, group.map((fact) => this.chip(fact, i))), tools);
  }

  chip(fact, group) {
    const [, predicate, value] = this.store.doc.triples[fact];
    const { pins } = this.store.doc;
    const marks = [pins.first.includes(fact) ? "first" : null, pins.last.includes(fact) ? "last" : null,
      pins.together.some((pair) => pair.includes(fact)) ? "together" : null, pins.apart.some((pair) => pair.includes(fact)) ? "apart" : null].filter(Boolean);
    const lifted = this.lifted?.fact === fact;
    return h("button", {
      type: "button", class: `chip${lifted ? " lifted" : ""}`, key: `chip-${fact}`, "data-facts": fact, "aria-roledescription": "movable fact", "aria-describedby": "how",
      "aria-label": `${spoken(predicate)}: ${value}, group ${letter(group)}${marks.length ? `, pinned ${marks.join(", ")}` : ""}${lifted ? ", picked up" : ""}`,
      on: {
        click: (event) => this.chipClick(event, fact), keydown: (event) => this.chipKey(event, fact), pointerdown: (event) => this.dragChip(event, fact),
        pointerenter: () => this.highlight(fact), pointerleave: () => this.highlight(null), focus: () => this.highlight(fact), blur: () => this.highlight(null),
      },
    }, h("span", { class: "grip", "aria-hidden": "true" }), h("span", { class: "name" }, h("bdi", {}, spoken(predicate))), h("bdi", { class: "value" }, value), marks.length ? h("span", { class: "pinned" }, marks.join(" \u00b7 ")) : null);
  }

  // --- changing the plan ---------------------------------------------------------------------------------------------

  /** Applies the user's plan and removes the pins that it violates. */
  apply(groups, label, focus = null) {
    this.lifted = null;
    if (plan.same(groups, this.follower.groups)) {
      this.show();
    } else {
      let { pins } = this.store.doc;
      const removed = plan.broken(groups, pins);
      for (const [kind, value] of removed) pins = plan.unpin(pins, kind, value);
      this.store.change({ plan: groups, pins }, label);
      announce(`${label[0].toUpperCase()}${label.slice(1)}.${removed.length ? ` ${removed.length} pin${removed.length > 1 ? "s" : ""} removed.` : ""}`);
    }
    if (focus !== null) focusKey($("board"), focus);
  }

  moveTo(fact, groups, focus) {
    const group = groups.findIndex((members) => members.includes(fact));
    this.apply(groups, `moved ${spoken(this.names[fact])} to group ${letter(group)}`, focus ?? `chip-${fact}`);
  }

  // --- keyboard ------------------------------------------------------------------------------------------------------

  chipClick(event, fact) {
    if (event.detail === 0) this.toggle(fact); // Enter, Space, or a screen reader
    else if (this.lifted) this.putDown();
    else this.menu(fact);
  }

  toggle(fact) {
    if (this.lifted) {
      this.putDown();
      return;
    }
    const groups = this.follower.groups;
    this.lifted = { fact, groups, ...plan.slotOf(groups, fact) };
    this.show();
    announce(`Picked up ${spoken(this.names[fact])}. Arrows move it, Enter puts it down, Escape cancels.`);
  }

  toggleGroup(i) {
    if (this.lifted) {
      this.putDown();
      return;
    }
    this.lifted = { group: i, groups: this.follower.groups };
    this.show();
    announce(`Picked up group ${letter(i)}. Up and down move it, Enter puts it down.`);
  }

  putDown() {
    const { fact, group, groups } = this.lifted;
    if (fact !== undefined) this.moveTo(fact, groups);
    else this.apply(groups, `moved a group to place ${group + 1}`, `group-${group}`);
  }

  cancelMove(focus) {
    this.lifted = null;
    this.show();
    focusKey($("board"), focus);
    announce("Move cancelled.");
  }

  chipKey(event, fact) {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.key === "Escape" && this.lifted) this.cancelMove(`chip-${fact}`);
    else if (event.key.toLowerCase() === "m" && !event.ctrlKey && !event.metaKey && !event.altKey) this.menu(fact);
    else if (step && this.lifted?.fact === fact) this.carry(fact, ...step);
    else if (step && !this.lifted) this.moveFocus(fact, ...step);
    else return;
    event.preventDefault();
  }

  groupKey(event, i) {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (event.key === "Escape" && this.lifted) this.cancelMove(`group-${i}`);
    else if (step && this.lifted?.group === i) this.carryGroup(i, step);
    else if (step) focusKey($("board"), `group-${i + step}`);
    else if (event.key === "ArrowRight") focusKey($("board"), `chip-${this.groups[i][0]}`);
    else return;
    event.preventDefault();
  }

  /** Moves the focus to a chip's neighbour. */
  moveFocus(fact, x, y) {
    const { groups } = this;
    const row = groups.findIndex((group) => group.includes(fact));
    const position = groups[row].indexOf(fact);
    if (x < 0 && position === 0) focusKey($("board"), `group-${row}`);
    else if (x) focusKey($("board"), `chip-${groups[row][position + x]}`);
    else if (groups[row + y]) focusKey($("board"), `chip-${groups[row + y][Math.min(position, groups[row + y].length - 1)]}`);
  }

  /** Moves the picked-up chip by a step. */
  carry(fact, x, y) {
    const { lifted } = this;
    const base = this.follower.groups;
    const last = plan.lastSlot(base, fact);
    const slot = Math.min(last, Math.max(0, lifted.slot + y));
    const row = lifted.groups.findIndex((group) => group.includes(fact));
    const position = y ? Infinity : Math.min(lifted.groups[row].length - 1, Math.max(0, lifted.groups[row].indexOf(fact) + x));
    this.lifted = { fact, slot, position, groups: plan.place(base, fact, { slot, position }) };
    this.show();
    const group = this.lifted.groups.findIndex((members) => members.includes(fact));
    const companions = this.lifted.groups[group].filter((other) => other !== fact).map((other) => spoken(this.names[other]));
    announce(companions.length ? `Group ${letter(group)}, with ${companions.join(", ")}` : `New group ${letter(group)} of ${this.lifted.groups.length}`);
  }

  carryGroup(i, step) {
    const to = Math.min(this.groups.length - 1, Math.max(0, i + step));
    this.lifted = { group: to, groups: plan.moveGroup(this.groups, i, to) };
    this.show();
    focusKey($("board"), `group-${to}`);
    announce(`Place ${to + 1} of ${this.groups.length}`);
  }

  // --- pointer -------------------------------------------------------------------------------------------------------

  dragChip(event, fact) {
    if (event.pointerType !== "mouse" && !event.target.closest(".grip")) return; // touch scrolls, except on the grip
    this.begin(event, (target) => {
      const { groups } = this;
      if (target) this.moveTo(fact, plan.move(groups, fact, target.group, target.alone, target.position), `chip-${fact}`);
    }, fact);
  }

  dragGroup(event, i) {
    this.begin(event, (target) => {
      if (!target) return;
      const to = target.group > i ? target.group - (target.alone ? 1 : 0) : target.group;
      this.apply(plan.moveGroup(this.groups, i, to), `moved group ${letter(i)} to place ${to + 1}`, `group-${to}`);
    });
  }

  begin(event, drop, fact) {
    if (event.button !== 0 || this.lifted) return;
    drag(event, $("board"), fact, {
      start: () => (this.dragging = true),
      end: (target) => {
        this.dragging = false;
        drop(target);
        this.show();
      },
    });
  }

  // --- the menu of a fact --------------------------------------------------------------------------------------------

  menu(fact) {
    this.lifted = null;
    document.querySelector("dialog.menu")?.close();
    const { groups, names } = this;
    const { pins } = this.store.doc;
    const ownGroup = groups.findIndex((group) => group.includes(fact));
    const close = (action) => () => {
      dialog.close();
      action();
    };
    const button = (label, action, pressed) => h("button", { type: "button", class: "tiny", "aria-pressed": pressed === undefined ? null : String(pressed), on: { click: close(action) } }, label);
    const moves = groups.flatMap((_, i) => (i === ownGroup ? [] : [button(h("span", { class: `badge ${colour(i)}` }, letter(i)), () => this.moveTo(fact, plan.move(groups, fact, i)))]));
    const otherFacts = names.map((_, other) => other).filter((other) => other !== fact);
    const pairButton = (kind, other) => {
      const value = fact < other ? [fact, other] : [other, fact];
      const isSet = pins[kind].some((pinned) => plan.same(pinned, value));
      return button(spoken(names[other]), () => this.pin(kind, value, isSet), isSet);
    };
    const singleButton = (kind) => button(kind === "first" ? "First" : "Last", () => this.pin(kind, fact, pins[kind].includes(fact)), pins[kind].includes(fact));
    const section = (title, ...children) => (children.flat().length ? h("div", { class: "part", role: "group", "aria-label": title }, h("p", { class: "quiet small" }, title), h("div", { class: "row" }, children)) : null);
    const dialog = h("dialog", { class: "menu", "aria-label": `${spoken(names[fact])}: place and pins`, on: { close: () => dialog.remove() } },
      h("div", { class: "title" }, h("h3", {}, spoken(names[fact])), h("button", { type: "button", class: "square ghost", "aria-label": "Close", on: { click: () => dialog.close() } }, "\u00d7")),
      section("Move to group", moves),
      section("Move to a new group", groups[ownGroup].length > 1 || groups.length > 1 ? [button("First", () => this.moveTo(fact, plan.move(groups, fact, 0, true))), groups[ownGroup].length > 1 ? button("After this group", () => this.moveTo(fact, plan.move(groups, fact, ownGroup + 1, true))) : null, button("Last", () => this.moveTo(fact, plan.place(groups, fact, { slot: plan.lastSlot(groups, fact) })))].filter(Boolean) : []),
      section("Pin, in every plan", singleButton("first"), singleButton("last")),
      section("Always together with", otherFacts.map((other) => pairButton("together", other))),
      section("Never together with", otherFacts.map((other) => pairButton("apart", other))));
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    document.body.append(dialog);
    dialog.showModal();
    dialog.addEventListener("close", () => focusKey($("board"), `chip-${fact}`));
  }

  /** Adds or removes a pin; the model then chooses a plan that satisfies the pins. */
  pin(kind, value, isSet) {
    let { pins } = this.store.doc;
    pins = isSet ? plan.unpin(pins, kind, value) : { ...pins, [kind]: [...pins[kind], value] };
    const opposite = { first: "last", last: "first", together: "apart", apart: "together" }[kind];
    if (!isSet) pins = plan.unpin(pins, opposite, value);
    this.store.change({ pins, plan: null }, isSet ? "removed a pin" : `pinned ${sentence(kind, value, this.names)}`);
    announce(isSet ? "Pin removed" : `Pinned: ${sentence(kind, value, this.names)}`);
  }
}

export function sentence(kind, value, predicates) {
  const name = (fact) => spoken(predicates[fact]);
  if (kind === "first" || kind === "last") return `${name(value)} ${kind}`;
  return `${name(value[0])} and ${name(value[1])} ${kind}`;
}

function placeholder(count) {
  const rows = Array.from({ length: Math.min(4, Math.max(2, count)) }, () => h("div", { class: "ghostrow" }, h("i"), h("i")));
  return h("div", { class: "loading", "aria-hidden": "true" }, rows);
}
