"""The job that writes texts for millions of records: Parquet, JSON lines or CSV in, Parquet or JSON lines out.

    from agggen_platform.bulk.job import generate
    from agggen_platform.bulk.model import bulk_config, open_model

    model = open_model("models:/agggen@champion")
    report = generate(model, "s3://corpora/catalogue.jsonl", "s3://texts/catalogue", bulk_config(model, ["n_best=3"]))

``OUT/manifest.json``, written last, marks the output complete: it lists every part with its rows, bytes and SHA-256.
The other files of OUT:

    texts/000000-JOB.parquet, ...   one row per text, in the order of the input (``rows.text_schema``); or .jsonl
    rejects/000000-JOB.jsonl, ...   file, line, id and reason of each record without a text
    report.json                     totals of the job, and the speed of its last run
    .work/                          files that record attempts and finished shards; during the job, copies of input

Workers write the parts under their final names. A job is identified by its fingerprint JOB (input, bundle, critic,
inference, n_best, complete, unique, format). Starting an interrupted job again processes only the unfinished shards;
each record is written exactly once, even if processes are killed.
"""
