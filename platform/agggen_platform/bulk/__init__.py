"""The job that writes texts for records by the million: Parquet, JSON lines or CSV in, Parquet or JSON lines out.

    from agggen_platform.bulk.job import generate
    from agggen_platform.bulk.model import bulk_config, open_model

    model = open_model("models:/agggen@champion")
    report = generate(model, "s3://corpora/catalogue.jsonl", "s3://texts/catalogue", bulk_config(model, ["n_best=3"]))

``OUT/manifest.json``, written last, says that the output is whole. Beside it lie

    texts.parquet or texts.jsonl   one row a text, in the order of the input (``rows.text_schema``)
    timings.parquet                row, id and seconds of each record: what differs from run to run
    rejects.jsonl                  file, line, id and reason of what got no text
    report.json                    what the run log gets too
    work/                          while the job goes on: records read from text files, and a file a finished shard

A job is known by its fingerprint (input, bundle, inference, n_best, complete, format). Run again it finds the shards
that are done and does the rest; killed anywhere, each record is in the output exactly once.
"""
