"""Training: a plain Transformer first, the joint model from its weights (paper sections 3.3 and 4.3, METHOD 5).

`batches` orders examples, `schedules` sets learning rates, `objectives` are the two losses, `loop` is the only loop,
`checkpoints` saves and restores all of its state, `callbacks` is how others listen. Nothing here knows of Ray or
MLflow.
"""
