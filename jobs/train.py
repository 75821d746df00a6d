"""Trains a model: ``agggen train`` for ``ray job submit`` (README.md)."""

import sys

from agggen_platform.cli.main import main

if __name__ == "__main__":
    main(["train", *sys.argv[1:]])
