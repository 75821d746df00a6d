"""Semantic role labelling with AllenNLP archives, in a separate Python environment.

`source.AllenNLPFrames` implements the setting ``facts.source=allennlp``. Archives contain pickles, which can execute
code: load only archives that you trust.
"""
