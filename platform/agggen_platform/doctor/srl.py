"""AllenNLP's environment, as `agggen srl check` looks at it, and the archive that the job names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from agggen.facts.allennlp.archives import is_remote
from agggen.facts.allennlp.environment import environment_folder, find_environment
from agggen.facts.allennlp.errors import AllenNLPError
from agggen.facts.allennlp.install import worker_versions
from agggen_platform.doctor.findings import Check, Finding, Level, error, note, ok
from agggen_platform.doctor.settings import Settings

AREA = "allennlp"
_SECONDS = 90.0  # that AllenNLP may take to import


def checks(settings: Settings) -> list[Check]:
    late = Level.WARNING if settings.archive is None else Level.ERROR
    return [Check(AREA, "environment", lambda: environment(settings), _SECONDS + 10, late)]


def environment(settings: Settings) -> Iterator[Finding]:
    """Starts a worker where there is an environment. Only a job with facts.source=allennlp needs one."""
    folder = environment_folder(settings.srl_environment)
    needed = settings.archive is not None
    if not folder.exists() and not needed:
        yield note("environment", f"none in {folder}; only facts.source=allennlp needs it", "agggen srl setup")
        return
    wrong = Level.ERROR if needed else Level.WARNING
    try:
        found = find_environment(folder)
        versions = worker_versions(found, _SECONDS)
    except AllenNLPError as failed:
        line = str(failed).splitlines()[0]
        yield Finding(wrong, "environment", line, f"agggen srl setup --dir {folder}")
    else:
        names = ("python", "allennlp", "torch", "transformers", "spacy")
        yield ok("environment", f"{folder}: {', '.join(f'{name} {versions.get(name)}' for name in names)}")
    if settings.archive is not None and not is_remote(settings.archive) and not Path(settings.archive).exists():
        yield error("archive", f"there is no archive {settings.archive}", "facts.allennlp.archive=model.tar.gz")
