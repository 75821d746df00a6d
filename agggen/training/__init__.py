"""Training: a plain Transformer, then the joint model from its weights (paper sections 3.3 and 4.3, METHOD 5).

`batches` batches examples, `schedules` sets learning rates, `loop` is the loop of both stages, `checkpoints` saves and
restores its state, `callbacks` and `events` report its progress.
"""
