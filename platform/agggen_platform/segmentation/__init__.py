"""The job that segments reference texts into facts: Parquet in, Parquet out, on this machine or a Ray cluster.

    from agggen_platform.segmentation.job import SegmentConfig, segment

    report = segment("prepared/e2e", "s3://corpora/e2e-facts", SegmentConfig())

A job is identified by its fingerprint (inputs, segmenter, alignment), with which the names of its parts end. The README
describes the output ("Segmentation job"), `sharded` how it is written; ``agggen.load_dataset`` reads it.
"""
