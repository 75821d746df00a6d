"""`agggen facts`: look at how texts are cut, with the trees behind the facts where the segmenter has any."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agggen_platform.cli import console

if TYPE_CHECKING:
    from agggen.facts.framed import FrameSegmenter
    from agggen.records import Record

app = typer.Typer(no_args_is_help=True, help="Look at the facts of texts.", rich_markup_mode=None)

Said = tuple[str, tuple[str, ...] | None]
"""A fact, and the predicates of its record that it says, where there is a record."""

_SETTING = re.compile(r"facts\.[\w.]+=")

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title><style>
body {{ font-family: system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; color: #111827 }}
section {{ border-top: 1px solid #d1d5db; padding: 1rem 0 }}
.tree {{ overflow-x: auto }} h2 {{ font-size: 1rem; margin: 0 0 .5rem }} .says {{ color: #4b5563 }}
</style></head><body><h1>{title}</h1>
{body}
</body></html>
"""


@app.callback()
def _facts() -> None:
    """Look at the facts of texts."""


@app.command()
def inspect(
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT | KEY=VALUE", help="Texts, each in quotes; settings, say facts.level=paper"),
    ] = None,
    facts: Annotated[str | None, typer.Option(metavar="NAME", help="The fact segmenter. [default: embedded]")] = None,
    level: Annotated[
        str | None, typer.Option(metavar="full|paper", help="How trees become facts. [default: full]")
    ] = None,
    corpus: Annotated[
        str | None, typer.Option(metavar="NAME", help="Take texts of this corpus: a name, or a prepared folder.")
    ] = None,
    split: Annotated[str, typer.Option(help="The split of the corpus.")] = "dev",
    record: Annotated[list[str] | None, typer.Option(metavar="ID", help="Only this record; again for more.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many texts.")] = 5,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page with drawings of the trees.")] = None,
) -> None:
    """Show the facts of texts, and the tree of semantic roles that they come from.

    A text of a corpus shows too which triples the rule-based aligner finds in each fact.

    \b
        agggen facts inspect "Bolt, who was drawn by Gary Cohn, is a comic character."
        agggen facts inspect --corpus webnlg --split dev --limit 20 --html facts.html
        agggen facts inspect "Bolt is a hero." --facts allennlp facts.allennlp.archive=srl.tar.gz
    """
    from agggen.config import load_config
    from agggen.errors import ConfigError
    from agggen.facts.config import segmenter
    from agggen_platform.segmentation.config import SegmentConfig

    settings = [text for text in texts or () if _SETTING.match(text)]
    texts = [text for text in texts or () if not _SETTING.match(text)]
    settings += [f"facts.{key}={value}" for key, value in (("source", facts), ("level", level)) if value is not None]
    config = load_config(SegmentConfig, None, settings).facts
    if bool(texts) == bool(corpus):
        raise ConfigError("give either texts in quotes, or --corpus")
    if record and not corpus:
        raise ConfigError("--record needs a --corpus to find it in")
    chosen = list(_of_corpus(corpus, split, record, limit)) if corpus else [(text, None) for text in texts][:limit]
    cut = segmenter(config)
    found = [
        (text, of, _aligned(of, pieces))
        for (text, of), pieces in zip(chosen, cut.segment([text for text, _ in chosen]), strict=True)
    ]
    frames = _frame_segmenter(cut)
    sentences = frames.sentences([text for text, _ in chosen]) if frames else [()] * len(chosen)
    level = frames.level if frames else "full"
    if html:
        from agggen_platform.cli.drawing import draw_svg

        drawings = [
            draw_svg(text, some, level) if some else "" for (text, _), some in zip(chosen, sentences, strict=True)
        ]
        title = f"Facts by {cut.name}" + (f" of {corpus} {split}" if corpus else "")
        html.write_text(_page(title, found, drawings), encoding="utf-8")
        console.note(f"{len(found)} texts by {cut.fingerprint}")
        console.say(str(html))
        return
    from agggen_platform.cli.drawing import bracketed

    for (text, of, said), some in zip(found, sentences, strict=True):
        console.say(f"{of.id}: {text}" if of else text)
        for sentence in some:
            console.say(f"    {bracketed(sentence, level)}")
        for number, (fact, predicates) in enumerate(said, start=1):
            says = "" if predicates is None else f"   [{' '.join(predicates)}]"
            console.say(f"  {number}. {fact.strip()}{says}")
    if not frames:
        console.note(f"The segmenter {cut.name!r} works without semantic roles: there are no trees to show")


def _of_corpus(corpus: str, split: str, ids: Sequence[str] | None, limit: int) -> Iterator[tuple[str, Record]]:
    """The first texts of a corpus, or of the records with these ids."""
    from agggen.errors import CorpusError
    from agggen_platform.local import records_of

    records = records_of(corpus, split)
    if ids:
        by_id = {record.id: record for record in records}
        if unknown := [one for one in ids if one not in by_id]:
            raise CorpusError(f"{corpus} {split} has no record {unknown[0]!r}; one that it has is {records[0].id!r}")
        records = [by_id[one] for one in ids]
    pairs = ((reference.text, record) for record in records for reference in record.references)
    yield from (pair for _, pair in zip(range(limit), pairs, strict=False))


def _aligned(record: Record | None, facts: Sequence[str]) -> list[Said]:
    if record is None or not facts:
        return [(fact, None) for fact in facts]
    from agggen.alignment import align

    pairs = list(zip(record.predicates, align(record, facts).fact_of, strict=True))
    return [(fact, tuple(name for name, of in pairs if of == t)) for t, fact in enumerate(facts)]


def _frame_segmenter(cut: object) -> FrameSegmenter | None:
    from agggen.facts.framed import FrameSegmenter

    return cut if isinstance(cut, FrameSegmenter) else None


def _page(title: str, found: Sequence[tuple[str, Record | None, list[Said]]], drawings: Sequence[str]) -> str:
    sections = []
    for (text, record, said), drawing in zip(found, drawings, strict=True):
        items = "".join(
            f"<li>{escape(fact.strip())}"
            + (f" <span class='says'>[{escape(' '.join(names))}]</span>" if names is not None else "")
            + "</li>"
            for fact, names in said
        )
        name = f"<h2>{escape(record.id)}</h2>" if record else ""
        sections.append(
            f"<section>{name}<p>{escape(text)}</p><div class='tree'>{drawing}</div><ol>{items}</ol></section>"
        )
    return _PAGE.format(title=escape(title), body="\n".join(sections))
