"""The job that cuts reference texts into facts: Parquet in, Parquet out, on this machine or a Ray cluster.

    from agggen_platform.segmentation.job import SegmentConfig, segment

    report = segment("prepared/e2e", "s3://corpora/e2e-facts", SegmentConfig())

``OUT/manifest.json``, written last, says that the output is whole: it names every part with its rows, bytes and
SHA-256. Beside it lie

    SPLIT/000000-JOB.parquet, ...   prepared files (``agggen.corpora.prepared``) with facts, in the order of the input
    rejects/000000-JOB.jsonl, ...   file, row (``line``), id and reason of what got no facts, of the parts that have any
    .work/                          notes on finished shards

``agggen.load_dataset`` reads the folder. The parts are the result: workers write each once, under its final name, and
the driver reads none of them. A job is known by its fingerprint JOB (inputs, segmenter, alignment). Run again it finds
the shards that are done and does the rest; killed anywhere, each record is in the output exactly once.
"""
