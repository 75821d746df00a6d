"""Follows a registry alias: when the alias moves, deploys its new bundle if the bundle passes its self-test."""

from dataclasses import replace

from agggen.errors import AggGenError, BundleError, ConfigError
from agggen_platform.registry import Registry, is_model_address, parse_address
from agggen_platform.registry.address import SCHEME, ModelAddress
from agggen_platform.serving.config import ServeConfig
from agggen_platform.serving.deploy import Endpoint, Say, Stop
from agggen_platform.serving.errors import DeployError
from agggen_platform.serving.target import check_target, find_target


class Follower:
    """Deploys the bundle of an alias whenever the alias moves."""

    def __init__(self, config: ServeConfig, endpoint: Endpoint, say: Say) -> None:
        self._address = check_followed(config)
        self._config, self._endpoint, self._say = config, endpoint, say
        self._refused_address: str | None = None  # the address of a version that failed its self-test
        self._reported_failure = ""

    def check(self, stop: Stop = lambda: False) -> bool:
        """Deploys the alias's bundle if the alias has moved; returns whether a bundle was deployed.

        After a failure, which is reported once, the previous bundle stays in service.
        """
        try:
            deployed, failure = self._update(stop), ""
        except AggGenError as error:
            deployed, failure = False, f"{error}; the previous bundle stays in service"
        if failure and failure != self._reported_failure:
            self._say(failure)
        self._reported_failure = failure
        return deployed

    def _update(self, stop: Stop) -> bool:
        address, served = f"{SCHEME}{Registry().version(self._address)}", self._endpoint.target
        if address == self._refused_address or (served is not None and address == served.display_address):
            return False
        try:
            target = find_target(replace(self._config, bundle=address))
            check_target(target)  # before anything changes on the cluster
            if not self._reported_failure:  # not for a retry after a reported failure
                self._say(f"{self._config.bundle} is {address} now")
            self._endpoint.deploy(target, stop)
        except (BundleError, DeployError):  # other errors may be transient
            self._refused_address = address
            raise
        self._refused_address = None
        self._say(f"serving {address} ({target.fingerprint[:12]})")
        return True


def check_followed(config: ServeConfig) -> ModelAddress:
    """The alias to follow; raises ConfigError if `config.bundle` is not an alias, or the bundle is pinned."""
    if not is_model_address(config.bundle) or not (address := parse_address(config.bundle)).alias:
        raise ConfigError(f"--follow needs a registry alias, like models:/agggen@champion; not {config.bundle}")
    if config.fingerprint is not None or config.shown_as is not None:
        raise ConfigError("--follow serves every version that the alias names: remove fingerprint and shown_as")
    return address
