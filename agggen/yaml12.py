"""YAML with the scalars of YAML 1.2: ``1e-3`` is a number; ``no``, ``1:30`` and ``2020-01-01`` are strings.

PyYAML follows YAML 1.1, in which ``1e-3`` is a string, ``no`` is false, ``1:30`` is 90 and ``2020-01-01`` is a date.
"""

import re
from typing import Any

import yaml

from agggen.errors import ConfigError


class _Loader(yaml.SafeLoader):
    pass


_DIGIT_STARTS = list("-+.0123456789")
_Loader.yaml_implicit_resolvers = {}
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"(?:null|Null|NULL|~|)$"), ["n", "N", "~", ""])
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"(?:[tT]rue|TRUE|[fF]alse|FALSE)$"), list("tTfF"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"[-+]?(?:0|[1-9][0-9_]*)$"), _DIGIT_STARTS)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"(?:[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan)$"),
    _DIGIT_STARTS,
)


def compose(text: str, label: str) -> yaml.Node | None:
    """The syntax tree of a document; None if it is empty. Raises ConfigError with `label`, line and column."""
    try:
        return yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        raise ConfigError(f"{label}{line}: not valid YAML ({problem})") from error
    except RecursionError as error:
        raise ConfigError(f"{label}: the YAML is nested too deeply") from error


def construct(node: yaml.Node, label: str) -> Any:
    """The value of a node of the tree. Raises ConfigError with `label` for tags that are not plain data."""
    try:
        return _Loader("").construct_document(node)
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{label}: {getattr(error, 'problem', None) or error}") from error


def is_null(node: yaml.Node) -> bool:
    return node.tag == "tag:yaml.org,2002:null"


def is_number(node: yaml.Node) -> bool:
    """Whether the node is an unquoted number."""
    return node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
