"""Writes texts for millions of records: ``agggen bulk`` for ``ray job submit`` (README.md)."""

import sys

from agggen_platform.cli.main import main

if __name__ == "__main__":
    main(["bulk", *sys.argv[1:]])
