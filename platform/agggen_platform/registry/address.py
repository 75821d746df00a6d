"""Addresses of models, ``models:/NAME/VERSION`` and ``models:/NAME@ALIAS``, and valid names and aliases."""

import re
from dataclasses import dataclass

from agggen.errors import AggGenError

SCHEME = "models:/"
CHAMPION = "champion"  # the alias of the version in use
CANDIDATE = "candidate"  # the alias of the version that was registered last

NAME = re.compile(r"\w[\w.\-]*")  # valid names; MLflow allows more characters
_ALIAS = re.compile(r"(?!v\d+$|latest$)[a-z][a-z0-9_\-]{0,62}", re.ASCII)


class RegistryError(AggGenError):
    """A version or alias does not exist, or the registry cannot be reached or refuses a change."""

    exit_code = 8


@dataclass(frozen=True, slots=True)
class ModelAddress:
    """A version of a registered model, by its number or by an alias; one of the two is empty."""

    name: str
    version: str = ""
    alias: str = ""

    def __str__(self) -> str:
        return f"{SCHEME}{self.name}@{self.alias}" if self.alias else f"{SCHEME}{self.name}/{self.version}"


def is_model_address(address: str) -> bool:
    return address.startswith("models:")


def parse_address(address: str) -> ModelAddress:
    """Parses an address, with or without ``models:/``; raises RegistryError if it is invalid."""
    text = address.removeprefix(SCHEME)
    name, separator, alias = text.partition("@")
    if separator:
        return ModelAddress(check_name(name), alias=check_alias(alias))
    name, separator, version = text.partition("/")
    if not separator or not re.fullmatch(r"[1-9][0-9]*", version):
        raise RegistryError(f"{address!r} is not a version of a model: give models:/NAME/VERSION or models:/NAME@ALIAS")
    return ModelAddress(check_name(name), version=version)


def check_name(name: str) -> str:
    """Returns `name`; raises RegistryError if it does not match `NAME`."""
    if not NAME.fullmatch(name):
        raise RegistryError(f"a model's name consists of letters, digits, '_', '-', '.', as in agggen-2; not {name!r}")
    return name


def check_alias(alias: str) -> str:
    """Returns `alias`; raises RegistryError if it is not a lower-case word, or if MLflow reserves it."""
    if not _ALIAS.fullmatch(alias):
        raise RegistryError(
            "an alias is a lower-case word such as champion (letters, digits, '_', '-'; at most 63), and neither "
            f"'latest' nor a version such as 'v2'; not {alias!r}"
        )
    return alias
