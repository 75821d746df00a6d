// A text with coloured facts and marked mentions of values, and the strip of check results below it.

import { colour, h, letter, percent, spoken } from "./dom.js";
import { names } from "./plan.js";

/**
 * The nodes of a text. All offsets are in Unicode code points, as the endpoint counts.
 *
 * @param facts [{ start, end, group, facts, note }]: segments of the text in order; `facts` are indices of triples.
 * @param check an answer of /v1/check, for mentions of values and hallucinated words.
 * @param predicates the name of each triple's predicate, as `names` returns them.
 * @param copied [[start, end]] of words that the model copied from the record.
 * @param highlight called with the indices of the facts under the pointer, or null.
 */
export function coloured({ text, facts, check = null, predicates = [], copied = [], highlight = () => {} }) {
  const characters = Array.from(text);
  const mentions = (check?.values ?? []).filter((value) => value.start !== undefined).map((value) => ({ start: value.start, end: value.end, fact: predicates.indexOf(value.predicate) }));
  const unsupported = (check?.invented ?? []).flatMap((word) => occurrences(characters, word)).concat((check?.invented_spans ?? []).map(([start, end]) => ({ start, end })));
  const edges = new Set([0, characters.length]);
  for (const { start, end } of [...facts, ...mentions, ...unsupported]) edges.add(start).add(end);
  for (const [start, end] of copied) edges.add(start).add(end);
  for (const fact of facts) edges.add(trimmedEnd(characters, fact));
  const boundaries = [...edges].sort((a, b) => a - b);
  const piece = (start, end) => {
    const content = characters.slice(start, end).join("");
    const contains = (span) => span.start <= start && end <= span.end;
    const mentioned = mentions.filter(contains).map((span) => span.fact);
    let node = content;
    if (copied.some((span) => span[0] <= start && end <= span[1])) node = h("span", { class: "copied" }, node);
    if (mentioned.length) node = h("b", { class: "mention", "data-facts": mentioned.join(" "), on: hover(mentioned, highlight) }, node);
    if (unsupported.some(contains)) node = h("span", { class: "foreign", title: "not in the record" }, node, h("span", { class: "hidden" }, " (not in the record)"));
    return node;
  };
  const pieces = (start, end) => {
    const inside = boundaries.filter((offset) => offset >= start && offset <= end);
    return inside.slice(1).map((offset, i) => piece(inside[i], offset));
  };
  const nodes = [];
  let position = 0;
  for (const fact of facts) {
    if (fact.start > position) nodes.push(pieces(position, fact.start));
    const trimmed = trimmedEnd(characters, fact);
    if (fact.group < 0) nodes.push(h("span", { class: "fact none" }, pieces(fact.start, trimmed)));
    else {
      const label = h("sup", { class: "tag" }, letter(fact.group), fact.note ? h("span", { class: "flag" }, fact.note) : null);
      nodes.push(h("span", { class: `fact ${colour(fact.group)}${fact.fallback ? " fallback" : ""}`, "data-facts": fact.facts.join(" "), on: hover(fact.facts, highlight) }, pieces(fact.start, trimmed), label));
    }
    nodes.push(characters.slice(trimmed, fact.end).join(""));
    position = fact.end;
  }
  if (position < characters.length) nodes.push(pieces(position, characters.length));
  return nodes;
}

const hover = (facts, highlight) => ({
  pointerover: (event) => {
    event.stopPropagation();
    highlight(facts);
  },
  pointerout: () => highlight(null),
});

/** The end of a fact without trailing whitespace. */
function trimmedEnd(characters, fact) {
  let end = fact.end;
  while (end > fact.start && !characters[end - 1].trim()) end--;
  return end;
}

function occurrences(characters, word) {
  const letters = Array.from(word);
  const result = [];
  for (let start = 0; start + letters.length <= characters.length; start++) {
    const end = start + letters.length;
    const isWord = (i) => i >= 0 && i < characters.length && /[\p{L}\p{N}]/u.test(characters[i]);
    if (letters.every((character, i) => characters[start + i] === character) && !isWord(start - 1) && !isWord(end)) result.push({ start, end });
  }
  return result;
}

/** The facts of an answer of /v1/generate, for `coloured`. */
export function factsOf(text, groups, predicates) {
  return text.facts.map((fact) => {
    const indices = fact.predicates.map((name) => predicates.indexOf(name));
    const group = groups.findIndex((members) => members.includes(indices[0]));
    return { ...fact, facts: indices, group, note: fact.fallback ? "fallback" : null };
  });
}

// --- the strip ---------------------------------------------------------------------------------------------------------

const KINDS = {
  whole: ["\u2713", "whole", "values that the text contains completely"],
  part: ["\u25d0", "in part", "values of which only some words occur"],
  missing: ["\u2715", "missing", "values that are not in the text"],
  invented: ["!", "invented", "numbers, names and values that are not in the record"],
  wording: ["\u21c4", "in another predicate's wording", "values of the record in the wording of another predicate"],
  unnamed: ["\u2022", "subjects not named", "subjects that the text never names"],
  repeated: ["\u21bb", "repeated", "words that occur twice in a row"],
  unknown: ["?", "unknown predicates", "predicates that are not in the training data, written as separate clauses"],
  contradicted: ["\u2260", "contradicted", "triples that the text contradicts, according to the critic"],
  fallback: ["\u25a4", "fallback sentences", "facts for which the search found no text without faults, replaced by a training sentence or a plain clause"],
};

/** The results of the strict check by kind (a key of KINDS): predicates, words or subjects. */
function findings(triples, check, text, knownPredicates) {
  const predicates = names(triples);
  const predicatesOf = (kind) => check.values.filter((value) => value.how === kind).map((value) => spoken(value.predicate));
  const fallbacks = (text?.facts ?? []).filter((fact) => fact.fallback).flatMap((fact) => fact.predicates.map(spoken));
  return {
    whole: check.values.filter((value) => !["part", "missing"].includes(value.how)).map((value) => spoken(value.predicate)),
    part: predicatesOf("part"),
    missing: predicatesOf("missing"),
    invented: check.invented,
    wording: [...check.swapped.map((pair) => pair.map(spoken).join(" and ")), ...check.misplaced.map((triple) => spoken(triple[1]))],
    unnamed: check.unnamed,
    repeated: check.repeated,
    unknown: knownPredicates ? predicates.filter((_, i) => !knownPredicates.has(triples[i][1].trim())).map(spoken) : [],
    fallback: fallbacks,
  };
}

/** Nodes of the verdict, of the results of the strict check (each with sign and label) and of the critic's results, if any. */
export function strip(check, triples, text, knownPredicates) {
  const byKind = findings(triples, check, text, knownPredicates);
  const { whole, unknown, fallback, ...faults } = byKind;
  const faultless = !Object.values(faults).some((items) => items.length);
  const kindItems = [...Object.keys(faults), "unknown", "fallback"].filter((kind) => byKind[kind].length).map((kind) => item(kind, byKind[kind]));
  return [h("ul", { class: "strip", "aria-label": "Checks" },
    h("li", { class: `verdict ${faultless ? "good" : "bad"}` }, sign(faultless ? "\u2713" : "\u2715"), faultless ? "No fault found" : "Faults found"),
    h("li", { class: "check whole", title: KINDS.whole[2] }, sign(KINDS.whole[0]), `${whole.length} of ${triples.length} values whole`), kindItems),
  check.scores ? critic(check) : null];
}

function critic({ scores, risk, triples }) {
  const doubts = ["contradicted", "part", "missing"].map((verdict) => [verdict, triples.filter((triple) => triple.verdict === verdict).map((triple) => spoken(triple.predicate))]);
  return h("ul", { class: "strip critic", "aria-label": "Critic" },
    h("li", { title: "The risk that the text is incorrect, according to the learned critic" }, sign("\u25d4"), h("span", {}, "Critic: risk ", h("b", {}, percent(risk)))),
    doubts.filter(([, items]) => items.length).map(([kind, items]) => item(kind, items)),
    Object.entries(scores).map(([name, score]) => h("li", { class: "score" }, `${name} ${percent(score)}`)));
}

const sign = (character) => h("span", { class: "sign", "aria-hidden": "true" }, character);

function item(kind, items) {
  const [character, name, meaning] = KINDS[kind];
  const label = items.length === 1 ? name.replace(/s\b(?=$| not)/, "") : name;
  return h("li", { class: `check ${kind}`, title: meaning }, sign(character), h("span", {}, `${items.length} ${label}`), h("span", { class: "about" }, h("bdi", {}, items.join(", "))));
}
