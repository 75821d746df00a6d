"""Trains a model: ``agggen train`` as a script for ``ray job submit``.

    ray job submit --working-dir . --runtime-env-json '{"env_vars": {"PYTHONPATH": "platform"}}' -- \
        python jobs/train.py webnlg cluster.workers=4 storage.url=s3://models/runs
"""

import sys

from agggen_platform.cli.main import main

if __name__ == "__main__":
    main(["train", *sys.argv[1:]])
