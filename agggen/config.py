"""Typed configuration from nested dataclasses, a YAML preset and dotted overrides.

    config = load_config(RunConfig, "webnlg", ["model.width=128", "training.seed=2"])
    resolved(config)     # {"model": {"width": 128, ...}, ...}: plain JSON, stored in the bundle
    config_hash(config)  # 12 hexadecimal digits, for logs

A preset may have ``extends: NAME`` (another preset, or a YAML file in the same folder), whose values it overrides.
Later overrides take precedence over earlier ones. Every key must exist and every value must have the type of its field;
only an integer for a float and an unquoted number for a string are converted. Scalars follow YAML 1.2: ``1e-3`` is a
number; ``no``, ``1:30`` and ``2020-01-01`` are strings (in PyYAML's YAML 1.1: a string, false, 90 and a date).
"""

import dataclasses
import difflib
import hashlib
import json
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import TypeAdapter, ValidationError

from agggen.errors import ConfigError, hint

T = TypeVar("T")
Scalar = str | int | float | bool | None

PRESETS = "agggen.presets"
_FILE_SUFFIXES = (".yaml", ".yml", ".json")


class _Loader(yaml.SafeLoader):
    """Reads the scalars of YAML 1.2."""


_DIGIT_STARTS = "-+.0123456789"
_FLOAT = r"(?:[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan)$"
_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first_characters in (
    ("null", r"(?:null|Null|NULL|~|)$", ["n", "N", "~", ""]),
    ("bool", r"(?:[tT]rue|TRUE|[fF]alse|FALSE)$", "tTfF"),
    ("int", r"[-+]?(?:0|[1-9][0-9_]*)$", _DIGIT_STARTS),
    ("float", _FLOAT, _DIGIT_STARTS),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), list(_first_characters))


def load_config(
    cls: type[T],
    preset: str | Path | None = None,
    overrides: Sequence[str] = (),
    presets_package: str = PRESETS,
    defaults: Sequence[str] = (),
) -> T:
    """An instance of the dataclass `cls` from a preset (a name, or the path of a YAML or JSON file) and overrides.

    `defaults` are overrides of lower precedence than the preset. Raises ConfigError if a preset or key is unknown, a
    value is invalid or has the wrong type, the YAML is invalid, or a required value is not set.
    """
    settings = _Settings(cls)
    for default in defaults:
        settings.read_override(default)
    if preset is not None:
        settings.read_preset(preset, presets_package)
    for override in overrides:
        settings.read_override(override)
    try:
        # Pydantic's strict mode accepts a list for a tuple, and a string for a path, only in JSON input.
        return TypeAdapter(cls).validate_json(json.dumps(settings.values, default=str), strict=True)
    except ValidationError as error:
        problems = [settings.explain(detail) for detail in error.errors(include_url=False)]
        raise ConfigError("\n".join(dict.fromkeys(problems))) from error


def preset_names(presets_package: str = PRESETS) -> list[str]:
    """The presets that can be loaded by name."""
    names = (entry.name for entry in resources.files(presets_package).iterdir())
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


def resolved(config: Any) -> dict[str, Any]:
    """The complete configuration as plain JSON types; ``load_config`` reads it back from a ``.json`` file."""
    return typing.cast(dict[str, Any], TypeAdapter(type(config)).dump_python(config, mode="json"))


def config_hash(config: Any) -> str:
    """12 hexadecimal digits of the SHA-256 of the resolved configuration's canonical JSON (sorted keys, no spaces)."""
    canonical = json.dumps(resolved(config), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def flatten(config: Any) -> dict[str, Scalar]:
    """The values by dotted key: ``{"model.width": 128, ...}``; lists and empty mappings are JSON strings."""
    return {
        key: json.dumps(value, ensure_ascii=False) if isinstance(value, list | Mapping) else value
        for key, value in _leaves(resolved(config))
    }


class _Settings:
    """The values of the dataclass `cls` as nested plain data, initially its defaults, and the source of each value."""

    def __init__(self, cls: type) -> None:
        self.cls = cls
        self.values: dict[str, Any] = {}
        for field in dataclasses.fields(cls):
            factory = field.default_factory
            value = field.default if factory is dataclasses.MISSING else factory()
            if field.init and value is not dataclasses.MISSING:
                self.values[field.name] = TypeAdapter(_fields(cls)[field.name]).dump_python(value, mode="json")
        self.sources: dict[tuple[str, ...], str] = {}

    def read_preset(
        self, preset: str | Path, package: str, base: Traversable | Path | None = None, extended_by: Sequence[str] = ()
    ) -> None:
        """Reads the presets that `preset` extends, then `preset`; a path is relative to the folder `base`."""
        is_file = isinstance(preset, Path) or preset.endswith(_FILE_SUFFIXES)
        if is_file:
            path: Traversable | Path = base.joinpath(str(preset)) if base else Path(preset)
            folder: Traversable | Path | None = path.parent if isinstance(path, Path) else base
            label = str(path)
        else:
            folder = resources.files(package)
            path, label = folder.joinpath(f"{preset}.yaml"), f"preset {preset}"
            if not path.is_file():
                advice = f"{hint(str(preset), preset_names(package))} (or give the path of a .yaml file)"
                raise ConfigError(f"no preset is called {str(preset)!r}; {advice}")
        identity = str(path.resolve()) if isinstance(path, Path) else label
        if identity in extended_by:
            raise ConfigError(f"presets extend each other in a cycle: {' -> '.join((*extended_by, identity))}")
        try:
            root = _compose(path.read_text(encoding="utf-8"), label)
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise ConfigError(f"cannot read {label}: {reason}") from error
        if root is None:
            return
        if not isinstance(root, yaml.MappingNode):
            raise ConfigError(f"{label} must consist of 'key: value' lines")
        extends = [value for key, value in root.value if key.value == "extends"]
        root.value = [(key, value) for key, value in root.value if key.value != "extends"]
        for position, node in enumerate(extends):
            if not isinstance(node, yaml.ScalarNode) or not node.value or position:
                raise ConfigError(f"{label}, line {node.start_mark.line + 1}: 'extends' takes the name of one preset")
            self.read_preset(node.value, package, folder, (*extended_by, identity))
        self._set((), root, self.cls, lambda node: f"{label}, line {node.start_mark.line + 1}")

    def read_override(self, override: str) -> None:
        dotted, equals, text = override.partition("=")
        source = f"override {override!r}"
        if not equals or not dotted.strip():
            raise ConfigError(f"{source} is not of the form key=value, like model.width=128")
        annotation: Any = self.cls
        key = tuple(dotted.strip().split("."))
        for name in key:
            section = _section(annotation)
            if section is None or name not in _fields(section):
                raise self._unknown_key(key, source)
            annotation = _fields(section)[name]
        node = _compose(text, source)
        if node is None:
            advice = f"write {dotted}=null for none, or {dotted}='\"\"' for an empty string"
            raise ConfigError(f"{source} has no value; {advice}")
        self._set(key, node, annotation, lambda _: source)

    def _set(
        self, key: tuple[str, ...], node: yaml.Node, annotation: Any, source_of: Callable[[yaml.Node], str]
    ) -> None:
        """Sets `key`, of type `annotation`, to the value of `node`; in a section, sets only the keys in `node`."""
        section, source = _section(annotation), source_of(node)
        self.sources[key] = source
        if isinstance(node, yaml.MappingNode) and section:
            self._section_values(key)
            fields, seen = _fields(section), set[str]()
            for key_node, value_node in node.value:
                name = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
                if name not in fields:
                    raise self._unknown_key((*key, name), source_of(key_node))
                if name in seen:
                    raise ConfigError(f"{source_of(key_node)}: {'.'.join((*key, name))!r} is set a second time")
                seen.add(name)
                self._set((*key, name), value_node, fields[name], source_of)
        elif section is None or (node.tag == "tag:yaml.org,2002:null" and annotation is not section):
            self._section_values(key[:-1])[key[-1]] = _plain_value(node, annotation, source)
        else:
            raise ConfigError(
                f"{source}: {'.'.join(key)!r} is a section with the keys {', '.join(_fields(section))}; "
                f"it cannot be set to {getattr(node, 'value', None)!r:.60}"
            )

    def _section_values(self, key: tuple[str, ...]) -> dict[str, Any]:
        """The values of a section, which is created if it is absent or null."""
        values = self.values
        for name in key:
            if not isinstance(values.get(name), dict):
                values[name] = {}
            values = values[name]
        return values

    def _unknown_key(self, key: tuple[str, ...], source: str) -> ConfigError:
        known_keys, dotted = list(_dotted_keys(self.cls)), ".".join(key)
        leaf = key[-1]
        same_leaf = [known_key for known_key in known_keys if known_key.rpartition(".")[2] == leaf]
        similar = difflib.get_close_matches(dotted, same_leaf, 1, 0.0)
        similar = similar or difflib.get_close_matches(dotted, known_keys, 1)
        if not similar:  # a misspelt key of another section
            by_leaf = {known_key.rpartition(".")[2]: known_key for known_key in reversed(known_keys)}
            similar = [by_leaf[match] for match in difflib.get_close_matches(leaf, by_leaf, 1)]
        advice = f"did you mean {similar[0]!r}?" if similar else f"the keys are {', '.join(_fields(self.cls))}"
        return ConfigError(f"unknown key {dotted!r} in {source}; {advice}")

    def explain(self, detail: Mapping[str, Any]) -> str:
        """The message for an error of pydantic: dotted key, expected type, value and source of the value."""
        annotation: Any = self.cls
        key: tuple[str, ...] = ()
        for part in detail["loc"]:
            section = _section(annotation)
            if section is None:
                break
            key, annotation = (*key, str(part)), _fields(section)[str(part)]
        dotted = ".".join(key)
        if detail["type"] == "missing":
            return f"{dotted!r} is required: set it in a preset, or give {dotted}=VALUE"
        source = f" ({self.sources[key]})" if key in self.sources else ""
        if detail["type"] == "value_error":
            message = str(detail["ctx"]["error"])
            return f"{dotted}: {message}{source}" if dotted else message
        expected = detail["msg"].replace("Input should be", "must be")
        return f"{dotted!r} {expected}, not {detail['input']!r:.60}{source}"


def _compose(text: str, label: str) -> yaml.Node | None:
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


def _plain_value(node: yaml.Node, annotation: Any, source: str) -> Any:
    """The value of a node; ConfigError with `source` for tags that are not plain data."""
    is_string = annotation is str or (_is_union(annotation) and set(get_args(annotation)) == {str, types.NoneType})
    if is_string and node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float"):
        return node.value  # as written: the string run=007 keeps its zeros
    try:
        return _Loader("").construct_document(node)
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{source}: {getattr(error, 'problem', None) or error}") from error


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, types.UnionType)


def _section(annotation: Any) -> type | None:
    """The dataclass ``X`` of the annotation ``X`` or ``X | None``; None for other annotations."""
    if _is_union(annotation):
        types_without_none = [argument for argument in get_args(annotation) if argument is not types.NoneType]
        return _section(types_without_none[0]) if len(types_without_none) == 1 else None
    return annotation if isinstance(annotation, type) and dataclasses.is_dataclass(annotation) else None


def _fields(section: type) -> dict[str, Any]:
    hints = typing.get_type_hints(section)
    return {field.name: hints[field.name] for field in dataclasses.fields(section) if field.init}


def _dotted_keys(section: type, prefix: str = "") -> Iterator[str]:
    for name, annotation in _fields(section).items():
        yield prefix + name
        if subsection := _section(annotation):
            yield from _dotted_keys(subsection, f"{prefix}{name}.")


def overrides_of(config: Any) -> list[str]:
    """Overrides from which `load_config` reproduces `config`."""
    return as_overrides(resolved(config))


def as_overrides(settings: Mapping[str, Any]) -> list[str]:
    """Nested settings as overrides: ``{"model": {"width": 64}}`` becomes ``["model.width=64"]``; paths are strings."""
    return [f"{key}={json.dumps(value, default=str)}" for key, value in _leaves(settings)]


def _leaves(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested settings by dotted key; an empty mapping is a value."""
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
