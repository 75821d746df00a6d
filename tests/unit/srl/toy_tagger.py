"""A toy language for the role tagger's tests, and a tagger that knows nothing of it yet."""

from __future__ import annotations

import itertools
from typing import Any

import torch

from agggen.facts.tagger.decode import tags_of
from agggen.facts.tagger.features import Features
from agggen.facts.tagger.model import TaggerConfig, TaggerModel
from agggen.facts.tagger.store import RoleTagger
from agggen_platform.srl.tagger.data import Sentence, parse_sentence

SMALL = TaggerConfig(features=(8, 4, 4, 4, 4), hidden=12, role=12, role_hidden=8)


def line(**changes: Any) -> dict[str, Any]:
    """A sentence as the files hold it."""
    return {
        "words": ["Ada", "Lovelace", "can", "write", "programs", "."],
        "xpos": ["NNP", "NNP", "MD", "VB", "NNS", "."],
        "upos": ["PROPN", "PROPN", "AUX", "VERB", "NOUN", "PUNCT"],
        "parse": ["(TOP(S(NP-SBJ*", "*)", "(VP*", "(VP*", "(NP*)))", "*))"],
        "preds": [[3, "write", "write.01"], [4, "program", "program.01"]],
        "frames": [
            ["B-ARG0", "I-ARG0", "B-ARGM-MOD", "B-V", "B-ARG1", "O"],
            ["O", "O", "O", "O", "B-V", "O"],
        ],
    } | changes


def sentences() -> list[Sentence]:
    """A toy corpus: subject, verb, object; twelve nouns and four verbs."""
    nouns = [f"{first}{second}" for first in ("Bol", "Tan", "Mir") for second in ("da", "ko", "ri", "su")]
    found = []
    for (subject, target), verb in itertools.product(
        itertools.islice(itertools.permutations(nouns, 2), 40), ("sees", "hears")
    ):
        found.append(
            parse_sentence(
                {
                    "words": [subject, verb, target, "."],
                    "xpos": ["NNP", "VBZ", "NNP", "."],
                    "upos": ["PROPN", "VERB", "PROPN", "PUNCT"],
                    "parse": ["(TOP(S(NP*)", "(VP*", "(NP*))", "*))"],
                    "preds": [[1, verb, ""]],
                    "frames": [["B-ARG0", "B-V", "B-ARG1", "O"]],
                }
            )
        )
    return found


def untrained(roles: tuple[str, ...] = ("ARG0", "ARG1")) -> RoleTagger:
    torch.manual_seed(0)
    features, _ = Features.count(sentence.words for sentence in sentences())
    return RoleTagger(TaggerModel(SMALL, features.sizes, len(tags_of(roles))), features, roles)
