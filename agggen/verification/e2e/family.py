"""Phrases for the slot ``familyFriendly``."""

from __future__ import annotations

from agggen.verification.e2e.patterns import phrases

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
