// The page: connects the store, the follower and the views.

import { Api, ApiError, Superseded } from "./api.js";
import { Board, sentence } from "./board.js";
import { $, announce, copy, decimal, h, paint, percent } from "./dom.js";
import { Facts } from "./facts.js";
import { Follower } from "./follow.js";
import { Panels } from "./panels.js";
import * as plan from "./plan.js";
import { Store, decode } from "./store.js";
import { coloured, factsOf, strip } from "./words.js";

const TYPING_PAUSE_MS = 250;
const MIN_FACTS_OF_FIRST_RECORD = 5; // facts of the record that is shown first

const api = new Api(new URL(".", document.baseURI));
const store = new Store();
const follower = new Follower(api, store, show);
const facts = new Facts(store, follower, highlight);
const board = new Board(store, follower, highlight);
const panels = new Panels({ api, store, follower, facts, highlight });
let typingTimer = null;

store.subscribe((doc, previous, typing) => {
  clearTimeout(typingTimer);
  if (typing === null || doc.triples.length !== previous.triples.length) facts.showTable();
  if (typing === null) follower.follow();
  else typingTimer = setTimeout(() => follower.follow(), TYPING_PAUSE_MS);
  show();
});

/** Highlights all elements of some facts; `indices`: of the triples: a number, an array, or null for none. */
function highlight(indices) {
  const highlighted = new Set(indices === null ? [] : [indices].flat().map(String));
  for (const element of document.querySelectorAll("[data-facts]")) {
    element.classList.toggle("lit", element.dataset.facts.split(" ").some((fact) => highlighted.has(fact)));
  }
}

// --- drawing ------------------------------------------------------------------------------------------------------

function show() {
  board.show();
  facts.mark();
  showStatus();
  showTools();
  showPins();
  showPlanLine();
  showText();
  panels.show();
}

const STATUS = {
  idle: ["wait", "Loading"],
  empty: ["wait", "Waiting for facts"],
  working: ["wait", "Writing\u2026"],
  slow: ["wait", "Still writing: the endpoint is busy or is starting a generator"],
  ready: ["good", "Ready"],
  busy: ["warn", "Busy"],
  offline: ["bad", "No answer"],
  key: ["warn", "Requires a key"],
  refused: ["bad", "Request refused"],
  fault: ["bad", "Error in the endpoint"],
};
let lastAnnouncement = "";

function showStatus() {
  const { kind, message, seconds } = follower.status;
  const [tone, label] = STATUS[kind];
  $("status").className = `status ${tone}`;
  const sign = { good: "\u25cf", wait: "\u25cc", warn: "\u25b2", bad: "\u25a0" }[tone];
  paint($("status"), h("span", { "aria-hidden": "true" }, sign), ` ${label}`);
  document.body.dataset.state = kind;
  const trouble = ["busy", "offline", "refused", "fault"].includes(kind);
  if (kind === "key") showKeyForm(message);
  else if (trouble) {
    const nextTry = seconds ? ` Next try in ${seconds} s; your changes are saved.` : "";
    paint($("banner"), h("div", { class: `banner ${tone}` }, h("p", {}, h("strong", {}, `${label}. `), message, nextTry), h("button", { type: "button", key: "again", on: { click: retry } }, "Try again now")));
  } else if (kind !== "working" || follower.fresh) {
    if (!["working", "slow"].includes(kind)) paint($("banner"));
  }
  const sentence = trouble || kind === "key" || kind === "slow" ? `${label}. ${message ?? ""}` : "";
  if (sentence && sentence !== lastAnnouncement) announce(sentence);
  lastAnnouncement = sentence;
}

function showKeyForm(message) {
  if ($("banner").querySelector("form")) return;
  const field = h("input", { id: "key", type: "password", autocomplete: "off", required: true });
  const form = h("form", { class: "banner warn" }, h("p", {}, h("strong", {}, "This endpoint requires a key. "), message), h("label", { for: "key" }, "Key"), field, h("button", { type: "submit", class: "primary" }, "Use it"), h("p", { class: "quiet small" }, "It is stored in this tab only; links never contain it."));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    api.setKey(field.value.trim());
    paint($("banner"));
    retry();
  });
  paint($("banner"), form);
}

function retry() {
  if (follower.card) follower.follow();
  else start();
}

function showTools() {
  const { doc, past, future } = store;
  const maxLevel = follower.card?.largest_group ?? 1;
  const level = doc.level ?? maxLevel;
  const button = (key, label, action, enabled, title) => h("button", { type: "button", key, title, "aria-label": title, disabled: !enabled, on: { click: action } }, label);
  const slider = h("input", {
    id: "level", key: "level", type: "range", min: 1, max: maxLevel, step: 1, value: level, "aria-valuetext": levelText(level), disabled: maxLevel < 2,
    on: { input: (event) => setLevel(Number(event.target.value)) },
  });
  if (document.activeElement?.id === "level" && $("level")) {
    $("level").value = level;
    $("level").setAttribute("aria-valuetext", levelText(level));
    $("levelname").textContent = levelText(level);
    return;
  }
  paint(
    $("tools"),
    button("undo", "\u21b6", () => announceStep(store.undo(), "Undone"), past.length, `Undo${past.length ? `: ${past.at(-1).label}` : ""}`),
    button("redo", "\u21b7", () => announceStep(store.redo(), "Redone"), future.length, `Redo${future.length ? `: ${future.at(-1).label}` : ""}`),
    h("span", { class: "level" }, h("label", { for: "level" }, "Aggregation"), slider, h("span", { id: "levelname", class: "quiet small" }, levelText(level))),
    doc.plan ? h("button", { type: "button", key: "model", on: { click: () => store.change({ plan: null }, "the model's plan") } }, "Model's plan") : h("span", { class: "quiet small" }, "The model's plan"),
  );
}

const levelText = (level) => (level === 1 ? "one fact per group" : `up to ${level} per group`);

function setLevel(level) {
  const largest = follower.card.largest_group;
  store.change({ level: level === largest ? null : level, plan: null }, `aggregation: ${levelText(level)}`);
}

function announceStep(label, action) {
  if (label) announce(`${action}: ${label}`);
}

function showPins() {
  const predicates = plan.names(store.doc.triples);
  const { pins } = store.doc;
  const items = Object.entries(pins).flatMap(([kind, list]) => list.map((value) => [kind, value]));
  const remove = (kind, value) => {
    store.change({ pins: plan.unpin(pins, kind, value) }, "removed a pin");
    announce("Pin removed");
  };
  paint(
    $("pins"),
    items.length ? h("ul", { class: "pinlist", "aria-label": "Pins" }, items.map(([kind, value]) => h("li", {}, h("bdi", {}, sentence(kind, value, predicates)), h("button", { type: "button", class: "square ghost tiny", key: `unpin-${kind}-${value}`, "aria-label": `Remove the pin: ${sentence(kind, value, predicates)}`, on: { click: () => remove(kind, value) } }, "\u00d7")))) : null,
    follower.fresh && follower.result.notice ? h("p", { class: "notice" }, follower.result.notice) : null,
  );
}

/** The plan as text, to type and to copy. */
function showPlanLine() {
  const { groups } = follower;
  const field = $("plantext");
  const text = groups && !board.lifted ? plan.format(groups, plan.names(store.doc.triples)) : null;
  if (field) {
    if (text !== null && document.activeElement !== field) {
      field.value = text;
      planError("");
    }
    field.closest(".planline").hidden = !groups;
    return;
  }
  const input = h("input", { id: "plantext", type: "text", spellcheck: "false", autocomplete: "off", dir: "auto", "aria-describedby": "plan-error", value: text ?? "", on: { input: typedPlan, keydown: (event) => event.key === "Enter" && event.target.blur(), blur: () => showPlanLine() } });
  const button = h("button", { type: "button", on: { click: (event) => copy(input.value, event.currentTarget) } }, "Copy");
  paint($("planline"), h("div", { class: "planline", hidden: !groups }, h("label", { for: "plantext" }, "Plan as text"), input, button), h("p", { id: "plan-error", class: "error", role: "status" }));
}

function typedPlan(event) {
  try {
    const groups = plan.parse(event.target.value, plan.names(store.doc.triples));
    planError("");
    if (!plan.same(groups, follower.groups)) store.change({ plan: groups }, "typed a plan", "plan");
  } catch (error) {
    planError(error.message);
  }
}

function planError(message) {
  $("plan-error").textContent = message;
  $("plantext").setAttribute("aria-invalid", String(Boolean(message)));
}

let showsCopies = false; // whether words copied from the record are underlined

function showText() {
  const { result, status } = follower;
  const root = $("words");
  for (const part of [root, $("numbers"), $("checks")]) part.classList.toggle("stale", !follower.fresh);
  root.setAttribute("aria-busy", String(["working", "slow"].includes(status.kind)));
  if (!result) {
    paint(root, status.kind === "empty" ? h("p", { class: "empty" }, "The text appears here.") : h("div", { class: "loading", "aria-hidden": "true" }, h("i"), h("i"), h("i")));
    paint($("numbers"));
    paint($("checks"));
    paint($("texttools"));
    return;
  }
  const { text, groups, check, doc } = result;
  const predicates = plan.names(doc.triples);
  const outdated = !follower.fresh && !plan.same(doc.triples, store.doc.triples) && status.kind !== "working";
  paint(root, outdated ? h("p", { class: "quiet small" }, "The text of the previous facts:") : null, h("p", { class: `text${showsCopies ? " show-copied" : ""}`, dir: "auto" }, coloured({ text: text.text, facts: factsOf(text, groups, predicates), check, predicates, copied: text.copied, highlight })));
  paint(
    $("texttools"),
    text.copied ? h("button", { type: "button", key: "copied", "aria-pressed": String(showsCopies), title: "Underlines words that the model copied from the record", on: { click: () => { showsCopies = !showsCopies; showText(); } } }, "Copied words") : null,
    h("button", { type: "button", key: "copytext", on: { click: (event) => copy(text.text, event.currentTarget) } }, "Copy text"),
  );
  showNumbers(result);
  const knownPredicates = follower.card ? new Set(follower.card.predicate_names) : null;
  paint($("checks"), check ? strip(check, doc.triples, text, knownPredicates) : null);
}

function showNumbers({ text, doc, best, ms }) {
  const logp = text.plan_log_probability;
  const cell = (name, value, title) => h("div", { title }, h("dt", {}, name), h("dd", {}, value));
  const scope = doc.level && !doc.plan ? `among plans of ${levelText(doc.level)}` : "among all plans of these facts";
  const difference = logp !== null && best !== null && best !== undefined && !(doc.level && !doc.plan) ? logp - best : null;
  const probability = logp === null ? "unknown" : percent(Math.exp(logp));
  paint(
    $("numbers"),
    h("dl", { class: "numbers" },
      cell("Plan", probability, logp === null ? "A group is larger than the model allows, or there are too many plans to sum over" : `log p = ${decimal(logp)}, ${scope}`),
      cell(doc.plan ? "Your change" : "Relative to the best plan", difference === null ? "\u2013" : (difference < 0 ? "" : "+") + decimal(difference), "log-probability of this plan minus that of the most probable one"),
      cell("Text given the plan", decimal(text.text_log_probability, 1), "log-probability of the words"),
      cell("Time", `${Math.round(ms)} ms`, "from the change to the text")),
  );
}

// --- start --------------------------------------------------------------------------------------------------------------

const KEYS = [
  ["Enter, Space", "pick up the fact or group in focus; put it down"],
  ["Arrows", "move the focus; move what is picked up, also to a new group"],
  ["Escape", "cancel the move"],
  ["M", "open the menu of a fact: move it, pin it"],
  ["Ctrl Z, Ctrl Y", "undo, redo"],
];

document.addEventListener("keydown", (event) => {
  const isTextField = event.target.matches("input[type=text], input:not([type]), textarea");
  if (!(event.ctrlKey || event.metaKey) || isTextField || event.altKey) return;
  const key = event.key.toLowerCase();
  if (key !== "z" && key !== "y") return;
  event.preventDefault();
  if (key === "y" || event.shiftKey) announceStep(store.redo(), "Redone");
  else announceStep(store.undo(), "Undone");
});

/** Loads the record of a link and removes it from the address, so that a reload keeps later changes. */
function openLink(undoable) {
  const doc = decode(location.hash);
  if (!doc) return;
  history.replaceState(null, "", location.pathname + location.search);
  if (undoable) store.change(doc, "opened a link");
  else store.set(doc);
}

window.addEventListener("hashchange", () => openLink(true));
window.addEventListener("online", retry);

function setUpTheme() {
  const themes = ["auto", "light", "dark"];
  const savedTheme = () => {
    try {
      return themes.find((name) => name === localStorage.getItem("agggen-theme")) ?? "auto";
    } catch {
      return "auto";
    }
  };
  const apply = (name) => {
    document.documentElement.dataset.theme = name;
    $("theme").textContent = { auto: "Auto theme", light: "Light theme", dark: "Dark theme" }[name];
  };
  $("theme").addEventListener("click", () => {
    const next = themes[(themes.indexOf(document.documentElement.dataset.theme) + 1) % themes.length];
    try {
      localStorage.setItem("agggen-theme", next);
    } catch {
      // Without storage, the theme lasts until the page is closed.
    }
    apply(next);
  });
  apply(savedTheme());
}

/** Loads model card and examples; then shows the record of the link or of this tab, or else an example. */
async function start() {
  const turn = api.turn("start");
  try {
    const card = await turn.get("v1/model");
    follower.card = card;
    $("served").textContent = `${card.address.split("/").filter(Boolean).slice(-2).join("/")} \u00b7 ${card.fingerprint.slice(0, 8)}`;
    $("served").title = `${card.address}, fingerprint ${card.fingerprint}`;
    const examples = await turn.get("v1/examples");
    if (!facts.records.length) facts.offer(examples.records, examples.corpus);
  } catch (error) {
    if (error instanceof Superseded) return;
    if (!(error instanceof ApiError)) throw error;
    if (error.retryable) {
      follower.card = null; // the next try loads model card and examples again
      setTimeout(() => !follower.card && start(), 2000);
    }
    follower.setStatus({ kind: error.kind, message: error.message, seconds: error.retryable ? 2 : undefined });
    return;
  }
  if (store.doc.triples.length) {
    facts.showTable();
    if (["working", "slow", "ready"].includes(follower.status.kind)) show();
    else follower.follow();
  } else if (facts.records.length) {
    const first = facts.records.find((record) => record.triples.length >= MIN_FACTS_OF_FIRST_RECORD) ?? facts.records[0];
    store.set({ ...store.doc, triples: first.triples });
  } else {
    facts.showTable();
    follower.follow();
  }
}

setUpTheme();
$("sheet").open = matchMedia("(min-width: 62rem)").matches; // on a phone, only the plan is open at first
paint($("keys"), KEYS.flatMap(([keys, effect]) => [h("dt", {}, keys), h("dd", {}, effect)]));
const restored = store.restore();
openLink(restored);
facts.showTable();
show();
start();
