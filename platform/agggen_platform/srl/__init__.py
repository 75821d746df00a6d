"""Semantic role labelling by AllenNLP archives, in a separate Python environment.

`source.AllenNLPFrames` is the frame source of ``facts.source=allennlp``. Archives contain pickles: load only archives
that you trust.
"""
