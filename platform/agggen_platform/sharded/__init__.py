"""Jobs that process an input in shards: the common part of `segmentation` and `bulk`.

`shards` divides files into shards (consecutive rows), `worker` processes one shard and commits its output, `driver`
runs all shards in actors of Ray Data or in this process, `output` manages the folder of a job.

A worker writes a shard's output atomically and then commits it by writing a small file, called its note. A killed job
therefore resumes without losing or duplicating a row.
"""
