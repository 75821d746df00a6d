"""The job that segments reference texts into facts: Parquet in, Parquet out, on this machine or a Ray cluster.

    from agggen_platform.segmentation.job import SegmentConfig, segment

    report = segment("prepared/e2e", "s3://corpora/e2e-facts", SegmentConfig())

A job is identified by its fingerprint (of inputs, segmenter, alignment), which is part of its output file names.
Output: README, "Segmentation job"; ``agggen.load_dataset`` reads it. Shards, retries and commits: `sharded`.
"""
