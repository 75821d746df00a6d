"""A training job: from a configuration to a bundle, in this process or on the workers of a Ray cluster.

`job` is the whole of it and what others call. `data` reads the records and names the run, `prepared` turns them into
examples once for all workers, `keeper` keeps checkpoints in a store, `events` is what training reports and who acts on
it, `stopping` handles Ctrl-C, and `on_ray` runs the library's loop on Ray Train.
"""
