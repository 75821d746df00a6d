"""Gives a version of a model an alias, after checks, or with --rollback gives it back to the version before.

    ray job submit --working-dir . --runtime-env-json '{"env_vars": {"PYTHONPATH": "platform"}}' -- \
        python jobs/promote.py agggen@candidate --metric plain/bleu --tolerance 0.2

These are ``agggen models promote`` and ``agggen models rollback``; python jobs/promote.py --rollback agggen.
"""

import sys

from agggen_platform.cli.main import main

if __name__ == "__main__":
    arguments = sys.argv[1:]
    back = "--rollback" in arguments
    main(
        ["models", "rollback" if back else "promote", *(argument for argument in arguments if argument != "--rollback")]
    )
