"""A small semantic role tagger: two LSTM layers over words, affixes and shapes, trained on PropBank EWT (CC BY-SA 4.0).

The weights are in ``agggen/facts/tagger_model``; `agggen.facts.tagger.store` reads them.
"""
