// Plans as pure data: a list of groups, each a list of indices of the record's triples.

/** A name for each triple: its predicate, with a suffix where it occurs again (isPartOf, isPartOf_2), as agggen does. */
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
export function format(groups, all) {
  return groups.map((group) => `[${group.map((fact) => quote(all[fact])).join(" ")}]`).join(" ");
}

/** The groups of a plan's text; throws an Error whose message says what is wrong where. */
export function parse(text, all) {
  const groups = [];
  let open = false;
  for (const match of text.matchAll(/\s+|[[\]]|"(?:[^"\\]|\\.)*"?|[^\s[\]"]+/gu)) {
    const token = match[0];
    const at = `Column ${match.index + 1}: `;
    if (!token.trim()) continue;
    if (token === "[") {
      if (open) throw new Error(`${at}close the group before with ]`);
      groups.push([]);
      open = true;
    } else if (!open) {
      throw new Error(`${at}a group begins with [`);
    } else if (token === "]") {
      if (!groups.at(-1).length) throw new Error(`${at}this group is empty`);
      open = false;
    } else {
      const name = unquoted(token, at);
      const fact = all.indexOf(name);
      if (fact < 0) throw new Error(`${at}the record has no predicate ${name}${nearest(name, all)}`);
      if (groups.some((group) => group.includes(fact))) throw new Error(`${at}${name} is there twice`);
      groups.at(-1).push(fact);
    }
  }
  if (open) throw new Error("The last group lacks its ]");
  const placed = groups.flat();
  const missing = all.filter((_, fact) => !placed.includes(fact));
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

function nearest(name, all) {
  const same = all.find((other) => other.toLowerCase() === name.toLowerCase() || other.toLowerCase().startsWith(name.toLowerCase()));
  return same ? `; did you mean ${same}?` : "";
}

export const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

const without = (groups, fact) => groups.map((group) => group.filter((other) => other !== fact)).filter((group) => group.length);

/**
 * Where a fact can be among the other facts' groups: slot 2i is a group of its own before group i, slot 2i+1 is in
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

/** The fact in the group that now has number `group`, or (`alone`) in a new group before it. */
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

// --- pins: what every plan of the model has to keep to ---------------------------------------------------------------

export const NO_PINS = { first: [], last: [], together: [], apart: [] };

export const pinned = (pins) => Object.values(pins).some((list) => list.length);

export function dropPins(pins, fact) {
  const shift = (other) => (other > fact ? other - 1 : other);
  const pairs = (list) => list.filter((pair) => !pair.includes(fact)).map((pair) => pair.map(shift));
  const singles = (list) => list.filter((other) => other !== fact).map(shift);
  return { first: singles(pins.first), last: singles(pins.last), together: pairs(pins.together), apart: pairs(pins.apart) };
}

/** The pins that a plan does not keep to, as [kind, value]. */
export function broken(groups, pins) {
  const of = (fact) => groups.findIndex((group) => group.includes(fact));
  return [
    ...pins.first.filter((fact) => of(fact) !== 0).map((fact) => ["first", fact]),
    ...pins.last.filter((fact) => of(fact) !== groups.length - 1).map((fact) => ["last", fact]),
    ...pins.together.filter(([a, b]) => of(a) !== of(b)).map((pair) => ["together", pair]),
    ...pins.apart.filter(([a, b]) => of(a) === of(b)).map((pair) => ["apart", pair]),
  ];
}

export function unpin(pins, kind, value) {
  return { ...pins, [kind]: pins[kind].filter((other) => !same(other, value)) };
}

/** The plan, changed as little as possible, so that it keeps to the pins; null if they contradict each other. */
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
