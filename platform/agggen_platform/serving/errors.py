"""What can go wrong while an endpoint is started or updated."""

from __future__ import annotations

from agggen.errors import AggGenError


class DeployError(AggGenError):
    """The replicas of a bundle do not start."""

    exit_code = 3


class PortError(AggGenError):
    """A port that the endpoint needs is taken."""

    exit_code = 5


class CapacityError(AggGenError):
    """The cluster has not got what the endpoint needs, or something else in its place."""

    exit_code = 6
