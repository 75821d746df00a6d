"""The job that cuts reference texts into facts: Parquet in, Parquet out, on this machine or a Ray cluster.

    from agggen_platform.segmentation.job import SegmentConfig, segment

    report = segment("prepared/e2e", "s3://corpora/e2e-facts", SegmentConfig())

``OUT/manifest.json``, written last, says that the output is whole. Beside it lie

    SPLIT.parquet               the prepared corpus (``agggen.corpora.prepared``) with facts: what training reads
    facts/SPLIT/00000.parquet   the same row by row, with offsets and errors (``rows.segmented_schema``), a file a shard
    rejects.jsonl               file, row (``line``), id and reason of what could not be segmented

A job is known by its fingerprint (inputs, segmenter, alignment). Run again it finds the shards that are done and does
the rest; killed anywhere, nothing is lost or doubled, because a shard's file has a name that follows from the job, is
written under another name first, and holds each of its input rows once.
"""
