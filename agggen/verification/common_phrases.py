"""English sentences for predicates that many schemas have, such as schema.org and Wikidata.

They replace the plain clauses of predicates unknown from training. Each sentence suits any subject: `country` has no
sentence, since a dish comes from a country but a city lies in a country.
"""

from __future__ import annotations

import re
from functools import cache

_SENTENCES = {
    "{subject} was born in {object}.": "birth place|place of birth|birth date|date of birth|birth year|year of birth",
    "{subject} died in {object}.": "death place|place of death|death date|date of death|death year|year of death",
    "{subject} died of {object}.": "cause of death|death cause",
    "{subject} is buried in {object}.": "burial place|place of burial",
    "{subject} studied at {object}.": "alma mater|alumni of|educated at",
    "{subject} retired in {object}.": "date of retirement|retirement date",
    "{subject} is located in {object}.": "located in|location",
    "{subject} has its headquarters in {object}.": "headquarter|headquarters|headquarters location",
    "{subject} is affiliated with {object}.": "affiliation|affiliations",
    "{subject} is a member of {object}.": "member of",
    "{subject} is a subsidiary of {object}.": "parent company|parent organization",
    "{subject} is the capital of {object}.": "capital of",
    "{subject} is the author of {object}.": "author of",
    "{subject} is operated by {object}.": "operator",
    "{subject} is owned by {object}.": "owner",
    "{subject} was founded by {object}.": "founder|founders",
    "{subject} was founded in {object}.": "date founded|foundation date|founding date|founding year|inception",
    "{subject} is also known as {object}.": "alias|aliases|also known as|alternate name|alternative name|"
    "alternative names|other name|other names",
    "{subject} is named after {object}.": "eponym|named after",
    "{subject} was written by {object}.": "author|authors|screenwriter|screenwriters|writer|writers",
    "{subject} is published by {object}.": "publisher",
    "{subject} was published in {object}.": "date published|publication date|publication year",
    "{subject} was released in {object}.": "date released|release date|release year",
    "{subject} was composed by {object}.": "composer",
    "The music of {subject} was composed by {object}.": "music composer",
    "The lyrics of {subject} are by {object}.": "lyrics",
    "The cinematography of {subject} is by {object}.": "cinematography",
    "The editing of {subject} is by {object}.": "editing",
    "{subject} was performed by {object}.": "performer",
    "{subject} was narrated by {object}.": "narrator",
    "{subject} was distributed by {object}.": "distributor",
    "{subject} was illustrated by {object}.": "illustrator",
    "{subject} was translated by {object}.": "translator",
    "{subject} was created by {object}.": "creator|creators",
    "{subject} was produced by {object}.": "producer|producers",
    "{subject} was developed by {object}.": "developer|developers",
    "{subject} was designed by {object}.": "architect|architects|designer|designers",
    "{subject} was manufactured by {object}.": "manufacturer",
    "{subject} was built by {object}.": "builder",
    "{subject} was discovered by {object}.": "discoverer",
    "{subject} was discovered in {object}.": "date discovered|discovery date",
    "{subject} was invented by {object}.": "inventor",
    "{subject} was launched in {object}.": "launch date",
    "{subject} was launched from {object}.": "launch site",
    "{subject} was opened in {object}.": "date opened|opening date",
    "{subject} was completed in {object}.": "completion date|date completed",
    "The construction of {subject} began in {object}.": "building start date|construction start date",
    "{subject} stars {object}.": "cast member|starring",
    "{subject} contains {object}.": "ingredient|ingredients",
    "The full name of {subject} is {object}.": "fullname",
}
_PLACE_OR_TIME = re.compile(r"(?![a-z])(?!\d)|[\d-]+$|.*\b\d{4}$")
"""A name, a year or a date."""


@cache
def common_phrases() -> dict[str, str]:
    """The sentences by `phrase_key`."""
    return {
        " ".join(sorted(name.split())): sentence for sentence, names in _SENTENCES.items() for name in names.split("|")
    }


def common_phrase(key: str, value: str = "") -> str | None:
    """The sentence of a `phrase_key`; None if there is none, or if the sentence needs a place or time ("is located in")
    and the value is neither ("online", "7 Main Street").
    """
    sentence = common_phrases().get(key)
    if sentence and sentence.endswith(" in {object}.") and not _PLACE_OR_TIME.match(value):
        return None
    return sentence
