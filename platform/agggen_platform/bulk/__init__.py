"""The job that writes texts for records by the million: Parquet, JSON lines or CSV in, Parquet or JSON lines out.

    from agggen_platform.bulk.job import generate
    from agggen_platform.bulk.model import bulk_config, open_model

    model = open_model("models:/agggen@champion")
    report = generate(model, "s3://corpora/catalogue.jsonl", "s3://texts/catalogue", bulk_config(model, ["n_best=3"]))

``OUT/manifest.json``, written last, says that the output is whole: it names every part with its rows, bytes and
SHA-256. Beside it lie

    texts/000000-JOB.parquet, ...   one row a text, in the order of the input (``rows.text_schema``); or .jsonl
    rejects/000000-JOB.jsonl, ...   file, line, id and reason of what got no text, of the parts that have any
    report.json                     what the run log gets too
    .work/                          notes on shards; while the job goes on, copies of input

The parts are the result: workers write each once, under its final name, and the driver reads none of them. A job is
known by its fingerprint JOB (input, bundle, inference, n_best, complete, unique, format). Run again it finds the shards
that are done and does the rest; killed anywhere, each record is in the output exactly once.
"""
