"""Semantic role labelling by AllenNLP archives, which run in an environment of their own.

`source.AllenNLPFrames` is the frame source of ``facts.source=allennlp``. An archive holds pickles: load only
those you trust.
"""
