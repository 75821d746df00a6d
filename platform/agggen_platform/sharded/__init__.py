"""What jobs over the rows of Parquet files share, whatever they do with a row: `segmentation` and `bulk` stand on it.

`shards` cuts files into runs of rows, `worker` has one shard done and its file committed, `driver` has all of them done
by actors of Ray Data or in process, `output` keeps the folder that belongs to one job.

A worker writes a shard's file under another name first, and the file says of which job and rows it is. So a job that
was killed anywhere finds what is done, does the rest, and no row is lost or doubled.
"""
