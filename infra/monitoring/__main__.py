"""``python -m infra.monitoring``: see `infra.monitoring.build`."""

import sys

from infra.monitoring.build import main

sys.exit(main(sys.argv[1:]))
