"""A training job: from a configuration to a bundle, in this process or on the workers of a Ray cluster.

`job` is the whole of it and what others call. `prepared` turns records into examples once for all workers, `keeper`
keeps checkpoints in a store, `events` is what training reports and who acts on it, and `on_ray` runs the library's loop
on Ray Train.
"""
