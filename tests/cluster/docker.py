"""Builds the Docker images of the Compose test without an image registry.

python -m tests.cluster.docker
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.cluster.containers import REPO
from tests.cluster.image import BASE, pip_config

FOLDER = Path(__file__).with_name("compose")
STAND_INS = "localhost/agggen-stand-ins"
_WITH_SETTINGS = "localhost/agggen-test-base"  # the name in override.yaml


def docker(*arguments: str, seconds: float = 120) -> str:
    """Runs docker, which must succeed; returns its output."""
    completed = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=seconds)
    assert completed.returncode == 0, f"docker {' '.join(arguments)}: {completed.stdout}{completed.stderr}"
    return completed.stdout


def reason_to_skip() -> str | None:
    """Why the Compose test cannot run on this machine; None if it can."""
    if os.geteuid():
        return "root is needed: only root can change the owner of files"
    for query in (["compose", "version"], ["buildx", "version"], ["version"]):
        try:
            completed = subprocess.run(["docker", *query], capture_output=True, text=True, timeout=60)
        except FileNotFoundError:
            return "docker is not installed"
        if completed.returncode:
            return f"docker {' '.join(query)}: {completed.stderr.strip()[-300:]} (tests/cluster/dockerd.sh starts one)"
    if shutil.which("debootstrap") is None and not docker("images", "--quiet", BASE):
        return "debootstrap is not installed"
    return None


def build() -> None:
    """Builds the base image, with this machine's pip settings, and the image that replaces four server images."""
    if not docker("images", "--quiet", BASE):
        subprocess.run(["infra/docker/base.sh", BASE], cwd=REPO, env=os.environ | {"PODMAN": "docker"}, check=True)
    with tempfile.TemporaryDirectory() as folder:
        _write_settings(Path(folder))
        docker("build", f"--build-arg=BASE={BASE}", f"--tag={_WITH_SETTINGS}", folder, seconds=600)
    with tempfile.TemporaryDirectory() as folder:
        for file in (FOLDER / "Dockerfile", FOLDER / "postgres.sh", REPO / "constraints.txt"):
            shutil.copy(file, folder)
        options = ["--network=host", f"--build-arg=BASE={_WITH_SETTINGS}", f"--tag={STAND_INS}"]
        docker("build", *options, folder, seconds=1200)


def _write_settings(folder: Path) -> None:
    """Writes a Dockerfile that adds pip's settings, certificate and local torch wheels (CPU builds) to the base."""
    lines = ["ARG BASE", "FROM ${BASE}", "COPY pip.conf /etc/pip.conf"]
    kept = {}
    (folder / "wheels").mkdir()
    for option, value in pip_config():
        if option in ("index-url", "default-timeout"):
            kept[option] = value
        elif option == "cert":
            kept[option] = value
            shutil.copyfile(value, folder / "cert.pem")
            lines.append(f"COPY cert.pem {value}")
        elif option == "find-links":
            for wheel_folder in value.replace("\\n", " ").split():
                for wheel in Path(wheel_folder).glob("torch-*+cpu-*.whl"):
                    shutil.copyfile(wheel, folder / "wheels" / wheel.name)
                    kept[option] = "/opt/wheels"
    lines.append("COPY wheels /opt/wheels")
    (folder / "pip.conf").write_text("[global]\n" + "".join(f"{key} = {kept[key]}\n" for key in sorted(kept)))
    (folder / "Dockerfile").write_text("\n".join(dict.fromkeys(lines)) + "\n")


if __name__ == "__main__":
    if reason := reason_to_skip():
        print(f"the Compose test will be skipped: {reason}")
    else:
        build()
