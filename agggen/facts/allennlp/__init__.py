"""Semantic role frames from genuine AllenNLP archives, run in an environment of AllenNLP's own.

``source.AllenNLPFrames`` is the frame source; ``install.set_up`` makes the environment. An archive holds pickles: load
only those you trust.
"""
