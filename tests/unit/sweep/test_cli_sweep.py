"""`agggen sweep`: what it refuses before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from agggen_platform.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["elements", "--space", "predicate-size"], "no preset is called 'predicate-size'; did you mean"),
        (["element"], "did you mean 'elements'?"),
        (
            ["elements", "model.predicate_dim=8"],
            "'model.predicate_dim' is set by an override and searched by the space",
        ),
        (["elements", "training.joint.epochs=0"], "no trial can report joint/dev_loss"),
        (["elements", "--trials", "0"], "trials must be at least 1, not 0"),
        (["elements", "--name", "a/b"], "the run name 'a/b' must be"),
        (["elements", "corpus.name=elemental"], "elemental"),
        (["elements", "--name", "s", "--database", "nonsense"], "the study's database cannot be used"),
    ],
)
def test_refusals(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["sweep", *arguments])
    captured = capsys.readouterr()
    assert ended.value.code == 2
    assert said in captured.err
    assert captured.out == ""
    assert not list(tmp_path.glob("runs/*/tracking.jsonl")), "nothing was begun"
