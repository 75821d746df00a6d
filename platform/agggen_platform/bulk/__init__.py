"""The job that generates texts for millions of records: Parquet, JSON lines or CSV in, Parquet or JSON lines out.

    from agggen_platform.bulk.job import generate
    from agggen_platform.bulk.model import bulk_config, open_model

    model = open_model("models:/agggen@champion")
    report = generate(model, "s3://corpora/catalogue.jsonl", "s3://texts/catalogue", bulk_config(model, ["n_best=3"]))

A job is identified by its fingerprint (of input, bundle, critic, inference, n_best, complete, unique, format), which is
part of its output file names. Output: README, "Bulk generation". Shards, retries and commits: `sharded`.
"""
