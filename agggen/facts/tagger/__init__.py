"""A small semantic role tagger for the verbs of a sentence.

Two LSTM layers over words, affixes and shapes, trained on PropBank EWT (CC BY-SA 4.0) by `agggen srl train`. The
included weights are in ``agggen/facts/tagger_model``; `agggen.facts.embedded` is a frame source with them.
"""
