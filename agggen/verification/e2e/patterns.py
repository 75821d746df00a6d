"""How people say the attributes of E2E: regular expressions for phrases, and the values that a phrase can mean.

Written from the development sets alone. The expressions see folded text (``matching.fold``): lower case, no accents,
one kind of quote and of dash. In them a blank stands for blanks or hyphens, so that ``kid friendly`` also finds
"kid-friendly" and the tokenised "kid - friendly"; a blank and a question mark stand for as many of them, or none.

A phrase may mean several values: E2E has two vocabularies for prices (cheap, less than £20) and for ratings (low, 1
out of 5), and people use the words of one for the values of the other. The record decides which is meant.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Reading = Literal["published", "plain"]
"""How texts are read: as the published numbers were made, or as people understand them (``scores`` says more)."""

NAMES = (
    *("Alimentum", "Aromi", "Bibimbap House", "Blue Spice", "Browns Cambridge", "Clowns", "Cocum", "Cotto"),
    *("Fitzbillies", "Giraffe", "Green Man", "Loch Fyne", "Midsummer House", "Strada", "Taste of Cambridge"),
    *("The Cambridge Blue", "The Cricketers", "The Dumpling Tree", "The Eagle", "The Golden Curry"),
    *("The Golden Palace", "The Mill", "The Olive Grove", "The Phoenix", "The Plough", "The Punter", "The Rice Boat"),
    *("The Twenty Two", "The Vaults", "The Waterman", "The Wrestlers", "Travellers Rest Beefeater", "Wildwood"),
    "Zizzi",
)
"""The venues of E2E's meaning representations, so that a text which names another one than its record is caught."""

PLACES = (
    *("All Bar One", "Avalon", "Burger King", "Café Adriatic", "Café Brazil", "Café Rouge", "Café Sicilia"),
    *("Clare Hall", "Crowne Plaza Hotel", "Express by Holiday Inn", "Rainbow Vegetarian Café"),
    *("Raja Indian Cuisine", "Ranch", "The Bakers", "The Portland Arms", "The Rice Boat", "The Six Bells"),
    *("The Sorrento", "Yippee Noodle Bar"),
)
"""The values of ``near`` in E2E's meaning representations."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """Phrases of one reading."""

    slot: str
    values: tuple[str, ...]
    """What the phrases can mean; the first is meant where the record has none of them. Empty: they mean nothing."""
    regex: re.Pattern[str]
    vague: bool = False
    """Counts only where nothing else in the text speaks of the slot: "decent" adds nothing to "3 out of 5"."""
    reading: Reading | None = None
    """The only reading in which the phrases count; None for both."""
    cue: str = ""
    """A part of every such phrase; where a text lacks it the expression need not be tried."""


def phrases(*alternatives: str) -> re.Pattern[str]:
    """One expression for whole words of folded text; of several alternatives the first that fits is taken."""
    joined = "|".join(alternatives).replace(" ?", r"[\s-]*").replace(" ", r"[\s-]+")
    return re.compile(rf"(?<!\w)(?:{joined})(?!\w)")


EAT_TYPE = (
    Pattern("eatType", ("coffee shop",), phrases("coffee ?(?:shop|house|place|bar)s?", "cafe")),
    Pattern("eatType", ("coffee shop",), phrases("coffee"), vague=True),
    Pattern("eatType", ("restaurant",), phrases("restaurant")),
    Pattern("eatType", ("restaurant",), phrases("restaurants"), vague=True, reading="plain"),
    Pattern("eatType", ("pub",), phrases("pub", "public house")),
    Pattern("eatType", ("pub",), phrases("pubs"), vague=True, reading="plain"),
)

_CUISINES = ("Chinese", "French", "Indian", "Italian", "Japanese")
FOOD = (
    Pattern("food", (), phrases("british pounds?"), reading="plain"),
    Pattern("food", ("English",), phrases("english", "british")),
    Pattern("food", ("Fast food",), phrases("fast food")),
    *(Pattern("food", (cuisine,), phrases(cuisine.lower())) for cuisine in _CUISINES),
)

_BY = "(?:on|by|along|alongside|beside|near|near to|next to|close to|off|at|overlooking|facing|across)"
_TOWN = "(?:the )?(?:city|town|cambridge)"
AREA = (
    Pattern("area", ("riverside",), phrases("riverside", "(?:on|by|along|beside|near|close to|off|at) the river")),
    Pattern(
        "area",
        ("riverside",),
        phrases(
            "river ?(?:side|front|bank)s?", f"{_BY} (?:(?:the|a) )?(?:banks? of the )?river", "waterside|waterfront"
        ),
        reading="plain",
    ),
    Pattern("area", ("city centre",), phrases("(?:city|town) ?cent(?:re|er)", f"cent(?:re|er) ?\\.? of {_TOWN}")),
    Pattern(
        "area",
        ("city centre",),
        phrases(
            f"(?:cent(?:re|er)|heart|middle|core) of {_TOWN}",
            f"{_TOWN}(?: ?'? ?s)? (?:cent(?:re|er)|core)",
            "downtown",
            "centrally located",
        ),
        reading="plain",
    ),
)
