"""``python -m agggen_platform.doctor AREA``: checks one area; see `areas`."""

import json
import sys
from dataclasses import asdict
from importlib import import_module

from agggen_platform.doctor.areas import AREAS
from agggen_platform.doctor.settings import Settings

if __name__ == "__main__":
    check = import_module(f"agggen_platform.doctor.{AREAS[sys.argv[1]]}").check
    print(json.dumps([asdict(finding) for finding in check(Settings(**json.load(sys.stdin)))]))
