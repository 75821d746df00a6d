"""A training job: from a configuration to a bundle, in this process or on the workers of a Ray cluster.

`job` is the entry point. `prepared` writes the training examples for all workers, `keeper` writes checkpoints to a
store, `events` passes training events from the workers to the job, `on_ray` runs `agggen.run.fit` on Ray Train.
"""
