"""Segments the texts of a corpus into facts: ``agggen segment`` for ``ray job submit`` (README.md)."""

import sys

from agggen_platform.cli.main import main

if __name__ == "__main__":
    main(["segment", *sys.argv[1:]])
