"""Regular expressions for the phrases that express the values of E2E's slots.

The phrases were collected from the development sets. They match folded text (``matching.fold``). A space in a phrase
matches spaces and hyphens: ``kid friendly`` also matches "kid-friendly" and the tokenised "kid - friendly"; ``" ?"`` is
an optional space.

A phrase may mean several values, since people use E2E's two vocabularies for prices (cheap, less than £20) and ratings
(low, 1 out of 5) interchangeably; the record determines which value is meant.
"""

import re
from dataclasses import dataclass
from typing import Literal

Reading = Literal["published", "plain"]
"""How phrases are interpreted: ``published`` as in published numbers; ``plain`` as people do (see ``scores``)."""

NAMES = (  # the values of `name` in E2E's meaning representations, to detect texts that name the wrong venue
    *("Alimentum", "Aromi", "Bibimbap House", "Blue Spice", "Browns Cambridge", "Clowns", "Cocum", "Cotto"),
    *("Fitzbillies", "Giraffe", "Green Man", "Loch Fyne", "Midsummer House", "Strada", "Taste of Cambridge"),
    *("The Cambridge Blue", "The Cricketers", "The Dumpling Tree", "The Eagle", "The Golden Curry"),
    *("The Golden Palace", "The Mill", "The Olive Grove", "The Phoenix", "The Plough", "The Punter", "The Rice Boat"),
    *("The Twenty Two", "The Vaults", "The Waterman", "The Wrestlers", "Travellers Rest Beefeater", "Wildwood"),
    "Zizzi",
)
PLACES = (  # the values of `near` in E2E's meaning representations
    *("All Bar One", "Avalon", "Burger King", "Café Adriatic", "Café Brazil", "Café Rouge", "Café Sicilia"),
    *("Clare Hall", "Crowne Plaza Hotel", "Express by Holiday Inn", "Rainbow Vegetarian Café"),
    *("Raja Indian Cuisine", "Ranch", "The Bakers", "The Portland Arms", "The Rice Boat", "The Six Bells"),
    *("The Sorrento", "Yippee Noodle Bar"),
)


@dataclass(frozen=True, slots=True)
class Pattern:
    """Phrases with the same meaning."""

    slot: str
    values: tuple[str, ...]
    """The possible meanings: the record's value if it is among them, otherwise the first; without one, the phrases are
    ignored."""
    regex: re.Pattern[str]
    vague: bool = False  # whether the phrases are ignored if the text has a clearer phrase for the slot
    reading: Reading | None = None  # the reading to which the phrases belong; None: both
    cue: str = ""  # a substring of every phrase: texts without it are skipped


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

_FAMILY = "(?:famil(?:y|ies)|child(?:ren)?|kid(?:s|dies)?|toddlers?)(?: ?' ?s?)?"
_FRIENDLY = (
    "(?:friendly|friend(?:s|liness)?|oriented|orientated|centred|centered|focused|safe|suitable|accessible|welcoming|"
    "approved|appropriate|accommodating|geared|based|recommended|amenities|facilities)"
)
_ADJECTIVES = (
    "(?:(?:all|the|whole|entire|your|any|young|small|big|every|both|noisy|their|my|couples and|friends and|adults and|"
    "(?:guests|diners|people|customers|those) with) )"
)
_PLACE = (
    "(?:restaurant|pub|coffee shop|place|venue|establishment|eatery|atmosphere|environment|setting|dining|area|cafe|"
    "spot)"
)
_WELCOMES = (
    "(?:welcom(?:e|es|ing)|accept(?:s|ing)?|allow(?:s|ing)?|permit(?:s|ting)?|accommodat(?:e|es|ing)|admit(?:s|ting)?|"
    "(?:caters?|catering)(?: (?:to|for|towards?))?|friendly (?:to|for|towards?|with)|open (?:to|for)|"
    "(?:good|great|perfect|ideal|fun|nice|suitable|suited|appropriate|excellent|fine|best|recommended|conducive|geared|"
    "aimed|designed|fit|place|venue|shop|restaurant|pub|choice|facilities|option|spot|enough|go|atmosphere|environment)"
    " (?:for|to|towards?|at)|(?:bring|take)(?:ing)?|bringing|taking|for)"
)
_WELCOME = "(?:welcom\\w+|allowed|permitted|accepted|invited|ok|okay)"
_NOT = (
    "(?:not|no|non|none|never|nor|without|unfriendly|unsuitable|inappropriate|cannot|"
    "(?:is|are|do|does|was|were|would|should|ca|wo) ?n ?' ?t|(?:is|are|do|does)nt)"
)
_FILLERS = (
    "(?:a|an|the|very|really|particularly|especially|considered|being|be|to|so|too|that|all|at|however|overly|exactly|"
    "quite|necessarily|regarded|deemed|classed|rated|known|as|for|best|most|also|your|it|actually|looking|place|room|good|"
    "great|suitable|customers|people|somewhere|recommended|currently|advised|generally)"
)

_PUBLISHED_YES = (
    f"{_FAMILY} (?:friendly|oriented|orientated)",
    "(?:welcomes?|accepts?|allows?|cater for|friendly (?:for|with)|conducive for|for) "
    f"(?:(?:all|both|young|diners with) )?{_FAMILY}",
    f"{_FAMILY} are (?:\\w+ )?welcome",
    f"{_FAMILY} are allowed",
    "(?:bring|welcomes?) the whole family",
    "family place",
)
_YES = (
    f"{_FAMILY} (?:and \\w+ )?{_FRIENDLY}",
    f"friendly famil(?:y|ies)(?: {_PLACE})?",
    f"{_WELCOMES} {_ADJECTIVES}{{0,3}}{_FAMILY}",
    "(?:whole|entire|all the) family",
    f"{_FAMILY} (?:(?:is|are|and \\w+ are) )?(?:(?:very|always|also|both|all|most|more than) ){{0,2}}{_WELCOME}",
    f"family {_PLACE}",
    "(?:for|of|to) all ages",
)
_PUBLISHED_NO = (
    f"(?:not|no|non|isn ?' ?t|is n ?' ?t)(?: \\w+){{0,2}} {_FAMILY} (?:friendly|oriented|orientated|friend)",
    f"(?:not|no) (?:(?:really )?(?:friendly|suitable|good|welcome) )?(?:(?:for|to|with) )?{_FAMILY}",
    f"{_FAMILY} (?:are not|are ?n ?' ?t) (?:welcome|allowed)",
    f"{_FAMILY} unfriendly",
    "adults? only|only for adults?|adult establish\\w*",
)
_NO = (
    *(f"{_NOT} (?:{_FILLERS} ){{0,5}}(?:{yes})" for yes in _YES),
    f"{_NOT} (?:(?:for|to|towards?|of|friendly|with|noisy|any|a|the|your|young|small) ){{0,3}}{_FAMILY}"
    "(?: (?:allowed|permitted|welcome))?",
    f"{_FAMILY} (?:are |is )?{_NOT} (?:\\w+ ){{0,2}}(?:{_WELCOME}|bring|catered|recommended|advised)",
    f"{_FAMILY} (?:are |is )?(?:un|non )(?:friendly|welcome)",
    f"{_FAMILY} (?:are |is )?(?:prohibited|forbidden|banned|unwelcome|excluded|unfriendly)",
    f"(?:leave|keep|leaving) {_ADJECTIVES}{{0,2}}{_FAMILY} (?:at home|away|out)",
    "(?:child|kid)s? ?(?:less|free)",
    "adults?(?: ?' ?s)? only|only (?:for )?adults?|adult establish\\w*",
)
_FOR_ADULTS = (
    f"adults? (?:\\w+ )?(?:{_PLACE}|establish\\w*|orient\\w*|focus\\w*|geared|friendly|themed|audience|crowd|clients|"
    "clientele|customers|guests|patrons?)",
    "(?:for|towards?|to) (?:an )?adults?",
)

FAMILY_FRIENDLY = (
    phrases("familyFriendly", ("yes",), *_PUBLISHED_YES),
    phrases("familyFriendly", ("no",), *_PUBLISHED_NO, reading="published"),
    phrases("familyFriendly", ("yes",), *_YES, reading="plain"),
    phrases("familyFriendly", ("no",), *_NO, reading="plain"),
    phrases("familyFriendly", ("no",), *_FOR_ADULTS, vague=True, reading="plain"),
)
