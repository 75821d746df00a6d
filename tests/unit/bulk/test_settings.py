"""The configuration of a bulk job: defaults from the bundle, invalid settings, the job's fingerprint."""

import pytest

from agggen.bundle import SHIPPED
from agggen.errors import ConfigError
from agggen_platform.bulk import model as model_module
from agggen_platform.bulk.model import Model, bulk_config, fingerprint, job_identity, open_model


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("inference.plan=3", "did you mean 'inference.plan"),
        ("inference.level=4", "exceeds this model's largest group of 3"),
        ("n_best=0", "n_best must be at least 1"),
        ("format=csv", "'parquet' or 'jsonl'"),
        ("max_reject_share=2", "from 0 to 1"),
        ("gpus_per_actor=-1", "at least 0"),
    ],
)
def test_invalid_settings_are_refused(override: str, message: str, model: Model) -> None:
    with pytest.raises(ConfigError, match=message):
        bulk_config(model, [override])


def test_the_fingerprint_covers_exactly_the_settings_that_affect_texts(model: Model) -> None:
    def job(*overrides: str, bundle: str = "b", content: str = "i") -> str:
        return fingerprint(job_identity(bulk_config(model, overrides), bundle, [("in.jsonl", content)]))

    assert {job("actors=3"), job("shard_rows=5"), job("max_reject_share=0.5")} == {job()}
    settings = ("n_best=2", "complete=true", "format=jsonl", "inference.plans=9", "inference.beam.beam=9")
    others = {job(setting) for setting in settings} | {job(bundle="c"), job(content="j")}
    assert len({job(), *others}) == 8


def test_a_name_or_an_alias_is_resolved_once(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_module, "resolve", {"models:/agggen@champion": model.address}.__getitem__)
    assert open_model("models:/agggen@champion") == model
    assert open_model("elements").address == str(SHIPPED["elements"])
