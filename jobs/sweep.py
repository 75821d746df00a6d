"""Searches the best settings: ``agggen sweep`` as a script for ``ray job submit``.

    ray job submit --working-dir . --runtime-env-json '{"env_vars": {"PYTHONPATH": "platform"}}' -- \
        python jobs/sweep.py webnlg --space predicate-sizes storage.url=s3://models/runs
"""

import sys

from agggen_platform.cli.main import main

if __name__ == "__main__":
    main(["sweep", *sys.argv[1:]])
