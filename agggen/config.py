"""Typed configuration from dataclasses, a YAML preset and dotted overrides.

The dataclasses are nested; each is defined beside what it configures:

    config = load_config(TrainConfig, "webnlg", ["model.width=128", "optimizer.rate=1e-3"])
    resolved(config)     # {"model": {"width": 128, ...}, ...}: plain JSON, stored in the bundle
    config_hash(config)  # 12 hexadecimal digits, for logs

A preset may begin with ``extends: NAME`` (another preset, or a YAML file beside it). The precedence ascends from the
extended preset to the preset to the overrides, from left to right. Every key must exist and every value must have the
type of its field; only integers for floats and unquoted numbers for strings are converted. Scalars follow YAML 1.2
(``1e-3`` is a number, ``no`` is a word).
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
import hashlib
import json
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import TypeAdapter, ValidationError

from agggen.errors import ConfigError
from agggen.yaml12 import compose, construct, is_null, is_number

T = TypeVar("T")
Scalar = str | int | float | bool | None

PRESETS = "agggen.presets"
_FILE_SUFFIXES = (".yaml", ".yml", ".json")


@dataclasses.dataclass(frozen=True, slots=True)
class _Setting:
    """An assignment of a preset or an override, with its source for messages."""

    key: tuple[str, ...]
    value: Any
    source: str


_SECTION = object()  # the value of a setting that only creates a section


def load_config(
    cls: type[T],
    preset: str | Path | None = None,
    overrides: Sequence[str] = (),
    presets_package: str = PRESETS,
    defaults: Sequence[str] = (),
) -> T:
    """An instance of the dataclass `cls` from a preset (a name, or the path of a YAML or JSON file) and overrides.

    Args:
        defaults: overrides of lower precedence than the preset.

    Raises:
        ConfigError: a preset or key is unknown (names the most similar one), a value has the wrong type, the YAML is
            invalid, a required value is not set, or a dataclass raises it in ``__post_init__``.
    """
    settings = [setting for default in defaults for setting in _read_override(cls, default)]
    if preset is not None:
        settings += _read_preset(cls, preset, presets_package, None, ())
    for override in overrides:
        settings += _read_override(cls, override)
    return _build(cls, settings)


def preset_names(presets_package: str = PRESETS) -> list[str]:
    """The presets that can be loaded by name."""
    names = (entry.name for entry in resources.files(presets_package).iterdir())
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


def resolved(config: Any) -> dict[str, Any]:
    """The whole configuration as plain JSON types; ``load_config`` reads it back from a ``.json`` file."""
    return typing.cast(dict[str, Any], TypeAdapter(type(config)).dump_python(config, mode="json"))


def config_hash(config: Any) -> str:
    """12 hexadecimal digits of the SHA-256 of the resolved configuration's canonical JSON (sorted keys, no spaces)."""
    canonical = json.dumps(resolved(config), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def flatten(config: Any) -> dict[str, Scalar]:
    """``{"model.width": 128, ...}``, for a tracking store; lists as JSON text."""

    def walk(value: Any, prefix: str) -> Iterator[tuple[str, Scalar]]:
        if isinstance(value, Mapping) and (value or not prefix):
            for name, inner in value.items():
                yield from walk(inner, f"{prefix}.{name}" if prefix else name)
        elif isinstance(value, list | Mapping):
            yield prefix, json.dumps(value, ensure_ascii=False)
        else:
            yield prefix, value

    return dict(walk(resolved(config), ""))


# --- reading -------------------------------------------------------------------------------------------------------


def _read_preset(
    cls: type, preset: str | Path, package: str, beside: Traversable | Path | None, trail: tuple[str, ...]
) -> list[_Setting]:
    """The settings of a preset after those that it extends. `beside`: the folder for relative paths of `extends`."""
    is_file = isinstance(preset, Path) or preset.endswith(_FILE_SUFFIXES)
    if is_file:
        path: Traversable | Path = beside.joinpath(str(preset)) if beside else Path(preset)
        folder: Traversable | Path | None = path.parent if isinstance(path, Path) else beside
        label = str(path)
    else:
        folder = resources.files(package)
        path, label = folder.joinpath(f"{preset}.yaml"), f"preset {preset}"
        if not path.is_file():
            raise ConfigError(_no_such_preset(str(preset), package))
    identity = str(path.resolve()) if isinstance(path, Path) else label
    if identity in trail:
        raise ConfigError(f"presets extend each other in a circle: {' -> '.join((*trail, identity))}")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(f"cannot read {label}: {reason}") from error
    root = compose(text, label)
    if root is None:
        return []
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError(f"{label} must hold 'key: value' lines")
    settings: list[_Setting] = []
    extends = [value for key, value in root.value if key.value == "extends"]
    root.value = [(key, value) for key, value in root.value if key.value != "extends"]
    for number, node in enumerate(extends):
        if not isinstance(node, yaml.ScalarNode) or not node.value or number:
            raise ConfigError(f"{label}, line {node.start_mark.line + 1}: 'extends' takes the name of one preset")
        settings += _read_preset(cls, node.value, package, folder, (*trail, identity))
    settings += _settings(cls, cls, root, (), lambda node: f"{label}, line {node.start_mark.line + 1}")
    return settings


def _no_such_preset(name: str, package: str) -> str:
    known = preset_names(package)
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}? There are" if near else "there are"
    return f"no preset is called {name!r}; {hint} {', '.join(known) or 'none'} (or give the path of a .yaml file)"


def _read_override(cls: type, override: str) -> Iterator[_Setting]:
    dotted, equals, text = override.partition("=")
    where = f"override {override!r}"
    if not equals or not dotted.strip():
        raise ConfigError(f"{where} is not of the form key=value, like model.width=128")
    annotation: Any = cls
    key: tuple[str, ...] = ()
    for name in dotted.strip().split("."):
        section, key = _section(annotation), (*key, name)
        if section is None or name not in _fields(section):
            raise _unknown_key(cls, ".".join(dotted.strip().split(".")), where)
        annotation = _fields(section)[name]
    node = compose(text, where)
    if node is None:
        raise ConfigError(f"{where} gives no value; write {dotted}=null for none, or {dotted}='\"\"' for an empty text")
    yield from _settings(cls, annotation, node, key, lambda _: where)


def _settings(
    root: type, annotation: Any, node: yaml.Node, key: tuple[str, ...], where: Callable[[yaml.Node], str]
) -> Iterator[_Setting]:
    """The assignments below `node`, the value of `key`, whose type is `annotation`."""
    section = _section(annotation)
    if section is None:
        yield _Setting(key, _value(node, annotation, where(node)), where(node))
    elif isinstance(node, yaml.MappingNode):
        yield _Setting(key, _SECTION, where(node))
        fields, seen = _fields(section), set[str]()
        for key_node, value_node in node.value:
            name = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
            if name not in fields:
                raise _unknown_key(root, ".".join((*key, name)), where(key_node))
            if name in seen:
                raise ConfigError(f"{where(key_node)}: {'.'.join((*key, name))!r} is set a second time")
            seen.add(name)
            yield from _settings(root, fields[name], value_node, (*key, name), where)
    elif is_null(node) and annotation is not section:
        yield _Setting(key, None, where(node))
    else:
        raise ConfigError(
            f"{where(node)}: {'.'.join(key)!r} is a section with the keys {', '.join(_fields(section))}; "
            f"it cannot be set to {getattr(node, 'value', None)!r:.60}"
        )


def _value(node: yaml.Node, annotation: Any, where: str) -> Any:
    wants_text = annotation is str or (_is_union(annotation) and set(get_args(annotation)) == {str, types.NoneType})
    if wants_text and is_number(node):
        return node.value  # run=007 is a name, not a number
    return construct(node, where)


# --- the dataclasses' shape ----------------------------------------------------------------------------------------


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, types.UnionType)


def _section(annotation: Any) -> type | None:
    """The dataclass of `annotation` (``X`` or ``X | None``), if it is one."""
    if _is_union(annotation):
        inner = [argument for argument in get_args(annotation) if argument is not types.NoneType]
        return _section(inner[0]) if len(inner) == 1 else None
    return annotation if isinstance(annotation, type) and dataclasses.is_dataclass(annotation) else None


def _fields(section: type) -> dict[str, Any]:
    hints = typing.get_type_hints(section)
    return {field.name: hints[field.name] for field in dataclasses.fields(section) if field.init}


def _dotted_keys(section: type, prefix: str = "") -> Iterator[str]:
    for name, annotation in _fields(section).items():
        yield prefix + name
        if inner := _section(annotation):
            yield from _dotted_keys(inner, f"{prefix}{name}.")


def _unknown_key(cls: type, key: str, where: str) -> ConfigError:
    known = list(_dotted_keys(cls))
    leaf = key.rpartition(".")[2]
    same_leaf = [name for name in known if name.rpartition(".")[2] == leaf]
    near = difflib.get_close_matches(key, same_leaf, n=1, cutoff=0.0) or difflib.get_close_matches(key, known, n=1)
    if not near:  # the right word in another section, misspelt
        leaves = {name.rpartition(".")[2]: name for name in reversed(known)}
        near = [leaves[name] for name in difflib.get_close_matches(leaf, leaves, n=1)]
    hint = f"did you mean {near[0]!r}?" if near else f"the keys are {', '.join(_fields(cls))}"
    return ConfigError(f"unknown key {key!r} in {where}; {hint}")


def _type_name(annotation: Any) -> str:
    if annotation is types.NoneType:
        return "null"
    if annotation is bool:
        return "true or false"
    if get_origin(annotation) is Literal:
        return "one of " + ", ".join(repr(choice) for choice in get_args(annotation))
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return "one of " + ", ".join(repr(choice.value) for choice in annotation)
    if _is_union(annotation):
        return " or ".join(_type_name(argument) for argument in get_args(annotation))
    if get_args(annotation):
        inner = ", ".join("..." if a is ... else _type_name(a) for a in get_args(annotation))
        return f"{getattr(get_origin(annotation), '__name__', annotation)}[{inner}]"
    return str(getattr(annotation, "__name__", annotation))


# --- building ------------------------------------------------------------------------------------------------------


def _build(cls: type[T], settings: Sequence[_Setting]) -> T:
    tree: dict[str, Any] = {}
    sources: dict[tuple[str, ...], str] = {}
    for setting in settings:
        if not setting.key:
            continue
        section = tree
        for name in setting.key[:-1]:
            if not isinstance(section.get(name), dict):
                section[name] = {}  # also where an earlier setting said null
            section = section[name]
        name = setting.key[-1]
        if setting.value is not _SECTION:
            section[name] = setting.value
        elif not isinstance(section.get(name), dict):
            section[name] = {}
        sources[setting.key] = setting.source
    _fill_defaults(cls, tree, None)
    try:
        # JSON is pydantic's strict mode that still takes a list for a tuple, a string for a path or an enum's value.
        return TypeAdapter(cls).validate_json(json.dumps(tree, default=str), strict=True)
    except ValidationError as error:
        problems = [_explain(cls, detail, sources) for detail in error.errors(include_url=False)]
        raise ConfigError("\n".join(dict.fromkeys(problems))) from error


def _fill_defaults(section: type, values: dict[str, Any], default: Any) -> None:
    """Sets the missing keys of a section from its parent's default for the section, or None without one.

    A parent's default may differ from the defaults of the section's class.
    """
    hints = _fields(section)
    for field in dataclasses.fields(section):
        if not field.init:
            continue
        if default is not None:
            value = getattr(default, field.name)
        elif field.default_factory is not dataclasses.MISSING:
            value = field.default_factory()
        else:
            value = None if field.default is dataclasses.MISSING else field.default
        inner = _section(hints[field.name])
        if inner is not None and isinstance(values.get(field.name), dict):
            _fill_defaults(inner, values[field.name], value)
        elif default is not None and field.name not in values:
            values[field.name] = TypeAdapter(hints[field.name]).dump_python(value, mode="json")


def _explain(cls: type, detail: Mapping[str, Any], sources: Mapping[tuple[str, ...], str]) -> str:
    """An error of pydantic as a message with the dotted key, the value, the expected type and the source."""
    annotation: Any = cls
    key: tuple[str, ...] = ()
    for part in detail["loc"]:
        section = _section(annotation)
        if section is None:
            break
        key, annotation = (*key, str(part)), _fields(section)[str(part)]
    dotted = ".".join(key)
    if detail["type"] == "missing":
        return f"{dotted!r} is required: set it in a preset, or give {dotted}=VALUE"
    source = f" ({sources[key]})" if key in sources else ""
    if detail["type"] == "value_error":
        message = str(detail["ctx"]["error"])
        return f"{dotted}: {message}{source}" if dotted else message
    return f"{dotted!r} must be {_type_name(annotation)}, not {detail['input']!r:.60}{source}"


def overrides_of(config: Any) -> list[str]:
    """The overrides with which `load_config` gives `config`."""
    return [f"{key}={json.dumps(value)}" for key, value in flatten(config).items()]


def as_overrides(settings: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Overrides of nested settings: ``{"model": {"width": 64}}`` as ``["model.width=64"]``."""
    overrides: list[str] = []
    for name, value in settings.items():
        inner = isinstance(value, Mapping) and value
        overrides += as_overrides(value, f"{prefix}{name}.") if inner else [f"{prefix}{name}={json.dumps(value)}"]
    return overrides
