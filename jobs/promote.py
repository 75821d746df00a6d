"""Checks a version of a model and gives it an alias, or with --rollback moves the alias back.

    ray job submit --working-dir . --runtime-env-json '{"env_vars": {"PYTHONPATH": "platform"}}' -- \
        python jobs/promote.py agggen@candidate --metric plain/bleu --tolerance 0.2

Runs ``agggen models promote``; ``python jobs/promote.py --rollback agggen`` runs ``agggen models rollback agggen``.
"""

import sys

from agggen_platform.cli.main import main

if __name__ == "__main__":
    arguments = sys.argv[1:]
    command = "rollback" if "--rollback" in arguments else "promote"
    main(["models", command, *(argument for argument in arguments if argument != "--rollback")])
