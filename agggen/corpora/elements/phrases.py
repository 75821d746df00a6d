"""How a state can be said: the forms of one clause that mentions its predicates in order.

A state of one to three predicates is *expressible* if one clause can say it: features ("the symbol Au and the atomic
number 79"), a category with features or a position ("a transition metal in period 6"), a position, a look ("a yellow
solid at room temperature"), a discovery, or a name. Each of these has its own builder, which returns forms of
several syntactic frames:

    vp      finite verb phrase after a singular subject        "has the symbol Au"
    np      noun phrase, for an apposition                     "a transition metal with the symbol Au"
    part    participle, before or after what it modifies       "discovered in 1898 by ..."
    with    prepositional phrase                               "with the symbol Au"
    clause  a clause with its own subject; ``{it}`` and        "{its symbol} is Au"
            ``{its noun}`` stand for the element
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agggen.corpora.elements.dice import Dice
from agggen.records import State

FEATURES = ("symbol", "atomicNumber", "standardAtomicWeight", "meltingPoint", "color")
POSITION = ("period", "group", "block")
DISCOVERY = ("discoveredBy", "discoveryYear", "discoveryPlace")
_WITH_ARTICLE = ("United States",)


@dataclass(frozen=True, slots=True)
class Form:
    """A wording of one state. `nominal`: it ends in a noun phrase for the element, which "which" may follow;
    `bare`: that noun phrase has no modifier after its noun, so that a participle may follow without a comma."""

    frame: str
    text: str
    nominal: bool = False
    bare: bool = False


def indefinite(phrase: str) -> str:
    """`phrase` with "a" or "an" before it, by sound: "an alkali metal", "an f-block element", "a d-block element"."""
    sounds_like_vowel = phrase[0].lower() in "aeiou" or phrase.startswith(("f-block", "s-block"))
    return f"{'an' if sounds_like_vowel else 'a'} {phrase}"


def join(parts: Sequence[str]) -> str:
    """ "x", "x and y" or "x, y and z"."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def forms(state: State, values: Mapping[str, str], dice: Dice, opening: bool = False) -> list[Form]:
    """The wordings of `state`, with chosen synonyms; an empty list if no single clause can say it.

    Args:
        values: the object of each predicate of the element.
        opening: the state opens a text that names no category, so the element may be introduced as one ("is a
            chemical element with ...").
    """
    colorless = values.get("color") == "colorless"
    if "category" in state:
        return _category(state, values, dice)
    if state[0] in DISCOVERY:
        return _discovery(state, values, dice) if set(state) <= set(DISCOVERY) else []
    if state[0] in POSITION:
        return _position(state, values) if set(state) <= set(POSITION) else []
    if state == ("namedAfter",):
        return _name(values["namedAfter"])
    if "stateAtRoomTemperature" in state or state == ("color",):
        return _look(state, values)
    if set(state) <= set(FEATURES) and not ("color" in state and colorless):
        return _features(state, values, dice, opening)
    return []


def _feature(predicate: str, value: str, dice: Dice) -> str:
    nouns = {
        "symbol": ("the symbol {}", "the chemical symbol {}"),
        "atomicNumber": ("the atomic number {}", "an atomic number of {}"),
        "standardAtomicWeight": ("a standard atomic weight of {}", "an atomic weight of {}"),
        "meltingPoint": ("a melting point of {}",),
    }
    if predicate == "color":
        return f"{indefinite(value)} color"
    return dice.pick(nouns[predicate]).format(value)


def _features(state: State, values: Mapping[str, str], dice: Dice, opening: bool) -> list[Form]:
    listed = join([_feature(predicate, values[predicate], dice) for predicate in state])
    found = [Form("vp", f"has {listed}"), Form("with", f"with {listed}")]
    if opening:
        introduced = f"a chemical element with {listed.replace('chemical symbol', 'symbol')}"
        found += [Form("vp", f"is {introduced}", nominal=True), Form("np", introduced)]
    if len(state) > 1:
        return found
    value = values[state[0]]
    if state == ("symbol",):
        return [
            *found,
            Form("vp", f"is represented by the symbol {value}"),
            Form("vp", f"is abbreviated as {value}"),
            Form("vp", f"carries the symbol {value}"),
            Form("part", f"represented by the symbol {value}"),
            Form("clause", f"{{its symbol}} is {value}"),
            Form("clause", f"{{its chemical symbol}} is {value}"),
        ]
    if state == ("atomicNumber",):
        protons = f"{value} proton{'' if value == '1' else 's'}"
        return [
            *found,
            Form("vp", f"has {protons} in its nucleus"),
            Form("vp", f"is element number {value}"),
            Form("clause", f"{{its atomic number}} is {value}"),
            Form("clause", f"{{its nucleus}} contains {protons}"),
        ]
    if state == ("standardAtomicWeight",):
        return [
            *found,
            Form("vp", f"has a relative atomic mass of {value}"),
            Form("clause", f"{{its standard atomic weight}} is {value}"),
            Form("clause", f"{{its atomic weight}} is {value}"),
        ]
    return [
        *found,
        Form("vp", f"melts at {value}"),
        Form("vp", f"becomes liquid at {value}"),
        Form("part", f"melting at {value}"),
        Form("clause", f"{{its melting point}} is {value}"),
        Form("clause", f"{{its melting point}} lies at {value}"),
    ]


def _category(state: State, values: Mapping[str, str], dice: Dice) -> list[Form]:
    at = state.index("category")
    before, after = state[:at], state[at + 1 :]
    if before not in ((), ("color",)) or not (set(after) <= set(POSITION) or set(after) <= set(FEATURES[:4])):
        return []
    noun = values["category"]
    head = indefinite(" ".join([values[predicate] for predicate in before] + [noun]))
    if after and after[0] in POSITION:
        head += " in " + join(_places(after, values))
    elif after:
        head += " with " + join([_feature(predicate, values[predicate], dice) for predicate in after])
    found = [Form("vp", f"is {head}", nominal=True, bare=not after), Form("np", head)]
    if len(state) == 1:
        plural = noun + ("es" if noun.endswith("s") else "s")
        found += [
            Form("vp", f"is classified as {head}", nominal=True, bare=True),
            Form("vp", f"belongs to the {plural}"),
            Form("vp", f"is one of the {plural}"),
            Form("vp", f"is counted among the {plural}"),
            Form("part", f"classified as {head}"),
        ]
    return found


def _places(state: State, values: Mapping[str, str]) -> list[str]:
    words = {"period": "period {}", "group": "group {}", "block": "the {}"}
    return [words[predicate].format(values[predicate]) for predicate in state]


def _position(state: State, values: Mapping[str, str]) -> list[Form]:
    places = _places(state, values)
    listed = join(places)
    member = indefinite(f"{places[0].removeprefix('the ')} element")
    if len(places) > 1:
        member += f" in {join(places[1:])}"
    return [
        Form("vp", f"belongs to {listed}"),
        Form("vp", f"is found in {listed} of the periodic table"),
        Form("vp", f"is located in {listed}"),
        Form("vp", f"sits in {listed} of the periodic table"),
        Form("vp", f"is {member}", nominal=True, bare=len(places) == 1),
        Form("np", member),
        Form("part", f"located in {listed}"),
        Form("part", f"found in {listed}"),
        Form("clause", f"{{its place}} in the periodic table is in {listed}"),
        Form("clause", f"in the periodic table, {{it}} belongs to {listed}"),
    ]


def _look(state: State, values: Mapping[str, str]) -> list[Form]:
    color, matter = values.get("color", ""), values.get("stateAtRoomTemperature", "")
    colorless = color == "colorless"
    if state == ("color",):
        found = [Form("vp", f"looks {color}"), Form("vp", f"appears {color}"), Form("vp", f"is {color} in appearance")]
        if colorless:
            return [*found, Form("vp", "is colorless")]
        return [
            *found,
            Form("vp", f"is {color} in color"),
            Form("vp", f"has {indefinite(color)} color"),
            Form("with", f"with its {color} color"),
            Form("clause", f"{{its color}} is {color}"),
        ]
    if state == ("stateAtRoomTemperature",):
        adjective = {"gas": "gaseous"}.get(matter, matter)
        thing, tail = f"a {matter}", ""
        extra = [
            Form("vp", f"is {adjective} at room temperature"),
            Form("vp", f"is {adjective} under normal conditions"),
        ]
    elif state in (("color", "stateAtRoomTemperature"), ("color", "stateAtRoomTemperature", "meltingPoint")):
        thing, extra = indefinite(f"{color} {matter}"), []
        tail = f" with a melting point of {values['meltingPoint']}" if "meltingPoint" in state else ""
    elif state == ("stateAtRoomTemperature", "meltingPoint"):
        thing, tail, extra = f"a {matter}", f" with a melting point of {values['meltingPoint']}", []
    elif state == ("stateAtRoomTemperature", "color") and not colorless:
        thing, tail, extra = f"a {matter}", f" with {indefinite(color)} color", []
    else:
        return []
    found = [
        *extra,
        Form("vp", f"is {thing} at room temperature{tail}"),
        Form("np", f"{thing} at room temperature{tail}"),
        Form("clause", f"at room temperature, {{it}} is {thing}{tail}"),
    ]
    if not tail:
        found += [
            Form("vp", f"exists as {thing} at room temperature"),
            Form("vp", f"occurs as {thing} under normal conditions"),
        ]
    return found


def _discovery(state: State, values: Mapping[str, str], dice: Dice) -> list[Form]:
    phrases = {
        "discoveredBy": f"by {values.get('discoveredBy')}",
        "discoveryYear": f"in {values.get('discoveryYear')}",
        "discoveryPlace": f"in {_with_article(values.get('discoveryPlace', ''))}",
    }
    told = [phrases[predicate] for predicate in state]
    listed, rest = " ".join(told), "".join(f" {phrase}" for phrase in told[1:])
    found = [
        Form("vp", f"was discovered {listed}"),
        Form("vp", f"was {dice.pick(('first identified', 'first discovered'))} {listed}"),
        Form("part", f"discovered {listed}"),
        Form("part", f"first identified {listed}"),
    ]
    people = values.get("discoveredBy")
    if state[0] == "discoveredBy":
        found += [
            Form("clause", f"{people} discovered {{it}}{rest}"),
            Form("clause", f"it was {people} who discovered {{it}}{rest}"),
            Form("vp", f"owes its discovery{rest} to {people}" if not rest else f"was found {listed}"),
        ]
    elif "discoveredBy" not in state:
        found.append(Form("clause", f"{{its discovery}} took place {listed}"))
    elif state[-1] == "discoveredBy":
        earlier = " ".join(told[:-1])
        found += [
            Form("clause", f"{{its discovery}} {earlier} is credited to {people}"),
            Form("clause", f"{earlier}, {people} discovered {{it}}"),
        ]
    else:
        found.append(Form("clause", f"{told[0]}, {people} discovered {{it}} {told[2]}"))
    if state == ("discoveredBy",):
        found.append(Form("clause", f"{{its discovery}} is credited to {people}"))
    if state == ("discoveryYear",):
        found += [
            Form("vp", f"has been known since {values['discoveryYear']}"),
            Form("clause", f"{{its discovery}} dates back to {values['discoveryYear']}"),
        ]
    return found


def _with_article(place: str) -> str:
    return f"the {place}" if place in _WITH_ARTICLE else place


def _name(source: str) -> list[Form]:
    verbs = ("is named after", "was named after", "takes its name from", "gets its name from", "owes its name to")
    origin = "comes from" if source.startswith("the ") else "recalls"
    return [
        *(Form("vp", f"{verb} {source}") for verb in verbs),
        Form("part", f"named after {source}"),
        Form("clause", f"{{its name}} {origin} {source}"),
        Form("clause", f"{{its name}} goes back to {source}"),
    ]
