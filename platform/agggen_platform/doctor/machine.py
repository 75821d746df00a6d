"""This machine: Python's packages, torch and its GPUs, corpora, and the disks that jobs write to."""

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement

from agggen.corpora.catalogue import Corpus, data_home, get_corpus, list_corpora
from agggen.corpora.fetch import read_manifest
from agggen.errors import CorpusError
from agggen_platform.doctor.findings import Finding, Settings, error, note, ok, warning
from agggen_platform.storage.errors import nearest_existing

_REINSTALL = "pip install --force-reinstall torch  # in the build for this machine's CUDA, which nvidia-smi shows"
_MIN_FREE_BYTES = 1 << 30  # for a run: its bundle, three checkpoints and its log
_LOW_FREE_BYTES = 5 << 30  # fewer cause a warning
_RAY_LIMIT = 0.95  # Ray's local_fs_capacity_threshold; on a fuller disk, Ray creates no objects


def packages(_: Settings) -> Iterator[Finding]:
    """Whether the versions of installed packages are in the ranges that agggen declares."""
    yield ok("version", f"{platform.python_implementation()} {platform.python_version()} at {sys.executable}")
    try:
        requirements = [Requirement(line) for line in requires("agggen") or ()]
    except PackageNotFoundError:
        yield note("packages", "agggen runs from its sources, so versions are not checked", "pip install -e .")
        return
    unmet_requirements = [requirement for requirement in requirements if not _is_met(requirement)]
    for requirement in unmet_requirements:
        package, installed = f"{requirement.name}{requirement.specifier}", _installed_version(requirement.name)
        state = "it is not installed" if installed is None else f"{installed} is installed"
        yield error("packages", f"agggen needs {package}, but {state}", f"pip install '{package}'")
    if not unmet_requirements:
        yield ok("packages", f"agggen {version('agggen')}, and all its packages are in their version ranges")


def _is_met(requirement: Requirement) -> bool:
    """Whether the installed version is in range; packages of extras and of other platforms may be missing."""
    installed = _installed_version(requirement.name)
    if installed is None:
        return requirement.marker is not None
    return requirement.specifier.contains(installed, prereleases=True)


def _installed_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def accelerator(settings: Settings) -> Iterator[Finding]:
    try:
        import torch
    except (ImportError, OSError) as failure:  # OSError: a shared library is missing
        yield error("import", f"torch cannot be imported: {failure}", _REINSTALL)
        return
    build = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "a CPU build"
    yield ok("version", f"torch {torch.__version__}, {build}")
    gpu_requested = not settings.distributed and (settings.gpus_per_worker > 0 or settings.device.startswith("cuda"))
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
        yield ok("GPU", f"{len(names)}: {', '.join(names)}")
    elif gpu_requested:
        remedy = "training.device=cpu cluster.gpus_per_worker=0  # or install torch for the CUDA that nvidia-smi shows"
        yield error("GPU", f"the job requests a GPU, but torch ({build}) finds none on this machine", remedy)
    elif shutil.which("nvidia-smi"):
        yield warning("GPU", f"this machine has an NVIDIA driver, but torch ({build}) finds no GPU", _REINSTALL)
    else:
        yield note("GPU", "none: models run on the CPU")


def data(settings: Settings) -> Iterator[Finding]:
    home = data_home()
    if home.exists() and not home.is_dir():
        yield warning("data home", f"AGGGEN_DATA_HOME={home} is not a folder", "export AGGGEN_DATA_HOME=FOLDER")
    else:
        yield ok("data home", f"{home}{'' if home.exists() else ' will be created by `agggen corpora fetch`'}")
    for corpus in list_corpora():
        yield _corpus_finding(corpus, is_needed=corpus.name == settings.corpus)
    name = settings.corpus
    # Patterns such as my/{train,dev}.jsonl and addresses of stores are not checked.
    if name is not None and not ("{" in name or "://" in name or Path(name).exists()):
        try:
            get_corpus(name)
        except CorpusError as failure:
            yield error("corpus", str(failure), "agggen corpora list")


def _corpus_finding(corpus: Corpus, is_needed: bool) -> Finding:
    """Whether all files of a corpus exist and have the right size; `agggen corpora fetch` compares their SHA-256."""
    if corpus.folder is None:
        return ok(corpus.name, "part of agggen")
    folder = data_home() / corpus.folder
    fetch = f"agggen corpora fetch {corpus.name}"
    if not folder.is_dir():
        remedy = f"copy {corpus.copied_from} to {folder}" if corpus.copied_from else fetch
        return (error if is_needed else note)(corpus.name, f"not in {data_home()}", remedy)
    files = read_manifest(corpus.name)
    wrong_files = [
        file.path
        for file in files
        if not (folder / file.path).is_file() or file.bytes not in (None, (folder / file.path).stat().st_size)
    ]
    if wrong_files:
        counts = f"{len(wrong_files)} of {len(files)} files are missing or changed"
        message = f"{folder}: {counts}; the first is {wrong_files[0]}"
        return (error if is_needed else warning)(corpus.name, message, fetch)
    return ok(corpus.name, f"complete in {folder}")


def disk(settings: Settings) -> Iterator[Finding]:
    yield _folder_finding("runs", Path(settings.runs), "agggen train PRESET --runs FOLDER")
    temporary = Path(tempfile.gettempdir())
    yield _folder_finding("temporary files", temporary, "export TMPDIR=FOLDER")
    ray_folder = Path(os.environ.get("RAY_TMPDIR") or temporary)
    usage = shutil.disk_usage(nearest_existing(ray_folder))
    share = 1 - usage.free / usage.total
    message = f"the disk of {ray_folder}, for Ray's files, is {share:.0%} full"
    if share < _RAY_LIMIT:
        yield ok("ray", message)
    else:
        remedy = f"du -sh {ray_folder}/ray/session_* | sort -h  # sessions of ended clusters can be deleted"
        yield error("ray", f"{message}; above {_RAY_LIMIT:.0%} Ray creates no objects and tasks fail", remedy)


def unwritable(folder: Path) -> str | None:
    """The reason why `folder`, or its nearest existing parent, is not writable; None if it is."""
    try:
        with tempfile.TemporaryFile(dir=nearest_existing(folder)) as file:
            file.write(b"agggen")
            file.flush()
    except OSError as failure:
        return failure.strerror or str(failure)
    return None


def _folder_finding(subject: str, folder: Path, remedy: str) -> Finding:
    if problem := unwritable(folder):
        return error(subject, f"{folder} cannot be written to: {problem}", remedy)
    free_bytes = shutil.disk_usage(nearest_existing(folder)).free
    message = f"{folder} can be written to; {free_bytes / 2**30:,.1f} GiB are free"
    remedy = f"du -xsh {nearest_existing(folder)}/* | sort -h | tail  # or {remedy}"
    if free_bytes < _MIN_FREE_BYTES:
        return error(subject, f"{message}, and a run needs up to {_MIN_FREE_BYTES / 2**30:g}", remedy)
    return warning(subject, message, remedy) if free_bytes < _LOW_FREE_BYTES else ok(subject, message)
