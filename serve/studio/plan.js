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
    const at = `Column ${match.index + 1}: `;
    if (!token.trim()) continue;
    if (token === "[") {
      if (open) throw new Error(`${at}close the previous group with ]`);
      groups.push([]);
      open = true;
    } else if (!open) {
      throw new Error(`${at}a group begins with [`);
    } else if (token === "]") {
      if (!groups.at(-1).length) throw new Error(`${at}this group is empty`);
      open = false;
    } else {
      const name = unquoted(token, at);
      const fact = predicates.indexOf(name);
      if (fact < 0) throw new Error(`${at}the record has no predicate ${name}${nearest(name, predicates)}`);
      if (groups.some((group) => group.includes(fact))) throw new Error(`${at}${name} occurs twice`);
      groups.at(-1).push(fact);
    }
  }
  if (open) throw new Error("The last group is not closed with ]");
  const placed = groups.flat();
  const missing = predicates.filter((_, fact) => !placed.includes(fact));
  if (missing.length) throw new Error(`The plan omits ${missing.join(", ")}`);
  return groups;
}

function unquoted(token, at) {
  if (!token.startsWith('"')) return token;
  try {
    return JSON.parse(token);
  } catch {
    throw new Error(`${at}a quoted predicate must be a JSON string`);
  }
}

function nearest(name, predicates) {
  const same = predicates.find((other) => other.toLowerCase() === name.toLowerCase() || other.toLowerCase().startsWith(name.toLowerCase()));
  return same ? `; did you mean ${same}?` : "";
}

export const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

const without = (groups, fact) => groups.map((group) => group.filter((other) => other !== fact)).filter((group) => group.length);

/**
 * The place of a fact relative to the groups of the other facts: slot 2i is a new group before group i, slot 2i+1 is in
 * group i; `position` is the fact's place in the group.
 */
export function slotOf(groups, fact) {
  const own = groups.findIndex((group) => group.includes(fact));
  const alone = groups[own].length === 1;
  return { slot: alone ? 2 * own : 2 * own + 1, position: groups[own].indexOf(fact) };
}

export const lastSlot = (groups, fact) => 2 * without(groups, fact).length;

export function place(groups, fact, { slot, position = Infinity }) {
  const rest = without(groups, fact);
  const group = Math.floor(slot / 2);
  if (slot % 2 === 0) return [...rest.slice(0, group), [fact], ...rest.slice(group)];
  return rest.map((other, i) => (i === group ? [...other.slice(0, position), fact, ...other.slice(position)] : other));
}

/** Moves a fact into group `group` (its number before the move), or with `alone` into a new group before it. */
export function move(groups, fact, group, alone = false, position = Infinity) {
  const own = groups.findIndex((other) => other.includes(fact));
  const gone = groups[own].length === 1 && own < group ? 1 : 0;
  if (!alone && own === group && groups[own].length === 1) return groups;
  return place(groups, fact, { slot: 2 * (group - gone) + (alone ? 0 : 1), position });
}

export function moveGroup(groups, from, to) {
  const rest = groups.filter((_, i) => i !== from);
  return [...rest.slice(0, to), groups[from], ...rest.slice(to)];
}

export const merge = (groups, at) =>
  groups.flatMap((group, i) => (i === at ? [[...group, ...groups[at + 1]]] : i === at + 1 ? [] : [group]));

export const split = (groups, at) => groups.flatMap((group, i) => (i === at ? group.map((fact) => [fact]) : [group]));

/** The plan after the triple `fact` was removed from the record. */
export function drop(groups, fact) {
  return without(groups, fact).map((group) => group.map((other) => (other > fact ? other - 1 : other)));
}

// --- pins: constraints on the model's plans ---------------------------------------------------------------

export const NO_PINS = { first: [], last: [], together: [], apart: [] };

export const pinned = (pins) => Object.values(pins).some((list) => list.length);

export function dropPins(pins, fact) {
  const shift = (other) => (other > fact ? other - 1 : other);
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
