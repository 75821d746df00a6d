"""Phrases for ``priceRange`` and ``customerRating``: nouns with adjectives of degree, and numbers."""

from functools import partial

from agggen.verification.e2e.patterns import Pattern, phrases

_rated = partial(phrases, "customerRating")
_priced = partial(phrases, "priceRange")

# --- adjectives of degree with a noun --------------------------------------------------------------------------------

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
