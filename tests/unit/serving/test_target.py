"""Which bundle an endpoint serves, and the arguments of its application."""

from pathlib import Path

import pytest
import yaml

from agggen.bundle import fingerprint
from agggen.config import load_config
from agggen.errors import BundleError, ConfigError
from agggen_platform.registry import Registry, register
from agggen_platform.serving.config import SecurityConfig, ServeConfig
from agggen_platform.serving.deploy import application_of, deploy_file
from agggen_platform.serving.follow import check_followed
from agggen_platform.serving.target import check_target, find_target, settings_of
from tests.unit.serve.conftest import save_tiny_model


def test_a_folder_is_pinned_by_path_and_fingerprint(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(bundle.parent)
    target = find_target(ServeConfig("bundle"))
    assert (target.source, target.shown, target.fingerprint) == (str(bundle), str(bundle), fingerprint(bundle))
    check_target(target)
    fixed = target.fixed(ServeConfig("bundle"))
    assert find_target(fixed) == target


def test_an_alias_is_pinned_to_its_version(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_REGISTRY_URI", f"sqlite:///{tmp_path / 'registry.db'}")
    register(str(bundle))
    Registry().set_alias("agggen", "champion", "1")
    target = find_target(ServeConfig("models:/agggen@champion"))
    assert (target.source, target.shown) == (str(bundle), "models:/agggen/1")
    monkeypatch.delenv("MLFLOW_REGISTRY_URI")
    assert find_target(target.fixed(ServeConfig("models:/agggen@champion"))) == target  # replicas need no registry


def test_another_fingerprint_is_refused(bundle: Path, tmp_path: Path) -> None:
    other = fingerprint(save_tiny_model(tmp_path / "other", 9))
    with pytest.raises(BundleError, match="is not the expected bundle"):
        find_target(ServeConfig(str(bundle), fingerprint=other))


def test_arguments_are_the_same_flat_and_nested() -> None:
    flat = {"bundle": "s3://models/a", "generator.max_replicas": "4", "security.hosts": "[a.example]"}
    nested = {"bundle": "s3://models/a", "generator": {"max_replicas": 4}, "security": {"hosts": ["a.example"]}}
    assert load_config(ServeConfig, None, settings_of(flat)) == load_config(ServeConfig, None, settings_of(nested))
    with pytest.raises(ConfigError, match="did you mean"):
        load_config(ServeConfig, None, settings_of({"bundle": "b", "generator": {"max_replica": 4}}))


def test_an_application_contains_its_configuration(bundle: Path) -> None:
    config = ServeConfig(str(bundle), security=SecurityConfig(hosts=("a.example",)))
    target = find_target(config)
    (application,) = yaml.safe_load(deploy_file(config, target))["applications"]
    assert application == application_of(target.fixed(config))
    assert load_config(ServeConfig, None, settings_of(application["args"])) == target.fixed(config)


@pytest.mark.parametrize("address", ["runs/a/bundle", "s3://models/a", "models:/agggen/3"])
def test_only_an_alias_can_be_followed(address: str) -> None:
    with pytest.raises(ConfigError, match="takes an alias"):
        check_followed(ServeConfig(address))
    with pytest.raises(ConfigError, match="neither fingerprint"):
        check_followed(ServeConfig("models:/agggen@champion", fingerprint="ab"))
    assert check_followed(ServeConfig("models:/agggen@champion")).alias == "champion"
