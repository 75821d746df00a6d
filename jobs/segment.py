"""Segments the reference texts of a corpus into facts: ``agggen segment`` as a script for ``ray job submit``.

    ray job submit --working-dir . --runtime-env-json '{"env_vars": {"PYTHONPATH": "platform"}}' -- \
        python jobs/segment.py s3://corpora/e2e --out s3://corpora/e2e-facts
"""

import sys

from agggen_platform.cli.main import main

if __name__ == "__main__":
    main(["segment", *sys.argv[1:]])
