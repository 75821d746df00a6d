"""A training job: from a configuration to a bundle, in this process or on the workers of a Ray cluster.

`job` is the whole of it and what others call. `data` finds the records and names the run, `prepared` turns them into
examples once for all workers, `keeper` keeps checkpoints in a store, `news` is what training tells the job, `stopping`
listens to Ctrl-C, `on_ray` runs the library's loop on Ray Train, and `post` is how its workers talk with the job.
"""
