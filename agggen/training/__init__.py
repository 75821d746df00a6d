"""Training: a plain Transformer, then the joint model from its weights (paper sections 3.3 and 4.3).

`batches` batches examples, `loop` trains one stage, `checkpoints` saves and restores its state, `callbacks` and
`events` report its progress.
"""
