"""Relative clauses made of other sentences: "Bolt , who was drawn by Cohn , lives in Rome" from two plain ones.

Web text has few of them, texts written from data are full of them. The subject of a donor sentence gives way to a
relative pronoun, and the rest follows a name of the host; annotated relative clauses show how frames then look: the
name is the argument, the pronoun its R- twin, and a phrase of the host that ends in the name takes the clause in.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from agggen.facts.tagger.decode import Role
from agggen_platform.srl.tagger.data import Sentence, name_runs

_PERSONS = frozenset(("i", "he", "she", "we", "you", "they"))
_POSSESSIVES = frozenset(("its", "his", "her", "their", "my", "our", "your"))
_BE = frozenset(("is", "are", "was", "were"))
_AFTER_A_NAME = frozenset((".", ",", ":", "IN", "TO", "CC", "MD", "RB", "VBZ", "VBD", "VBP", "VBN", "-RRB-"))
LONGEST_DONOR, LONGEST_SUBJECT, LONGEST = 20, 6, 50


@dataclass(frozen=True, slots=True)
class Donor:
    """A sentence that can become a clause: its subject is words[:end], the verb follows."""

    sentence: Sentence
    end: int


@dataclass(frozen=True, slots=True)
class Clause:
    """The words of a clause with their columns, and of each frame the tags and the role that the antecedent plays."""

    words: tuple[str, ...]
    pos: tuple[str | None, ...]
    predicates: tuple[bool, ...]
    frames: tuple[tuple[int, str | None, tuple[str, ...]], ...]


def donors(sentences: Sequence[Sentence]) -> list[Donor]:
    """The sentences that begin with a short subject and its verb, and end with a full stop."""
    found = []
    for sentence in sentences:
        if not 4 <= len(sentence.words) <= LONGEST_DONOR or sentence.words[-1] != ".":
            continue
        end = next((place for place, verb in enumerate(sentence.predicates) if verb), 0)
        if not 0 < end <= LONGEST_SUBJECT or any(word in ('"', "(", ",") for word in sentence.words[:end]):
            continue
        subjects = [role for role in sentence.roles if _subject(role, end)]
        apart = all(_subject(role, end) or set(role.tags[:end]) == {"O"} for role in sentence.roles)
        if subjects and apart and all(role.tags[-1] == "O" for role in sentence.roles):
            found.append(Donor(sentence, end))
    return found


def graft(host: Sentence, pool: Sequence[Donor], roles: frozenset[str], rng: random.Random) -> Sentence:
    """`host` with a clause of a donor after one of its names; `host` itself if it has no fitting name.

    Args:
        roles: the roles that may be used; a donor whose antecedent would need another is not.
    """
    places = [run for run in name_runs(host) if _can_follow(host, *run)]
    if not places or not pool:
        return host
    begin, end = rng.choice(places)
    if begin and host.words[begin - 1].lower() == "the" and _can_follow(host, begin - 1, end):
        begin -= 1
    after_place = begin > 0 and host.words[begin - 1].lower() in ("in", "at", "from", "near")
    clause = _clause(rng.choice(pool), after_place, rng)
    used = {role for _, role, _ in clause.frames if role}
    if not used or not used <= roles or not {f"R-{role}" for role in used} <= roles:
        return host
    return _insert(host, begin, end, clause, rng) if len(host.words) + len(clause.words) <= LONGEST else host


def _subject(role: Role, end: int) -> str | None:
    """The role of the first `end` words if they are one phrase, and no more than that phrase."""
    first = role.tags[0]
    if first not in ("B-ARG0", "B-ARG1", "B-ARG2") or any(tag != f"I-{first[2:]}" for tag in role.tags[1:end]):
        return None
    return first[2:] if role.tags[end] != f"I-{first[2:]}" else None


def _can_follow(host: Sentence, begin: int, end: int) -> bool:
    following = host.pos[end] if end < len(host.words) else "."
    if following not in _AFTER_A_NAME:
        return False
    return all(
        tag == ("O" if role.tags[begin] == "O" else f"I-{role.tags[begin][2:]}")
        for role in host.roles
        for tag in role.tags[begin + 1 : end]
    )


def _clause(donor: Donor, after_place: bool, rng: random.Random) -> Clause:
    """The donor as a clause without its full stop: reduced, or with who, which, that, whose or where."""
    sentence, end = donor.sentence, donor.end
    rest = slice(end, len(sentence.words) - 1)
    subject = sentence.words[:end]
    low = subject[0].lower()
    reducible = sentence.words[end].lower() in _BE and sentence.pos[end + 1] == "VBN" and sentence.predicates[end + 1]
    if reducible and rng.random() < 0.5:
        kept = slice(end + 1, rest.stop)
        frames = [
            (role.predicate - kept.start, _subject(role, end), role.tags[kept])
            for role in sentence.roles
            if role.predicate != end
        ]
        return Clause(sentence.words[kept], sentence.pos[kept], sentence.predicates[kept], tuple(frames))
    inner, pos = _pronoun(low, end, rng), ["WDT"]
    if low in _POSSESSIVES and end > 1:
        inner, pos = ["whose", *subject[1:]], ["WP$", *(str(tag) for tag in sentence.pos[1:end])]
    elif after_place and rng.random() < 0.5:
        inner, pos = ["where", low, *subject[1:]], ["WRB", *(str(tag) for tag in sentence.pos[:end])]
    frames = []
    for role in sentence.roles:
        antecedent = _subject(role, end)
        head = ["O"] * len(inner)
        if antecedent and inner[0] == "where":
            head = ["B-R-ARGM-LOC", f"B-{antecedent}", *[f"I-{antecedent}"] * (end - 1)]
            antecedent = "ARGM-LOC"
        elif antecedent:
            head = [f"B-R-{antecedent}", *[f"I-R-{antecedent}"] * (len(inner) - 1)]
        frames.append((role.predicate - end + len(inner), antecedent, (*head, *role.tags[rest])))
    return Clause(
        (*inner, *sentence.words[rest]),
        (*pos, *sentence.pos[rest]),
        (*([False] * len(inner)), *sentence.predicates[rest]),
        tuple(frames),
    )


def _pronoun(low: str, end: int, rng: random.Random) -> list[str]:
    if end == 1 and low in _PERSONS:
        return ["who"]
    return [rng.choice(("which", "which", "who", "that"))]


def _insert(host: Sentence, begin: int, end: int, clause: Clause, rng: random.Random) -> Sentence:
    opening = rng.random() < 0.7
    closing = opening and end < len(host.words) and host.pos[end] not in (".", ",")
    before, after = int(opening), int(closing)
    added = before + len(clause.words) + after

    def spread(column: tuple[str, ...]) -> tuple[str, ...]:
        last = column[end - 1]
        return (*column[:end], *["O" if last == "O" else f"I-{last[2:]}"] * added, *column[end:])

    roles = [Role(role.predicate + added * (role.predicate >= end), spread(role.tags)) for role in host.roles]
    for predicate, antecedent, tags in clause.frames:
        name = ["O"] * (end - begin)
        if antecedent:
            name = [f"B-{antecedent}", *[f"I-{antecedent}"] * (end - begin - 1)]
        padding = ["O"] * (len(host.words) - end + after)
        roles.append(Role(end + before + predicate, (*["O"] * begin, *name, *["O"] * before, *tags, *padding)))
    return Sentence(
        (*host.words[:end], *[","] * before, *clause.words, *[","] * after, *host.words[end:]),
        (*host.pos[:end], *[","] * before, *clause.pos, *[","] * after, *host.pos[end:]),
        (*host.syntax[: end - 1], *[None] * (added + 1), *host.syntax[end:]),
        (*host.predicates[:end], *[False] * before, *clause.predicates, *[False] * after, *host.predicates[end:]),
        tuple(sorted(roles, key=lambda role: role.predicate)),
    )
