"""Rules of English grammar for generated facts; they are not part of the strict check, since human texts break them."""

import re
from collections.abc import Collection, Sequence

from agggen.records import Triple
from agggen.text.linearise import entity_words
from agggen.verification.clauses import MONTH, PREPOSITIONS
from agggen.verification.lexicon import Lexicon

_ENGLISH = frozenset(("the", "is", "of"))  # the training texts are English if these are ordinary words of the lexicon
_MIN_ARTICLE_SHARE = 0.9  # names with "the" in at least this share of training mentions need it after a preposition
_ARTICLE = r"(?:[Tt]he|[Aa]n|a)"
_AUXILIARY = "(?:is|are|was|were|has|had|have)"
_PREPOSITION = "(?<!-)(?:of|in|on|at|by|to|from|for|with|into|near)"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?(?!\d)"
_BROKEN = re.compile(
    "|".join(
        (
            # words that cannot precede a comma or end a sentence
            rf"\b{_ARTICLE}\s*[,;.!?)](?!\w)",
            rf"\b{_PREPOSITION}\s*,",
            rf"\b(?:and|or|which|where|whose|who|than|its|their|with|as|of|{_AUXILIARY})\s*[.!?](?:\s|$)",
            # words that cannot be adjacent
            rf"\b{_ARTICLE}\s+(?:the|an?|{_PREPOSITION}|{_AUXILIARY}|and|or|which|who|whose|that)(?![\w.-])",
            rf"\b{_AUXILIARY}\s+(?:and|or|which|who|is|are|was|were|has|have)\b",
            r"(?:^|[.!?]\s)(?:The\s)?Name\s+and\s+(?:is|was|has|had)\b",
            # "in March 30"
            rf"\b[Ii]n (?:the )?(?:{MONTH} (?:the )?{_DAY}|{_DAY} (?:of )?{MONTH})\b",
            # "at In Ulm": a preposition before a name that begins with "In"
            rf"\b{_PREPOSITION} In\b",
            # wrong number of noun or verb: "one of the groups are", "the leader is Ann and Bob."
            r"\b[Oo]ne of (?:the|its) (?:(?!(?:that|which|who|where)\b)[a-z]+ )+(?:are|were)\b",
            r"\b(?:[Tt]he|[Ii]ts|whose) (?:(?!(?:and|or|main|of)\b)[a-z]+ ){0,2}(?![a-z]*s\b)[a-z]+ "
            r"(?:(?:of|in) (?:the )?Name )?(?:is|was) (?:the )?Name and (?:the )?Name\b(?=[.,]|$| wh)",
            # "spoken in Ulm spoken in Oz"
            r"\b([a-z]+ed|born|built|made|spoken) in (?:the )?(?:Name|US|U\.S\.|UK) \1\b",
            rf"\b{_PREPOSITION}\s+of\b",
            # ordinal numbers
            r"\b\d*(?:(?<!1)(?:1(?:nd|rd|th)|2(?:st|rd|th)|3(?:st|nd|th))|1[123](?:st|nd|rd)|[04-9](?:st|nd|rd))\b",
            # punctuation
            r",\s*[,;.]|(?<!\.)\.\s+\.|\(\s*\)|[$£€]{2}|/[.,]",
        )
    )
)
_NOUN_PHRASE = re.compile(r"(?:The|Its|His|Her|Their) (?:[a-z]+ ){0,2}(?!consists )[a-z]{3,}s of\b")
"""The beginning of a sentence in which a word that ends in -s is a noun, not a verb: "The main ingredients of"."""
_BRACKETS = re.compile(r"\([^()]*\)")
_SENTENCE = re.compile(
    r"(?:(?:^|(?<=[.!?] ))(?=(?:The|Its|His|Her|Their)\b)"
    r"|(?:^|(?<=(?:[a-z]{4}|Name)[.!?] )|(?<=[\d.]\d[.!?] ))(?=[^\W_a-z]))"
    r"(?=(.*?(?:[a-z]{4}|[\d.]\d|Name)\)?[.!?])(?:\s|$))"
)
"""A sentence (group 1); after a possible abbreviation, it begins with an article or a possessive."""
_VERBS = (
    "are|be|born|began|became|broadcast|built|came|can|chose|come|compete|could|deploy|did|eat|enjoy|find|"
    "fought|gave|go|govern|had|have|head|held|include|inhabit|left|led|lie|live|look|made|make|manage|may|"
    "must|no|not|number(?! of)|offer|operate|originate|own|play|provide|publish|ran|range|sat|saw|serve|speak|took|"
    "try|use|visit|want|went|were|will|won|would|wrote"
)
_VERB = re.compile(
    rf"(?<![\w-])(?:{_VERBS}|No|Not|Has|Offers|Serves|[a-z]+(?:s|ed)|[A-Z][a-z]+ed)(?![\w-])|(?:'s|n't)\b"
)
"""A word that may be a verb or participle, or the "not" of a short sentence ("Not family friendly.")."""
_PARTICIPLE = re.compile("[a-z]+ed|be|born|built|held|led|made")
"""A word that is seldom the verb of a clause without an auxiliary: "cooked", "born"."""
_A_OR_AN = re.compile(r"\b(an?|An)\s+([A-Za-z][a-z]+)")
_CONSONANT = re.compile(r"uni|eu|one|once|us[aeiu]|ut[aei]|ub|uk|ura", re.IGNORECASE)
"""The beginnings of words with an initial vowel letter but an initial consonant sound."""
_MUTE_H = re.compile(r"hour|hono|hones|heir|herb|hist|hotel", re.IGNORECASE)
"""The beginnings of words that follow either "a" or "an"."""
_OPENER = re.compile(r"(?:It|Its|He|His|She|Her|They|Their|The)\b")  # begins a sentence, unless it begins a name
_NOT_ABBREVIATED = re.compile(r"(?:(?<!Corp)(?<!Prof)(?<!Univ)(?<=[^\W\d_]{4})|\d)[.!?]$")
"""A sentence end, not an abbreviation: it follows a number or a word of at least four letters."""
_FINITE_VERB = (
    rf"\b(?:{_AUXILIARY}|plays?|comes?|serves?|contains?|includes?|originates?|belongs|manages|stars|died|graduated|"
    r"retired)\b"
)
_FINITE = re.compile(_FINITE_VERB)
_NO_CONJUNCTION = r"(?:(?!\b(?:and|but|so|if|as|when|while|because|since|though|although|that|wh[a-z]+)\b).)*?"
_SPLICE = re.compile(
    rf"(?:The )?(?:Name|It|He|She|They)\b{_NO_CONJUNCTION}{_FINITE_VERB}{_NO_CONJUNCTION}"
    rf", (?:[Tt]he )?(?:Name|[Ii]t|[Hh]e|[Ss]he|[Tt]hey) {_FINITE_VERB}"
)
"""A comma splice (two main clauses joined only by a comma) at the beginning of a sentence."""
_BORDER = re.compile(
    rf"[,;:().!?\u2013]|(?<=Name) (?={_OPENER.pattern})|(?<![\w-])(?i:and|or|but|nor|which|who|whom|whose|where|that|"
    r"what|when|while|whilst|whereas|as|if|because|since|though|although|so|than|after|before|how|why)(?![\w-])"
)
_COORDINATING = frozenset(("and", "or", "but", "nor", "so"))
_CLAUSE_VERB = re.compile(
    r"(?<![\w'-])(?:is|are|was|were|has|can(?= (?:also )?be)|plays|comes|serves|contains|includes|originates|"
    r"belongs|manages|lies)(?![\w-])"
)
"""A verb; a correct clause contains only one match."""
_STRANDED = re.compile(rf"{_PREPOSITION} *(?:$|{_AUXILIARY}\b)")
"""A stranded preposition, which indicates a relative clause: "the country Ann comes from is". """
_RELATIVE_ONLY = re.compile(r"(?:The )?Name, (?:which|who|whose|where)\b[^,]*[.!?]$")
"""A sentence that consists of a name and a relative clause: "Ulm, which has a tower." """
_CUT_OFF = re.compile(r"\b[Aa]n?\s+(?:high|low|moderate|large|small)\s*[.!?](?:\s|$)")
"""An adjective without its noun; the adjective may be a value: "It has a high." """
_A_NAME = r"(?:the )?[\"'\u201c]?[A-Z0-9][\w.'/-]*(?: [A-Z0-9][\w.'/-]*)*[\"\u201d]?(?: \([^()]*\))?"
_NO_VERB = rf"(?:(?!{_AUXILIARY}\b)\w+ )+?"
_IDENTITY = rf"^(?:{_A_NAME}'s? |(?:The|Its|His|Her|Their) ){_NO_VERB}(?:of {_A_NAME} )?(?:is|was|are|were) {_A_NAME}"
"""The beginning of a sentence that identifies one name by another: "The mayor of Ulm is Ann"."""
_UNGRAMMATICAL = re.compile(
    "|".join(
        (
            # "The mayor of Ulm is Ann and has a tower.", "The mayor of Ulm is Ann (politician) plays chess."
            rf"{_IDENTITY}(?: and {_AUXILIARY}\b| {_FINITE_VERB})",
            # "The area is 5 and the height of 6."
            rf"{_IDENTITY},? and (?:the|its|an?) {_NO_VERB}of {_A_NAME}\.$",
            # "Ulm's area of Ulm is 5."
            rf"^(?:The [a-z]+|{_A_NAME})'s? {_NO_VERB}of {_A_NAME} {_AUXILIARY}\b",
            # "Ann is a singer and Bob."
            rf"\b(?:is|are|was|were) (?:an?|one of the|the) (?:(?!(?:and|as|or|between|{_PREPOSITION})\b)[a-z]+ )+"
            rf"and {_A_NAME}[.,]",
            # "Ann was born in Ulm and the towers of Oz."
            rf"\b(?:born|died) in {_A_NAME} and the (?!.*\b{_AUXILIARY}\b)",
            # "They play in a league which Ulm are the champions", "which leaders are Ann"
            rf"(?<!in )(?<!of )(?<!to )(?<!at )(?<!on )(?<!for )(?<!from )(?<!by )(?<!with )\bwhich {_A_NAME} "
            r"(?:is|are|was|were|ha(?:s|ve|d) been|won the)\b(?!.*\b(?:of|in|by|from|to|at|for|with|on)[,.])",
            rf"\bwhich (?!is|was)[a-z]+s (?:are|were) {_A_NAME}",
            # "Ann is in a film which stars Bob was made in Oz."
            rf"^{_A_NAME} (?:is|was|has)\b[^,]*?,? which (?:[a-z]+s|was|had) {_A_NAME} {_AUXILIARY}\b",
            # "Ann, born in Ulm."
            rf"^{_A_NAME}, (?:[a-z]+ed|written|born|led|made) (?:as|at|by|in|on) (?:(?!{_AUXILIARY}\b)[^,])*\.$",
        )
    )
)
_SUBORDINATE = re.compile(r",|\b(?:which|who|whose|whom|where|that)\b")
_CONNECTIVE_LAST = re.compile(r"\b(?:and|but|or|which|who|that|it|he|she|they)\W*$", re.IGNORECASE)  # a verb may follow


class Grammar:
    """Checks the grammar of a record's facts. If the training texts of `lexicon` are not English, only rules for names,
    brackets and quotes apply; if they have no `full_stops`, clauses may have any number of verbs.
    """

    def __init__(self, triples: Sequence[Triple], lexicon: Lexicon, full_stops: bool = True) -> None:
        names = {entity_words(name) for triple in triples for name in (triple.subject, triple.object) if name}
        self._names = re.compile(
            "|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in sorted(names, key=len, reverse=True))
        )
        self._names_with_article = [name for name in names if lexicon.articles.get(name, 0.0) >= _MIN_ARTICLE_SHARE]
        self._full_stops = full_stops
        self._english = lexicon.lower >= _ENGLISH
        self._odd_quotes = any((triple.subject + triple.object).count('"') % 2 for triple in triples)  # 6' 2"

    def accepts(self, text: str) -> bool:
        """Whether brackets, quotation marks and articles are right, and neither `_BROKEN` nor `_CUT_OFF` matches."""
        return not (
            text.count("(") != text.count(")")
            or "()" in text
            or (text.count('"') % 2 and not self._odd_quotes)
            or _lacks_article(text, self._names_with_article)
            or (self._english and self._is_broken(text))
        )

    def completes_sentences(self, before: str, fact: str) -> bool:
        """Whether the clauses and sentences that end in the fact are right; `before` is the text before the fact."""
        if not self._english:
            return True
        before = f"{before} ".lstrip()
        if self._full_stops and self._has_two_verbs(before, fact):
            return False
        before, fact = self._mask_names(before), self._mask_names(fact)
        return not any(
            _SPLICE.match(sentence[1]) or _UNGRAMMATICAL.search(sentence[1]) or _lacks_verb(sentence[1])
            for sentence in _SENTENCE.finditer(before + fact)
            if sentence.end(1) > len(before)
        )

    def runs_on(self, before: str, fact: str) -> bool:
        """Whether a fact adds a second verb to the preceding clause: "is led by Ann" after "Ulm is in Oz"."""
        sentence = re.split(r"[.!?]\s+", self._mask_names(before).rstrip())[-1]
        return bool(
            self._english
            and _FINITE.match(self._mask_names(fact.lstrip(" ,")))
            and _FINITE.search(_SUBORDINATE.split(sentence)[0])
            and not _CONNECTIVE_LAST.search(sentence)
        )

    def _mask_names(self, text: str) -> str:
        """The text with "Name" in place of names, and "In Name" if the name begins with "In"."""
        return self._names.sub(lambda name: "In Name" if name[0].startswith("In ") else "Name", text)

    def _has_two_verbs(self, before: str, fact: str) -> bool:
        """Whether a clause that ends in the fact has two verbs: "Ulm lies to the north of Ulm is Oz." """
        before, fact = (  # a name's final full stop is kept, since it may end the sentence
            self._names.sub(lambda name: "Name." if name[0].endswith(".") else "Name", text) for text in (before, fact)
        )
        text = before + fact
        borders = [*_BORDER.finditer(text)]
        starts, ends = [0, *(border.end() for border in borders)], [*(border.start() for border in borders), len(text)]
        has_main_verb = subordinate = False
        for border, start, end in zip([".", *(border[0] for border in borders)], starts, ends, strict=True):
            if border in ".!?":
                has_main_verb = subordinate = False
            subordinate = subordinate or (border.isalpha() and border not in _COORDINATING)
            main_clause_may_continue = subordinate and not has_main_verb  # "The town that has a tower is Ulm."
            n_verbs = len(_CLAUSE_VERB.findall(text, start, end))
            is_new = end > len(before)
            if is_new and n_verbs > 1 + main_clause_may_continue and not _STRANDED.search(text[start:end]):
                return True
            has_main_verb = has_main_verb or n_verbs > subordinate
        return False

    def _is_broken(self, text: str) -> bool:
        """Whether an article does not fit the next word, or `_BROKEN` or `_CUT_OFF` matches."""
        # hides the "a" in names such as "Camino a Oaxaca"
        joined_names = self._names.sub(lambda name: name[0].replace(" ", "_"), text)
        wrong_articles = (_wrong_article(article, word) for article, word in _A_OR_AN.findall(joined_names))
        broken = _CUT_OFF.search(text) or _BROKEN.search(self._mask_names(text))
        return any(wrong_articles) or broken is not None


def _lacks_verb(sentence: str) -> bool:
    """Whether no word of a sentence can be the verb of its main clause."""
    predicate, relative_only = _NOUN_PHRASE.sub("", sentence, count=1), _RELATIVE_ONLY.match(sentence)
    verbs = _VERB.findall(_BRACKETS.sub("", predicate))
    if predicate != sentence or relative_only:  # "The main parts of fish cooked in Ulm.", "Ann, who was born in Ulm."
        verbs = [verb for verb in verbs if not _PARTICIPLE.fullmatch(verb)]
    return len(verbs) < (2 if relative_only else 1)


def _lacks_article(text: str, names: Collection[str]) -> bool:
    """Whether one of the names, which need "the", directly follows a preposition."""
    return any(
        before.rpartition(" ")[2] in PREPOSITIONS and not re.match(r"\w| [A-Z]", after)
        for name in names
        for before, mention, after in [text.partition(f" {name}")]
        if mention
    )


def _wrong_article(article: str, word: str) -> bool:
    """Whether "a" or "an" does not fit the word's initial letters."""
    vowel = word[0].lower() in "aeiou" and not _CONSONANT.match(word)
    return vowel != (article.lower() == "an") and not _MUTE_H.match(word)


def starts_correctly(before: str, fact: str, begins_sentence: bool, names: Collection[str]) -> bool:
    """Whether the first word of a fact is a name, or capitalised if and only if it begins a sentence (unless the text
    begins with a small letter or the sentence follows a possible abbreviation).
    """
    first_word = re.split(r"\W", fact, maxsplit=1)[0]
    if any(name.startswith(first_word) for name in names):
        return True
    if begins_sentence:
        return not (fact[:1].islower() and before[:1].isupper() and _NOT_ABBREVIATED.search(before))
    return _OPENER.match(fact) is None
