// Plans as data: a list of groups, each a list of indices of the record's triples.

/** The predicate of each triple; a repeated predicate gets a suffix, as in agggen (isPartOf, isPartOf_2). */
export function names(triples) {
  const result = [];
  const originals = triples.map((triple) => triple[1]);
  for (const predicate of originals) {
    let name = predicate;
    let count = 1;
    while (result.includes(name) || (count > 1 && originals.includes(name))) name = `${predicate}_${++count}`;
    result.push(name);
  }
  return result;
}

const quote = (name) => (/^[^\s[\]"]+$/u.test(name) ? name : JSON.stringify(name));

/** `[a b] [c]` */
export function format(groups, predicates) {
  return groups.map((group) => `[${group.map((fact) => quote(predicates[fact])).join(" ")}]`).join(" ");
}

/** The groups of a plan in text form; throws an Error with column and cause. */
export function parse(text, predicates) {
  const groups = [];
  let open = false;
  for (const match of text.matchAll(/\s+|[[\]]|"(?:[^"\\]|\\.)*"?|[^\s[\]"]+/gu)) {
    const token = match[0];
    const location = `Column ${match.index + 1}: `;
    if (!token.trim()) continue;
    if (token === "[") {
      if (open) throw new Error(`${location}close the previous group with ]`);
      groups.push([]);
      open = true;
    } else if (!open) {
      throw new Error(`${location}a group begins with [`);
    } else if (token === "]") {
      if (!groups.at(-1).length) throw new Error(`${location}this group is empty`);
      open = false;
    } else {
      const name = unquote(token, location);
      const fact = predicates.indexOf(name);
      if (fact < 0) throw new Error(`${location}the record has no predicate ${name}${suggestion(name, predicates)}`);
      if (groups.some((group) => group.includes(fact))) throw new Error(`${location}${name} occurs twice`);
      groups.at(-1).push(fact);
    }
  }
  if (open) throw new Error("The last group is not closed with ]");
  const placed = groups.flat();
  const missing = predicates.filter((_, fact) => !placed.includes(fact));
  if (missing.length) throw new Error(`The plan omits ${missing.join(", ")}`);
  return groups;
}

function unquote(token, location) {
  if (!token.startsWith('"')) return token;
  try {
    return JSON.parse(token);
  } catch {
    throw new Error(`${location}a quoted predicate must be a JSON string`);
  }
}

function suggestion(name, predicates) {
  const match = predicates.find((predicate) => predicate.toLowerCase().startsWith(name.toLowerCase()));
  return match ? `; did you mean ${match}?` : "";
}

export const same = (first, second) => JSON.stringify(first) === JSON.stringify(second);

const withoutFact = (groups, fact) => groups.map((group) => group.filter((other) => other !== fact)).filter((group) => group.length);

/**
 * The place of a fact relative to the groups of the other facts: slot 2i is a new group before group i, slot 2i+1 is in
 * group i; `position` is the fact's place in the group.
 */
export function slotOf(groups, fact) {
  const group = groups.findIndex((members) => members.includes(fact));
  const alone = groups[group].length === 1;
  return { slot: alone ? 2 * group : 2 * group + 1, position: groups[group].indexOf(fact) };
}

export const lastSlot = (groups, fact) => 2 * withoutFact(groups, fact).length;

export function place(groups, fact, { slot, position = Infinity }) {
  const otherGroups = withoutFact(groups, fact);
  const group = Math.floor(slot / 2);
  if (slot % 2 === 0) return [...otherGroups.slice(0, group), [fact], ...otherGroups.slice(group)];
  return otherGroups.map((other, i) => (i === group ? [...other.slice(0, position), fact, ...other.slice(position)] : other));
}

/** Moves a fact into group `group` (its number before the move), or with `alone` into a new group before it. */
export function move(groups, fact, group, alone = false, position = Infinity) {
  const oldGroup = groups.findIndex((other) => other.includes(fact));
  const nRemovedBefore = groups[oldGroup].length === 1 && oldGroup < group ? 1 : 0;
  if (!alone && oldGroup === group && groups[oldGroup].length === 1) return groups;
  return place(groups, fact, { slot: 2 * (group - nRemovedBefore) + (alone ? 0 : 1), position });
}

export function moveGroup(groups, from, to) {
  const otherGroups = groups.filter((_, i) => i !== from);
  return [...otherGroups.slice(0, to), groups[from], ...otherGroups.slice(to)];
}

export const merge = (groups, index) =>
  groups.flatMap((group, i) => (i === index ? [[...group, ...groups[index + 1]]] : i === index + 1 ? [] : [group]));

export const split = (groups, index) => groups.flatMap((group, i) => (i === index ? group.map((fact) => [fact]) : [group]));

/** The plan after the triple `fact` was removed from the record. */
export function drop(groups, fact) {
  return withoutFact(groups, fact).map((group) => group.map((other) => (other > fact ? other - 1 : other)));
}

// --- pins: constraints on the model's plans ---------------------------------------------------------------

export const NO_PINS = { first: [], last: [], together: [], apart: [] };

export const pinned = (pins) => Object.values(pins).some((list) => list.length);

export function dropPins(pins, fact) {
  const shift = (index) => (index > fact ? index - 1 : index);
  const pairs = (list) => list.filter((pair) => !pair.includes(fact)).map((pair) => pair.map(shift));
  const singles = (list) => list.filter((other) => other !== fact).map(shift);
  return { first: singles(pins.first), last: singles(pins.last), together: pairs(pins.together), apart: pairs(pins.apart) };
}

/** The pins that a plan violates, as [kind, value]. */
export function broken(groups, pins) {
  const groupOf = (fact) => groups.findIndex((group) => group.includes(fact));
  return [
    ...pins.first.filter((fact) => groupOf(fact) !== 0).map((fact) => ["first", fact]),
    ...pins.last.filter((fact) => groupOf(fact) !== groups.length - 1).map((fact) => ["last", fact]),
    ...pins.together.filter(([a, b]) => groupOf(a) !== groupOf(b)).map((pair) => ["together", pair]),
    ...pins.apart.filter(([a, b]) => groupOf(a) === groupOf(b)).map((pair) => ["apart", pair]),
  ];
}

export function unpin(pins, kind, value) {
  return { ...pins, [kind]: pins[kind].filter((other) => !same(other, value)) };
}

/** The plan with few changes so that it satisfies the pins; null if none is found within four passes. */
export function repair(groups, pins) {
  let plan = groups;
  for (let turn = 0; turn < 4 && broken(plan, pins).length; turn++) {
    for (const [a, b] of pins.together) {
      const group = plan.findIndex((other) => other.includes(a));
      if (!plan[group].includes(b)) plan = move(plan, b, group);
    }
    for (const [a, b] of pins.apart) {
      const group = plan.findIndex((other) => other.includes(a));
      if (plan[group].includes(b)) plan = move(plan, b, group + 1, true);
    }
    for (const [kind, to] of [["first", () => 0], ["last", () => plan.length - 1]]) {
      for (const [i, fact] of pins[kind].entries()) {
        const group = plan.findIndex((other) => other.includes(fact));
        if (i === 0) plan = moveGroup(plan, group, to());
        else if (group !== to()) plan = move(plan, fact, to());
      }
    }
  }
  return broken(plan, pins).length ? null : plan;
}
