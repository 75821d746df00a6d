"""Jobs over the rows of Parquet files: the common part of `segmentation` and `bulk`.

`shards` divides files into shards (consecutive rows), `worker` processes one shard and commits its output, `driver`
runs all shards in actors of Ray Data or in this process, `output` manages the folder of a job.

A worker writes a shard's output under a temporary name and commits it with a note. A job that was killed anywhere
therefore resumes without losing or duplicating a row.
"""
