"""Tokenisation with character offsets, linearisation of records, vocabulary with copying."""

from __future__ import annotations

from agggen.text.linearise import ROLE_OBJECT as ROLE_OBJECT
from agggen.text.linearise import ROLE_PREDICATE as ROLE_PREDICATE
from agggen.text.linearise import ROLE_SPECIAL as ROLE_SPECIAL
from agggen.text.linearise import ROLE_SUBJECT as ROLE_SUBJECT
from agggen.text.linearise import SourceTokens as SourceTokens
from agggen.text.linearise import entity_words as entity_words
from agggen.text.linearise import linearise as linearise
from agggen.text.linearise import predicate_words as predicate_words
from agggen.text.tokenise import JOINER as JOINER
from agggen.text.tokenise import Token as Token
from agggen.text.tokenise import detokenise as detokenise
from agggen.text.tokenise import detokenise_with_offsets as detokenise_with_offsets
from agggen.text.tokenise import tokenise as tokenise
from agggen.text.vocabulary import EncodedSource as EncodedSource
from agggen.text.vocabulary import EncodedTarget as EncodedTarget
from agggen.text.vocabulary import Vocabulary as Vocabulary
