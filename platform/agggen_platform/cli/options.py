"""Options that several commands share, and checks of their folders."""

import re
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from agggen.errors import ConfigError
from agggen_platform.cli import console

_SCHEME = re.compile(r"[a-z][a-z0-9+.\-]+:/", re.I)  # `Path` collapses two slashes to one


def check_local(folder: Path | None) -> Path | None:
    """Callback of an option; raises ConfigError for an address such as ``s3://a``, which `Path` reads as a folder."""
    if scheme := _SCHEME.match(str(folder)):
        path = str(folder)[scheme.end() :]
        raise ConfigError(f"{scheme.group()}/{path} is not a folder of this machine; this option needs one")
    return folder


Overrides = Annotated[list[str] | None, Argument(metavar="KEY=VALUE", help="Settings, named as in the configuration.")]
Runs = Annotated[Path, Option("--runs", metavar="DIR", help="The folder of runs and run logs.", callback=check_local)]
Fresh = Annotated[bool, Option(help="Start over: remove earlier results with this name or in this folder.")]
FactSource = Annotated[str | None, Option(metavar="NAME", help="The fact segmenter. [default: embedded]")]
MetricNames = Annotated[str | None, Option(metavar="NAME,...", help="Metrics of the protocol. [default: all]")]
PrintConfig = Annotated[bool, Option(help="Print the resolved configuration and exit.")]


def split_names(text: str) -> tuple[str, ...]:
    """The names in a string such as ``a,b,c``, without duplicates."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def warn_if_temporary(folder: Path | str, option: str) -> None:
    """Warns if Ray will delete `folder` after the job; `option` is the option or setting that chooses the folder."""
    if not (_SCHEME.match(str(folder)) or Path(folder).is_absolute()) and "working_dir_files" in Path.cwd().parts:
        console.note(
            f"warning: {folder} is in {Path.cwd()}, Ray's copy of the working directory, which is deleted after the "
            f"job; choose another folder with {option}"
        )
