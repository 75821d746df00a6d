"""PostgreSQL, an S3 server and MLflow on one machine without containers, as processes that start and end together.

    python -m infra.stack [up]               # until Ctrl-C; `source .stack/env` in another shell
    python -m infra.stack run -- COMMAND     # for as long as COMMAND runs, with its exit status
    python -m infra.stack down

Everything listens on 127.0.0.1. Data, passwords and logs are in one folder (``.stack``) and survive a restart.
``agggen doctor`` says whether the parts answer.
"""
