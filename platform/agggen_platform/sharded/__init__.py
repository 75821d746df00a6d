"""Jobs that process an input in shards: the common part of `segmentation` and `bulk`.

`shards` divides files into shards (consecutive rows), `worker` processes one shard, `driver` runs all shards in actors
of Ray Data or in this process, `output` manages the folder of a job.

A worker writes a shard's part atomically under its final name, and then commits it by writing a small file in
``.work/``, called its note; the driver reads no part. A killed job therefore resumes with the unfinished shards, and
each row is written exactly once. ``manifest.json``, written last, marks the output complete.
"""
