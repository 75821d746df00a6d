"""A small semantic role tagger of our own: who did what to whom, for each verb of a sentence.

Two layers of LSTM over words, affixes and shapes, trained on PropBank EWT (CC BY-SA 4.0) by `agggen srl train`. The
shipped weights lie in ``agggen/facts/tagger_model``; `agggen.facts.embedded` makes a frame source of them.
"""
