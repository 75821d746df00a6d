"""Scores a bundle on a split and writes a report: ``agggen evaluate`` as a script for ``ray job submit``.

    ray job submit --working-dir . --runtime-env-json '{"env_vars": {"PYTHONPATH": "platform"}}' -- \
        python jobs/evaluate.py models:/agggen@candidate --corpus elements --split test
"""

import sys

from agggen_platform.cli.main import main

if __name__ == "__main__":
    main(["evaluate", *sys.argv[1:]])
