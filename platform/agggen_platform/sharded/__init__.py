"""Jobs that process an input in shards: the common code of `segmentation` and `bulk`.

`shards` divides files into shards (consecutive rows), `worker` processes one shard, `driver` runs all shards in actors
of Ray Data or in this process, `output` manages the output folder of a job.

A worker writes the output file of a shard (its part) atomically, and then commits it by a marker file in ``.work/``.
A restarted job processes only uncommitted shards, so each row is written exactly once. ``manifest.json``, written last,
marks the output complete.
"""
