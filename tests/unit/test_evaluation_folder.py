"""Where the report of an evaluation goes, and warnings about folders that do not last."""

from __future__ import annotations

from pathlib import Path

import pytest

from agggen.errors import ConfigError
from agggen.report.folder import FILES
from agggen_platform.cli.options import warn_if_temporary
from agggen_platform.evaluation import report_folder
from agggen_platform.storage.folder import Folder


def test_a_report_goes_to_a_store_when_it_is_whole(s3: str) -> None:
    address = f"{s3}/reports/one"
    with pytest.raises(ConfigError, match=f"{address} holds another"), report_folder(address) as folder:
        raise ConfigError(f"{folder} holds another")
    assert Folder(address).names() == []
    with report_folder(address) as folder:
        folder.mkdir()
        for name in FILES:
            (folder / name).write_text(name)
    assert sorted(Folder(address).names()) == sorted(FILES)
    with report_folder(address) as folder:  # what is there is seen, so that no other report is overwritten
        assert (folder / "report.json").read_text() == "report.json"


def test_a_report_in_a_folder_stays_where_it_is_written(tmp_path: Path) -> None:
    with report_folder(str(tmp_path / "report")) as folder:
        assert folder == tmp_path / "report"


def test_a_folder_in_rays_copy_of_the_working_directory_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "working_dir_files" / "_ray_pkg_1"
    copy.mkdir(parents=True)
    monkeypatch.chdir(copy)
    for folder in ("/shared/runs", "s3://models/runs"):
        warn_if_temporary(folder, "--runs")
    assert capsys.readouterr().err == ""
    warn_if_temporary("runs", "--runs")
    assert "warning: runs lies in" in capsys.readouterr().err
