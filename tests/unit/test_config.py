"""Presets, overrides and invalid settings of toy dataclasses."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agggen.config import as_overrides, config_hash, flatten, load_config, preset_names, resolved
from agggen.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Model:
    width: int = 128
    heads: int = 4
    dropout: float = 0.2
    history: Literal["masked", "shared"] = "shared"
    layers: tuple[int, ...] = (2, 2)

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ConfigError(f"width {self.width} is not a multiple of {self.heads} heads")


@dataclass(frozen=True, slots=True)
class Warmup:
    steps: int = 100


@dataclass(frozen=True, slots=True)
class Toy:
    model: Model = field(default_factory=Model)
    warmup: Warmup | None = None
    rate: float = 0.5
    mixed_precision: bool = False
    name: str = "toy"
    note: str | None = None
    corpus: Path | None = None
    weights: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Needs:
    name: str
    toy: Toy = field(default_factory=Toy)


def preset(tmp_path: Path, text: str, name: str = "mine.yaml") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def refusal(cls: type, source: Path | str | None, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(cls, source, overrides)
    return str(caught.value)


def test_overrides_take_precedence_over_presets_and_defaults(tmp_path: Path) -> None:
    preset(tmp_path, "model: {width: 64, heads: 2}\nrate: 1e-3\n", "base.yaml")
    path = preset(tmp_path, "extends: base.yaml\nmodel:\n  width: 32\n")
    assert load_config(Toy) == load_config(Toy, preset(tmp_path, "# nothing yet\n", "empty.yaml")) == Toy()
    config = load_config(Toy, path, ["rate=2e-3", "rate=3e-3", "model.layers=[1, 3]"])
    assert config == Toy(model=Model(width=32, heads=2, layers=(1, 3)), rate=0.003)


@pytest.mark.parametrize(
    ("override", "attribute", "expected"),
    [
        ("rate=1e-3", "rate", 0.001),
        ("rate=.inf", "rate", float("inf")),
        ("mixed_precision=true", "mixed_precision", True),
        ("name=no", "name", "no"),
        ("name=007", "name", "007"),
        ("name=a=b", "name", "a=b"),
        ("note=null", "note", None),
        ("corpus=runs/x", "corpus", Path("runs/x")),
        ("weights={bleu: 1, ter: 0.5}", "weights", {"bleu": 1.0, "ter": 0.5}),
        ("model={width: 12}", "model", Model(width=12)),
        ("warmup.steps=7", "warmup", Warmup(7)),
    ],
)
def test_an_override_is_converted_to_the_type_of_its_field(override: str, attribute: str, expected: Any) -> None:
    value = getattr(load_config(Toy, None, [override]), attribute)
    assert (value, type(value)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["warmup.steps=7", "warmup=null"], Toy()),
        (["warmup=null", "warmup.steps=7"], Toy(warmup=Warmup(7))),
        (as_overrides({"corpus": Path("a b"), "model": {"width": 64}}), Toy(Model(width=64), corpus=Path("a b"))),
    ],
)
def test_overrides_of_sections(overrides: list[str], expected: Toy) -> None:
    assert load_config(Toy, None, overrides) == expected


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.widht=3", "unknown key 'model.widht' in override 'model.widht=3'; did you mean 'model.width'?"),
        ("width=3", "unknown key 'width' in override 'width=3'; did you mean 'model.width'?"),
        ("model.width.x=3", "unknown key 'model.width.x'"),
        ("model={widht: 3}", "did you mean 'model.width'?"),
        ("qqqqqq=3", "the keys are model, warmup, rate"),
        ("model.width=wide", "'model.width' must be a valid integer, not 'wide' (override 'model.width=wide')"),
        ("model.layers=[1, x]", "'model.layers' must be a valid integer, not 'x'"),
        ("mixed_precision=yes", "'mixed_precision' must be a valid boolean, not 'yes'"),
        ("model.history=none", "'model.history' must be 'masked' or 'shared', not 'none'"),
        ("model.width=6", "model: width 6 is not a multiple of 4 heads"),
        ("model=3", "'model' is a section with the keys width, heads, dropout, history, layers; it cannot be set"),
        ("model.width", "override 'model.width' is not of the form key=value"),
        ("name=", "override 'name=' has no value"),
        ("model=[1", "override 'model=[1', line 1"),
        ("name=!!python/object:os.system x", "could not determine a constructor"),
    ],
)
def test_an_invalid_override_is_refused_by_name(override: str, message: str) -> None:
    assert message in refusal(Toy, None, override)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rate: 1\nmodel:\n  widht: 3\n", "unknown key 'model.widht' in {path}, line 3; did you mean 'model.width'?"),
        ("rate: 1\nmodel:\n  width: wide\n", "'model.width' must be a valid integer, not 'wide' ({path}, line 3)"),
        ("rate: 1\nrate: 2\n", "{path}, line 2: 'rate' is set a second time"),
        ("- rate\n", "{path} must consist of 'key: value' lines"),
        ("rate: [1\n", "{path}, line 2, column 1: not valid YAML"),
        ("rate: \x00\n", "not valid YAML"),
        ("extends: [a, b]\n", "{path}, line 1: 'extends' takes the name of one preset"),
        ("extends: missing.yaml\n", "missing.yaml: No such file or directory"),
        ("extends: nonesuch\n", "no preset is called 'nonesuch'"),
        ("extends: mine.yaml\n", "presets extend each other in a cycle"),
    ],
)
def test_an_invalid_preset_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = preset(tmp_path, text)
    assert message.format(path=path) in refusal(Toy, path)


def test_all_invalid_values_are_reported_together(tmp_path: Path) -> None:
    message = refusal(Toy, preset(tmp_path, "rate: x\nname: true\n"))
    assert [line.split(" must")[0] for line in message.splitlines()] == ["'rate'", "'name'"]


def test_a_missing_required_value_is_refused() -> None:
    assert refusal(Needs, None) == "'name' is required: set it in a preset, or give name=VALUE"
    assert load_config(Needs, None, ["name=x"]).name == "x"


def test_presets_are_found_by_name_in_their_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "toy_presets"
    package.mkdir()
    (package / "__init__.py").touch()
    preset(package, "rate: 9\n", "small.yaml")
    preset(package, "extends: small\nname: big\n", "big.yaml")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert preset_names("toy_presets") == ["big", "small"]
    assert load_config(Toy, "big", [], "toy_presets") == Toy(rate=9.0, name="big")
    with pytest.raises(ConfigError, match=r"no preset is called 'smal'; did you mean small\? There are big, small"):
        load_config(Toy, "smal", [], "toy_presets")


def test_the_hash_depends_on_values_only(tmp_path: Path) -> None:
    by_file = load_config(Toy, preset(tmp_path, "rate: 2\nmodel: {width: 64}\n"))
    by_override = load_config(Toy, None, ["model.width=64", "rate=2.0"])
    assert config_hash(by_file) == config_hash(by_override)
    assert len(config_hash(by_file)) == 12
    assert config_hash(replace(by_file, rate=2.5)) != config_hash(by_file)


def test_flatten_returns_scalars_by_dotted_key() -> None:
    flat = flatten(Toy(corpus=Path("x"), weights={"bleu": 1.0}))
    expected = {"model.width": 128, "model.layers": "[2, 2]", "corpus": "x", "weights.bleu": 1.0}
    assert flat.items() >= expected.items() and flat["warmup"] is None
    assert flatten(Toy())["weights"] == "{}"


@given(
    width=st.integers(1, 500).map(lambda n: 4 * n),
    rate=st.floats(allow_nan=False, allow_infinity=False),
    name=st.text(max_size=20).filter(lambda text: text.isprintable()),
    steps=st.none() | st.integers(-5, 10**12),
)
def test_a_resolved_configuration_is_read_back_unchanged(
    tmp_path_factory: pytest.TempPathFactory, width: int, rate: float, name: str, steps: int | None
) -> None:
    warmup = None if steps is None else Warmup(steps)
    config = Toy(Model(width=width), warmup=warmup, rate=rate, name=name, corpus=Path("a b"))
    path = tmp_path_factory.mktemp("config") / "config.json"
    path.write_text(json.dumps(resolved(config)), encoding="utf-8")
    assert load_config(Toy, path) == config


@dataclass(frozen=True)
class WithOwnDefaults:
    model: Model = field(default_factory=lambda: Model(width=256, heads=8))
    toy: Toy = field(default_factory=lambda: Toy(model=Model(dropout=0.0), rate=2.0))


def test_setting_one_key_of_a_section_keeps_the_defaults_of_its_parent() -> None:
    config = load_config(WithOwnDefaults, None, ["model.width=512", "toy.model.heads=2"])
    assert config.model == Model(width=512, heads=8)
    assert config.toy == Toy(model=Model(dropout=0.0, heads=2), rate=2.0)
