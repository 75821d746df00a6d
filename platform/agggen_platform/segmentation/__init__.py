"""The job that segments reference texts into facts: Parquet in, Parquet out, on this machine or a Ray cluster.

    from agggen_platform.segmentation.job import SegmentConfig, segment

    report = segment("prepared/e2e", "s3://corpora/e2e-facts", SegmentConfig())

``OUT/manifest.json``, written last, marks the output complete: it lists every part with its rows, bytes and SHA-256.
The other files of OUT:

    SPLIT/000000-JOB.parquet, ...   prepared files (``agggen.corpora.prepared``) with facts, in the order of the input
    rejects/000000-JOB.jsonl, ...   file, row (``line``), id and reason of each row or text without facts
    .work/                          notes on attempts and finished shards

``agggen.load_dataset`` reads the folder. The parts are the result: workers write each once, under its final name, and
the driver reads none of them. A job is identified by its fingerprint JOB (inputs, segmenter, alignment). Started again,
a killed job resumes with the unfinished shards and writes each record exactly once.
"""
