"""Errors of starting or updating an endpoint."""

from agggen.errors import AggGenError


class DeployError(AggGenError):
    """The replicas of a bundle do not start."""

    exit_code = 3


class PortError(AggGenError):
    """A port that the endpoint needs is taken."""

    exit_code = 5


class CapacityError(AggGenError):
    """The cluster has too few CPUs or GPUs for the endpoint, or another application is at its address."""

    exit_code = 6
