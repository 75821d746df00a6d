"""`agggen sweep`: what it refuses before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from agggen_platform.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["elements", "--space", "predicate-size"], "no preset is called 'predicate-size'; did you mean"),
        (["element"], "did you mean 'elements'?"),
        (
            ["elements", "model.predicate_dim=8"],
            "'model.predicate_dim' is set by an override and searched by the space",
        ),
        (["elements", "training.joint.epochs=0"], "no trial can report joint/dev_loss"),
        (["elements", "tracking.uri=http://127.0.0.1:9"], "set storage.url to s3://bucket/prefix, or do not register"),
        (["elements", "--runs", "s3://b/runs"], "s3://b/runs: this can only be a folder of this machine"),
        (["elements", "--trials", "0"], "trials must be at least 1, not 0"),
        (["elements", "--name", "a/b"], "the run name 'a/b' must be"),
        (["elements", "corpus.name=elemental"], "elemental"),
    ],
)
def test_refusals(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["sweep", *arguments])
    captured = capsys.readouterr()
    assert ended.value.code == 2
    assert message in captured.err
    assert captured.out == ""
    assert not list(tmp_path.glob("runs/*/tracking.jsonl")), "nothing was begun"
