"""Writes texts for millions of records: ``agggen bulk`` as a script for ``ray job submit``.

    ray job submit --working-dir . --runtime-env-json '{"env_vars": {"PYTHONPATH": "platform"}}' -- \
        python jobs/generate.py models:/agggen@champion s3://corpora/catalogue.jsonl --out s3://texts/catalogue
"""

import sys

from agggen_platform.cli.main import main

if __name__ == "__main__":
    main(["bulk", *sys.argv[1:]])
