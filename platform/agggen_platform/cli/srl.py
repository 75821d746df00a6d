"""`agggen srl check`: whether AllenNLP's models run on this machine."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from agggen_platform.cli import console

app = typer.Typer(no_args_is_help=True, help="Semantic role labelling by AllenNLP's models.", rich_markup_mode=None)

_SENTENCE = "Ada wrote the first program , which the engine never ran ."


@app.command(short_help="Check that AllenNLP and an archive work.")
def check(
    folder: Annotated[
        Path | None,
        typer.Option(
            "--dir", metavar="DIR", help="The environment. [default: AGGGEN_SRL_ENV, else ~/.cache/agggen/srl-env]"
        ),
    ] = None,
    archive: Annotated[
        str | None, typer.Option(metavar="ARCHIVE", help="A model.tar.gz, or its unpacked folder.")
    ] = None,
    sha256: Annotated[str | None, typer.Option(help="The archive's expected digest.")] = None,
    bert: Annotated[
        Path | None, typer.Option(metavar="DIR", help="config.json and vocab.txt of the archive's BERT model.")
    ] = None,
    spacy: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A spaCy model that finds predicates. [default: our tagger]")
    ] = None,
    online: Annotated[bool, typer.Option("--online", help="Let the model fetch what it lacks.")] = False,
    device: Annotated[str, typer.Option(help="cpu, or cuda:0 and so on.")] = "cpu",
    sentence: Annotated[str, typer.Option(help="Words to label, with spaces between.")] = _SENTENCE,
) -> None:
    """Check that AllenNLP's environment works and, with an archive, that the model finds frames.

    Loading an archive runs its author's code: use archives of authors you trust only.

    \b
        agggen srl check --archive srl.tar.gz --sha256 6f1c...
    """
    from agggen.facts.config import AllenNLPConfig
    from agggen.facts.frames import Words
    from agggen_platform.srl.environment import find_environment, worker_versions
    from agggen_platform.srl.source import AllenNLPFrames, get_archive

    environment = find_environment(folder)
    _ok("environment", str(environment.folder))
    begin = time.monotonic()
    versions = worker_versions(environment)
    names = ("python", "allennlp", "allennlp-models", "torch", "transformers", "spacy")
    _ok("worker", f"{', '.join(f'{name} {versions[name]}' for name in names)} ({time.monotonic() - begin:.0f} s)")
    if archive is None:
        console.note("without --archive no model was loaded")
        return
    local = get_archive(archive, sha256)
    _ok("archive", f"{local.path}, sha256 {local.sha256}")
    config = AllenNLPConfig(
        str(local.path),
        local.sha256,
        bert=str(bert) if bert else None,
        online=online,
        spacy=str(spacy) if spacy else None,
        environment=str(environment.folder),
        device=device,
    )
    words = sentence.split()
    ends = [sum(len(word) + 1 for word in words[: number + 1]) for number in range(len(words))]
    spans = tuple((end - len(word) - 1, end - 1) for word, end in zip(words, ends, strict=True))
    with AllenNLPFrames(config) as source:
        begin = time.monotonic()
        (frames,) = source.frames([Words(tuple(words), spans)])
        _ok("model", f"{source.worker['model']} on {device} ({time.monotonic() - begin:.0f} s)")
    for frame in frames:
        phrases = (f"{phrase.role}: {' '.join(words[phrase.start : phrase.end])}" for phrase in frame.phrases)
        _ok("frame", "  ".join(f"[{phrase}]" for phrase in phrases))
    if not frames:
        console.note("no frames: neither the tagger nor the model found a predicate in the sentence")


def _ok(subject: str, detail: str) -> None:
    console.say(f"ok\t{subject}\t{detail}")
