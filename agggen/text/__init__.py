"""Tokenisation with character offsets, linearisation of records, and a vocabulary with copying."""

from agggen.text.tokenise import JOINER as JOINER
from agggen.text.tokenise import detokenise as detokenise
from agggen.text.tokenise import detokenise_with_offsets as detokenise_with_offsets
from agggen.text.tokenise import tokenise as tokenise
from agggen.text.vocabulary import EncodedSource as EncodedSource
from agggen.text.vocabulary import Vocabulary as Vocabulary
