"""Gives a version of a model an alias, after checks: ``agggen models promote`` as a script for ``ray job submit``.

    ray job submit --working-dir . --runtime-env-json '{"env_vars": {"PYTHONPATH": "platform"}}' -- \
        python jobs/promote.py agggen@candidate --metric plain/bleu --tolerance 0.2
"""

import sys

from agggen_platform.cli.main import main

if __name__ == "__main__":
    main(["models", "promote", *sys.argv[1:]])
