"""The settings of AllenNLP as a frame source; reading them needs nothing of AllenNLP."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from agggen.errors import ConfigError


@dataclass(frozen=True, slots=True)
class AllenNLPConfig:
    """Which archive, and how it is run."""

    archive: str
    """A path (``model.tar.gz`` or the folder it unpacks to), ``http(s)://`` or ``s3://``."""
    sha256: str | None = None
    """What the archive must have. A remote one needs it, or `trust`."""
    trust: bool = False
    """Load a remote archive whatever is in it. Loading an archive runs code of its author."""
    bert: str | None = None
    """A folder with the config.json and vocab.txt of the BERT model that a ``srl_bert`` archive names."""
    online: bool = False
    """Whether the model may fetch what it lacks from the Hugging Face hub."""
    spacy: str | None = None
    """A folder of a spaCy model, for spaCy of the environment, that finds the predicates; else a frame source does."""
    environment: str | None = None
    """AllenNLP's environment. [default: AGGGEN_SRL_ENV, else where `agggen srl setup` makes it]"""
    device: str = "cpu"
    """``cpu``, or ``cuda:0`` and so on if torch 1.12 knows the GPU."""
    threads: int | None = None
    """Of the worker. [default: torch's]"""
    batch_size: int = 64
    """Sentences that the worker gets at once."""
    timeout: float = 900.0
    """Seconds within which the worker must answer a batch, and be ready after its start."""
    restarts: int = 3
    """How many times in a row the worker may die before the source gives up."""

    @property
    def holds_secrets(self) -> bool:
        """Whether the archive's address may tell a secret: it has a user, a password or a query."""
        parts = urlsplit(self.archive)
        return bool(parts.scheme and ("@" in parts.netloc or parts.query))

    @property
    def absolute(self) -> AllenNLPConfig:
        """The same with absolute paths, for processes that work in another folder."""
        return replace(
            self,
            archive=self.archive if "://" in self.archive else absolute_path(self.archive),
            bert=self.bert and absolute_path(self.bert),
            spacy=self.spacy and absolute_path(self.spacy),
            environment=self.environment and absolute_path(self.environment),
        )

    def __post_init__(self) -> None:
        if self.device != "cpu" and not (self.device.startswith("cuda:") and self.device[5:].isdigit()):
            raise ConfigError(f"device is cpu, or cuda: with the number of a GPU, not {self.device!r}")
        for name in ("batch_size", "timeout"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be more than 0, not {getattr(self, name)}")
        if self.restarts < 0 or (self.threads is not None and self.threads < 1):
            raise ConfigError(f"restarts must be at least 0 and threads 1, not {self.restarts} and {self.threads}")


def absolute_path(path: str) -> str:
    return str(Path(path).expanduser().absolute())
