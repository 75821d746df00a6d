"""Regular expressions for the phrases that express the values of E2E's slots.

The phrases were collected from the development sets. They match folded text (``matching.fold``). A space in a phrase
matches spaces and hyphens: ``kid friendly`` also matches "kid-friendly" and the tokenised "kid - friendly"; ``" ?"`` is
an optional space.

A phrase may mean several values, since people use E2E's two vocabularies for prices (cheap, less than £20) and ratings
(low, 1 out of 5) interchangeably; the record determines which value is meant.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Reading = Literal["published", "plain"]
"""How phrases are interpreted: ``published`` as in published numbers; ``plain`` as people do (see ``scores``)."""

NAMES = (
    *("Alimentum", "Aromi", "Bibimbap House", "Blue Spice", "Browns Cambridge", "Clowns", "Cocum", "Cotto"),
    *("Fitzbillies", "Giraffe", "Green Man", "Loch Fyne", "Midsummer House", "Strada", "Taste of Cambridge"),
    *("The Cambridge Blue", "The Cricketers", "The Dumpling Tree", "The Eagle", "The Golden Curry"),
    *("The Golden Palace", "The Mill", "The Olive Grove", "The Phoenix", "The Plough", "The Punter", "The Rice Boat"),
    *("The Twenty Two", "The Vaults", "The Waterman", "The Wrestlers", "Travellers Rest Beefeater", "Wildwood"),
    "Zizzi",
)
"""The values of ``name`` in E2E's meaning representations, to detect texts that name the wrong venue."""

PLACES = (
    *("All Bar One", "Avalon", "Burger King", "Café Adriatic", "Café Brazil", "Café Rouge", "Café Sicilia"),
    *("Clare Hall", "Crowne Plaza Hotel", "Express by Holiday Inn", "Rainbow Vegetarian Café"),
    *("Raja Indian Cuisine", "Ranch", "The Bakers", "The Portland Arms", "The Rice Boat", "The Six Bells"),
    *("The Sorrento", "Yippee Noodle Bar"),
)
"""The values of ``near`` in E2E's meaning representations."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """Phrases with the same meaning."""

    slot: str
    values: tuple[str, ...]
    """The possible meanings: the record's value if it is among them, otherwise the first; without one, the phrases are
    ignored."""
    regex: re.Pattern[str]
    vague: bool = False
    """Whether the phrases are ignored if the text has a clearer phrase for the slot ("decent", "3 out of 5")."""
    reading: Reading | None = None
    """The reading to which the phrases belong; None: both."""
    cue: str = ""
    """A substring of every phrase: texts without it are skipped."""


def phrases(
    slot: str,
    values: tuple[str, ...],
    *alternatives: str,
    vague: bool = False,
    reading: Reading | None = None,
    cue: str = "",
) -> Pattern:
    """A pattern for the `alternatives` as whole words of folded text; at a position, the first match counts."""
    joined = "|".join(alternatives).replace(" ?", r"[\s-]*").replace(" ", r"[\s-]+")
    return Pattern(slot, values, re.compile(rf"(?<!\w)(?:{joined})(?!\w)"), vague, reading, cue)


EAT_TYPE = (
    phrases("eatType", ("coffee shop",), "coffee ?(?:shop|house|place|bar)s?", "cafe"),
    phrases("eatType", ("coffee shop",), "coffee", vague=True),
    phrases("eatType", ("restaurant",), "restaurant"),
    phrases("eatType", ("restaurant",), "restaurants", vague=True, reading="plain"),
    phrases("eatType", ("pub",), "pub", "public house"),
    phrases("eatType", ("pub",), "pubs", vague=True, reading="plain"),
)

_CUISINES = ("Chinese", "French", "Indian", "Italian", "Japanese")
FOOD = (
    phrases("food", (), "british pounds?", reading="plain"),
    phrases("food", ("English",), "english", "british"),
    phrases("food", ("Fast food",), "fast food"),
    *(phrases("food", (cuisine,), cuisine.lower()) for cuisine in _CUISINES),
)

_NEAR = "(?:on|by|along|alongside|beside|near|near to|next to|close to|off|at|overlooking|facing|across)"
_CITY = "(?:the )?(?:city|town|cambridge)"
AREA = (
    phrases("area", ("riverside",), "riverside", "(?:on|by|along|beside|near|close to|off|at) the river"),
    phrases(
        "area",
        ("riverside",),
        *("river ?(?:side|front|bank)s?", f"{_NEAR} (?:(?:the|a) )?(?:banks? of the )?river", "waterside|waterfront"),
        reading="plain",
    ),
    phrases("area", ("city centre",), "(?:city|town) ?cent(?:re|er)", f"cent(?:re|er) ?\\.? of {_CITY}"),
    phrases(
        "area",
        ("city centre",),
        *(f"(?:cent(?:re|er)|heart|middle|core) of {_CITY}", f"{_CITY}(?: ?'? ?s)? (?:cent(?:re|er)|core)"),
        *("downtown", "centrally located"),
        reading="plain",
    ),
)
