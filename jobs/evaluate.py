"""Scores a bundle on a split and writes a report: ``agggen evaluate`` for ``ray job submit`` (README.md)."""

import sys

from agggen_platform.cli.main import main

if __name__ == "__main__":
    main(["evaluate", *sys.argv[1:]])
