"""Searches the best settings: ``agggen sweep`` for ``ray job submit`` (README.md)."""

import sys

from agggen_platform.cli.main import main

if __name__ == "__main__":
    main(["sweep", *sys.argv[1:]])
