"""torch and GPUs: the real probe once, and with a torch that behaves as it is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agggen_platform.doctor import accelerator
from agggen_platform.doctor.findings import Finding
from agggen_platform.doctor.settings import Settings
from tests.unit.doctor.servers import distribution, only, said

FAKE = """
import os, signal, time
from types import SimpleNamespace as Space
TOTAL, BUILD, DEVICES, BROKEN, INIT, NCCL = 256.0**3, None, 0, {}, "", None
%s
__version__ = "2.13.0"
version = Space(cuda=BUILD)
class Tensor:
    def __init__(self, device):
        if device in BROKEN: raise RuntimeError(BROKEN[device])
    def __matmul__(self, other): return self
    def sum(self): return self
    def item(self): return TOTAL
def ones(rows, columns, device): return Tensor(device)
def get_num_threads(): return 2
def init():
    if INIT: raise RuntimeError(INIT)
about = Space(name="A card", major=9, minor=0, total_memory=80 * 2**30)
cuda = Space(init=init, device_count=lambda: DEVICES, get_device_properties=lambda number: about,
             get_arch_list=lambda: ["sm_80", "sm_90"], nccl=Space(version=lambda: NCCL))
_C = Space(_cuda_getDriverVersion=lambda: 12080)
distributed = Space(is_available=lambda: True, is_nccl_available=lambda: NCCL is not None)
"""
ANY = Settings()
Look = Callable[..., list[Finding]]


@pytest.fixture
def look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Look:
    """Looks at a torch that has the variables given as lines of Python; `gpu`: whether the machine has one."""

    def call(lines: str = "", settings: Settings = ANY, version: str = "2.13.0", gpu: bool = False) -> list[Finding]:
        folder = tmp_path / "site"
        (folder / "torch").mkdir(parents=True)
        (folder / "torch" / "__init__.py").write_text(FAKE % lines)
        distribution(folder, "torch", version)
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.setenv("PYTHONPATH", str(folder))
        monkeypatch.setenv("PATH", str(tmp_path))  # no nvidia-smi
        monkeypatch.setattr(accelerator, "_DEVICES", tmp_path)
        if gpu:
            (tmp_path / "nvidia0").touch()
        return list(accelerator.look(settings))

    return call


GPU_HERE = Settings(device="cuda")
CUDA = 'BUILD, DEVICES = "12.8", 2\n'


def test_the_torch_of_this_python() -> None:
    found = list(accelerator.look(Settings()))
    assert said(found)["version"] == said(found)["CPU"] == "ok"
    assert said(found)["CUDA"] in ("ok", "note", "warning")


def test_a_torch_for_cpus_where_there_is_no_gpu(look: Look) -> None:
    assert said(look()) == {"version": "ok", "CPU": "ok", "CUDA": "ok"}


def test_two_gpus_that_are_well(look: Look) -> None:
    found = look(f"{CUDA}NCCL = (2, 27, 5)", GPU_HERE, gpu=True)
    assert said(found) == dict.fromkeys(("version", "CPU", "CUDA", "cuda:0", "cuda:1", "NCCL"), "ok")
    assert only(found, "CUDA").found == "built for CUDA 12.8, the driver has 12.8; GPUs: 2"
    assert only(found, "cuda:1").found.startswith("A card, compute capability 9.0, 80 GiB;")
    assert only(found, "NCCL").found == "NCCL 2.27.5"


def test_an_old_torch(look: Look) -> None:
    assert only(look(version="2.9.0"), "version").level == "error"


def test_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerator, "installed", lambda _: None)
    (found,) = accelerator.look(Settings())
    assert (found.level, found.remedy) == ("error", "pip install 'torch>=2.10'")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('raise OSError("libcudart.so.12: cannot open shared object file")', "OSError: libcudart.so.12: cannot open"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "the process was killed by SIGSEGV"),
        ("time.sleep(600)", "no answer within 0.5 s"),
    ],
)
def test_a_torch_that_cannot_be_imported(lines: str, words: str, look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    if "sleep" in lines:
        monkeypatch.setattr(accelerator, "SECONDS", 0.5)
    found = only(look(lines), "import")
    assert found.level == "error"
    assert words in found.found
    assert found.remedy == "pip install --force-reinstall torch==2.13.0"


@pytest.mark.parametrize(
    ("lines", "words"),
    [("TOTAL = 1.0", "sums up to 1, not 16777216"), ('BROKEN = {"cpu": "illegal instruction"}', "illegal instruction")],
)
def test_a_cpu_that_computes_wrong_numbers(lines: str, words: str, look: Look) -> None:
    found = only(look(lines), "CPU")
    assert (found.level, words in found.found) == ("error", True)


@pytest.mark.parametrize(
    ("lines", "settings", "gpu", "level", "words"),
    [
        ("", Settings(), True, "warning", "torch is a CPU build; this machine has an NVIDIA GPU"),
        ("", GPU_HERE, True, "error", "torch is a CPU build; this machine has an NVIDIA GPU"),
        ("", GPU_HERE, False, "error", "the job asks for GPUs, and this machine has none"),
        ("", Settings(workers=2, gpus_per_worker=1), False, "error", "the job asks for GPUs"),
        ("", Settings(workers=2, gpus_per_worker=1, address="head:6379"), False, "ok", "a CPU build"),
        (
            f'{CUDA}INIT = "Found no NVIDIA driver"',
            Settings(),
            False,
            "note",
            "it cannot be used: RuntimeError: Found no",
        ),
        (f'{CUDA}INIT = "The driver is too old"', Settings(), True, "warning", "The driver is too old"),
        (f'{CUDA}INIT = "The driver is too old"', GPU_HERE, True, "error", "The driver is too old"),
        ('BUILD = "12.8"', GPU_HERE, True, "error", "no device is visible"),
    ],
)
def test_gpus_that_torch_cannot_use(
    lines: str, settings: Settings, gpu: bool, level: str, words: str, look: Look
) -> None:
    found = only(look(lines, settings, gpu=gpu), "CUDA")
    assert (found.level, words in found.found) == (level, True)


def test_a_gpu_that_the_build_has_no_code_for(look: Look) -> None:
    found = look(f'{CUDA}BROKEN = {{"cuda:1": "no kernel image is available"}}\nNCCL = (2, 27, 5)', gpu=True)
    assert said(found)["cuda:0"] == "ok"
    assert only(found, "cuda:1").level == "error"
    assert "no kernel image is available (this build has sm_80, sm_90)" in only(found, "cuda:1").found


def test_several_gpus_without_nccl(look: Look) -> None:
    assert only(look(CUDA, gpu=True), "NCCL").level == "warning"
