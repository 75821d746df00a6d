"""Semantic role labelling: genuine AllenNLP archives in an environment of their own, and training of our own tagger.

``source.AllenNLPFrames`` is the frame source of ``facts.source=allennlp``. An archive holds pickles: load only those
you trust.
"""
