"""Regular expressions for the phrases that express the values of E2E's slots.

The phrases were collected from the development sets. They match text in lower case without accents. A space in a
phrase matches spaces and hyphens: ``kid friendly`` also matches "kid-friendly" and the tokenised "kid - friendly";
``" ?"`` is an optional space.

A phrase may mean several values, since people use E2E's two vocabularies for prices (cheap, less than £20) and ratings
(low, 1 out of 5) interchangeably; the record determines which value is meant.
"""

import re
from dataclasses import dataclass
from functools import partial
from typing import Literal

Reading = Literal["published", "plain"]
"""How phrases are interpreted: ``published`` as in published numbers; ``plain`` as people do (see ``e2e``)."""

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

# --- ratings and prices: nouns with adjectives of degree, and numbers ------------------------------------------------

_rated = partial(phrases, "customerRating")
_priced = partial(phrases, "priceRange")

_RATERS = (
    "(?:(?:customers?|costumers?|consumers?|users?|guests?|diners?|clients?|visitors?|patrons?|public|people)"
    "(?: ?' ?s?)?)"
)
_RATING_NOUN = (
    "(?:ratings?|rated|rates?|ranked|ranks?|rankings?|reviews?|reviewed|scores?|scored|feedback|satisfaction|approval)"
)
_PUBLISHED_RATING_NOUN = "(?:ratings?|rated|rates?(?= (?:it|as|average|high|low))|reviews?)"
_BEFORE_RATING_NOUN = f"(?:{_RATERS}|overall|average|quality|food|service|star|satisfaction|family|its|very|quite)"
_AFTER_RATING_NOUN = (
    f"(?:by|{_RATERS}|the|its|is|are|was|were|of|as|at|it|them|this|being|be|been|has|have|received|here|a|an|only|just|very|"
    "quite|pretty|fairly|rather|somewhat|extremely|relatively|considered|also|in|to|which|that|from)"
)
_PRICE_NOUN = "(?:pric(?:e|es|ed|ing)|price ?(?:ranges?|brackets?)|costs?|costing)"
_PUBLISHED_PRICE_NOUN = "(?:prices?|price range|priced)"
_AFTER_PRICE_NOUN = (
    "(?:range[sd]?|ranging|bracket|is|are|was|were|of|as|at|being|be|in|the|a|an|very|quite|pretty|fairly|rather|also|"
    "somewhat|slightly|extremely|relatively|bit|little|considered|here|tends?|from|its|on|which|that|remains?|to)"
)
_NO_PRICE = r"(?! (?:in )?(?:pric\w+|cost\w*|end\b|range|expens\w+|cheap\w*))"
_NO_RATING = rf"(?! (?:{_BEFORE_RATING_NOUN} ){{0,2}}{_RATING_NOUN})"


def _rating(adjective: str, noun: str = _RATING_NOUN) -> str:
    """Phrases such as "low customer rating", "the rating is low", "low in customer rating"."""
    return (
        f"{adjective}(?: {_BEFORE_RATING_NOUN}){{0,3}} {noun}|"
        f"{noun} ?[:=]? ?(?:{_AFTER_RATING_NOUN} ){{0,5}}{adjective}{_NO_PRICE}|"
        f"{adjective} (?:in|for|on) (?:{_BEFORE_RATING_NOUN} ){{0,2}}{noun}"
    )


def _price(adjective: str, noun: str = _PRICE_NOUN) -> str:
    """Phrases such as "low price", "low in price", "prices are low", "priced in the low range"."""
    return (
        f"{adjective}(?: (?:in|on|food|menu|meal|average|overall)){{0,2}} {noun}(?: range)?|"
        f"{adjective} (?:range[sd]?|bracket|budget)(?: (?:pric\\w+|cost))?|"
        f"{noun} ?[:=]? ?(?:{_AFTER_PRICE_NOUN} ){{0,5}}{adjective}(?: (?:side|end|range))?{_NO_RATING}"
    )


# --- ratings --------------------------------------------------------------------------------------------------------

_FIGURES = {"1": "(?:1|one)", "2": "(?:2|two)", "3": "(?:3|three)", "4": "(?:4|four)", "5": "(?:5|five)"}
_OUT_OF_FIVE = "(?:5|five)(?: stars?)?"


def _stars(number: str) -> tuple[Pattern, ...]:
    """N out of 5 and N stars, in digits or words. The longer phrase of "1 out of 5 stars" hides "5 stars"."""
    figure = _FIGURES[number]
    values = (f"{number} out of 5", *{"1": ("low",), "3": ("average",), "5": ("high",)}.get(number, ()))
    return (
        _rated(values, f"{figure} (?:stars? )?(?:out )?of {_OUT_OF_FIVE}", f"{figure} stars?"),
        _rated(
            values,
            f"{figure} ?(?:stars? )?(?:(?:out )?of(?: a)?(?: possible)?|out|/|our of) ?{_OUT_OF_FIVE}",
            f"{_RATING_NOUN} (?:(?:{_AFTER_RATING_NOUN}|number) ){{0,3}}{figure}"
            "(?! ?(?:out|of|/|stars?|our|to|pounds?|-) ?)",
            reading="plain",
        ),
    )


_ONE_STAR, _THREE_STARS, _FIVE_STARS = ("low", "1 out of 5"), ("average", "3 out of 5"), ("high", "5 out of 5")
_LOW = "(?:low|lower|lowest|lowly|poor|poorly|bad|badly|terrible|awful|unfavou?rable|negative)"
_AVERAGE = "(?:average|averagely|moderate|moderately|mediocre|medium|mid|middling|mid range|middle|ok|okay)"
_HIGH = (
    "(?:high|highly|higher|highest|excellent|excellently|outstanding|superb|exceptional|perfect|top|best|great|fantastic|"
    "amazing)"
)
_NOT_HIGH = rf"(?:not|n ?' ?t)(?: \w+){{0,2}} {_HIGH}"

CUSTOMER_RATING = (
    *(pattern for number in _FIGURES for pattern in _stars(number)),
    _rated(_ONE_STAR, _rating("(?:low|poor|poorly|bad)", _PUBLISHED_RATING_NOUN)),
    _rated(_THREE_STARS, _rating("average(?:ly)?", _PUBLISHED_RATING_NOUN)),
    _rated(_FIVE_STARS, _rating("(?:high|highly|excellent|great)", _PUBLISHED_RATING_NOUN)),
    _rated(_ONE_STAR, _rating(_LOW), reading="plain"),
    _rated(_THREE_STARS, _rating(_AVERAGE), reading="plain"),
    _rated(_FIVE_STARS, _rating(_HIGH), reading="plain"),
    _rated((*_THREE_STARS, *_FIVE_STARS), _rating("good", _PUBLISHED_RATING_NOUN), vague=True),
    _rated((*_THREE_STARS, *_FIVE_STARS), _rating("(?:decent|fair|fairly|good)"), vague=True, reading="plain"),
    _rated((*_FIVE_STARS, *_THREE_STARS), _rating("(?:above|over) average"), vague=True, reading="plain"),
    _rated((*_ONE_STAR, *_THREE_STARS), _rating("(?:below|under|less than) average"), vague=True, reading="plain"),
    _rated((*_ONE_STAR, *_THREE_STARS), _rating(_NOT_HIGH), vague=True, reading="plain"),
    _rated(_FIVE_STARS, f"{_HIGH} (?:quality|standards?)", vague=True),
    _rated(_THREE_STARS, "average quality", vague=True),
    _rated(_ONE_STAR, f"{_LOW} (?:quality|standards?)", vague=True),
    _rated(_FIVE_STARS, "highly recommended", f"well {_RATING_NOUN}", vague=True, reading="plain"),
)

# --- prices ---------------------------------------------------------------------------------------------------------

_CURRENCY_BEFORE = r"(?:gbp|eur|usd|£|€|\$|l)?"
_CURRENCY_AFTER = r"(?: ?(?:(?:british )?pounds?|euros?|dollars?|quid|gbp|eur|£|€|sterling|bucks))?"
_NO_OTHER_UNIT = "(?! ?(?:minutes?|mins?|miles?|metres?|meters?|km|years?|people|seats?|%))"


def _amount(figures: str) -> str:
    return rf"{_CURRENCY_BEFORE} ?(?:{figures})(?:\.00)?{_CURRENCY_AFTER}{_NO_OTHER_UNIT}"


_TWENTY, _TWENTY_FIVE, _THIRTY = _amount("20|twenty"), _amount("25|twenty five"), _amount("30|thirty")
# the values that a phrase may mean, the most likely one first
_CHEAP, _EXPENSIVE = ("cheap", "less than £20"), ("high", "more than £30")
_MODERATE = ("moderate", "£20-25", "less than £20")
_MIDDLE = ("moderate", "£20-25")
_NOT_VERY = "(?:not|n ?' ?t)(?: (?:the|a|an|very|too|so|that|particularly|really|all)){0,2} "

_UNDER_20, _FROM_20_TO_25, _OVER_30 = ("less than £20", "cheap"), ("£20-25", "moderate"), ("more than £30", "high")

PRICE_RANGE = (
    _priced(_UNDER_20, f"(?:less than|under) {_amount('20')}"),
    _priced(
        _UNDER_20,
        "(?:less(?:er)? th(?:an|at)|lower than|cheaper than|under|below|beneath|up to|no more than|not more than|"
        f"at most|within|max(?:imum)?(?: of)?)(?: the)? {_TWENTY}",
        f"{_TWENTY} ?(?:(?:or|and) (?:less|under|below|lower|cheaper)|max(?:imum)?)",
        f"< ?{_TWENTY}",
        reading="plain",
    ),
    _priced(_FROM_20_TO_25, f"£? ?20(?: | ?to ?)25{_NO_OTHER_UNIT}"),
    _priced(_FROM_20_TO_25, f"{_TWENTY}(?: ?(?:to|and|through|/|~|until|or) ?| ){_TWENTY_FIVE}", reading="plain"),
    _priced(_OVER_30, f"(?:more than|over) {_amount('30')}"),
    _priced(
        _OVER_30,
        "(?:(?:more|greater|higher) th[ae]n|over|above|upwards? of|exceed(?:s|ing)?|in excess of|at least|"
        f"start(?:s|ing)? (?:at|from)|begin(?:s|ning)? (?:at|from)|from|minimum(?: of)?)(?: the)? {_THIRTY}"
        "(?: (?:and|or) (?:up|more|over|above))?",
        f"{_THIRTY} ?(?:(?:or|and) (?:more|over|up|upwards?|above|higher)|plus|minimum|price minimum|\\+)",
        f"> ?{_THIRTY}",
        reading="plain",
    ),
    _priced(_CHEAP, "cheap(?:ly|er)?(?: (?:price[ds]?|pricing)(?: range)?)?", "inexpensive(?:ly)?"),
    _priced(_CHEAP, _price("(?:low|cheap)", _PUBLISHED_PRICE_NOUN)),
    _priced(_CHEAP, _price("(?:low|lower|lowest|cheap|cheaper|budget|bargain)(?! than)"), reading="plain"),
    _priced(_CHEAP, _price("(?:lower than|less than|below|under) (?:the )?average"), reading="plain"),
    _priced(("cheap", *_MODERATE), "affordabl[ey](?: pric\\w+)?", vague=True),
    _priced((*_MIDDLE, *_CHEAP), "reasonable pric\\w+", vague=True),
    _priced(("cheap", *_MODERATE), "reasonabl[ey](?: pric\\w+)?", vague=True, reading="plain"),
    _priced(_MODERATE, _price("(?:moderate|moderately)", _PUBLISHED_PRICE_NOUN)),
    _priced(_MIDDLE, _price("average", _PUBLISHED_PRICE_NOUN), reading="published"),
    _priced(_MODERATE, _price("(?:moderate|moderately|mid(?:dle)?|medium|mid ?range|mid level)"), reading="plain"),
    _priced(_MODERATE, f"(?:mid(?:dle)? ?(?:priced?|ranged?)|moderately ranged){_NO_RATING}", reading="plain"),
    _priced(_MIDDLE, _price("(?:average|averagely|decent|fair|fairly)"), vague=True, reading="plain"),
    _priced(_EXPENSIVE, "expensive(?:ly)?"),
    _priced(_EXPENSIVE, _price("(?:high|expensive)", _PUBLISHED_PRICE_NOUN)),
    _priced(_EXPENSIVE, "price?y|pricier", "costly", "high end", "upscale|upmarket", reading="plain"),
    _priced(_EXPENSIVE, _price("(?:high|highly|higher|highest|exclusive|premium)"), reading="plain"),
    _priced(_EXPENSIVE, _price("(?:higher than|more than|above|over) (?:the )?average"), reading="plain"),
    _priced((*_EXPENSIVE, *_MIDDLE), "(?:moderately|fairly|somewhat) expensive", reading="plain"),
    _priced((*_EXPENSIVE, *_MIDDLE), f"{_NOT_VERY}cheap\\w*", vague=True, reading="plain"),
    _priced((*_CHEAP, *_MIDDLE), f"{_NOT_VERY}expensive", vague=True, reading="plain"),
)

# --- the published reading only ---------------------------------------------------------------------------------------

_DEGREES = (("low", _CHEAP, _ONE_STAR), ("average", _MODERATE, _THREE_STARS), ("high", _EXPENSIVE, _FIVE_STARS))
NOUN_BEFORE_ADJECTIVE = tuple(
    phrases(slot, values, f"{noun_and_gap} {adjective}", reading="published", cue=adjective)
    for adjective, price, rating in _DEGREES
    for slot, values, noun_and_gap in (
        ("priceRange", price, r"price(?:s| range)?(?: \w+){0,3}?"),
        ("customerRating", rating, r"(?:ratings?|rated|reviews?)(?: \w+){0,2}?"),
    )
)
"""A noun and an adjective shortly after it, even if it belongs to another noun: "a high price range and an average
customer rating" also means an average price."""

PATTERNS = (*EAT_TYPE, *FOOD, *AREA, *CUSTOMER_RATING, *PRICE_RANGE, *FAMILY_FRIENDLY, *NOUN_BEFORE_ADJECTIVE)
"""The patterns of all slots but ``name`` and ``near``."""
