"""The tables that can be made again: what is trained for each, what is evaluated how, and what was published.

Recipes, and how each system writes, stand here and nowhere else. All of it is chosen on development data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from agggen.errors import ConfigError
from agggen.evaluation.protocols import PROTOCOLS
from agggen.evaluation.published import ALIGNMENT, BOARDS, PLANNING, Board, Published

Model = Literal["transformer", "agggen"]
MODELS: tuple[Model, ...] = ("transformer", "agggen")
"""In the order in which they are trained."""

VERIFIED = ("retries=2", "missing_penalty=10", "verifier=strict")
"""No text with a mistake is chosen where the search finds one without. On E2E, the verifier is the measure's own."""

TUNED = ("level=2", "plan_weight=0.5", "beam.mention_all=true")
"""The settings of all three corpora that write better on their development sets than the defaults."""

_ONLY = {"transformer": "training.joint.epochs=0", "agggen": "training.baseline.epochs=0"}
_OF_THE_MACHINE = ("training.threads", "training.device", "cluster.", "storage.", "tracking.")
_OF_THE_TABLE = {"training.seed", "training.start"}


@dataclass(frozen=True)
class Recipe:
    """How the models of a corpus are trained: a plain Transformer, and AggGen, which begins with its weights."""

    name: str
    """The runs' names begin with it."""
    corpus: str
    """Of the catalogue, that the models are trained on."""
    preset: str
    overrides: tuple[str, ...] = ()

    def run_name(self, model: Model, seed: int) -> str:
        """What the run that trains the model is called."""
        return f"{self.name}-{model}-{seed}"

    def decisive(self, more: Sequence[str] = ()) -> tuple[str, ...]:
        """The preset and the overrides of both models of all seeds, but for those that say where training runs."""
        return (self.preset, *(each for each in (*self.overrides, *more) if not each.startswith(_OF_THE_MACHINE)))

    def settings(self, model: Model, seed: int, more: Sequence[str] = (), start: str = "") -> list[str]:
        """The overrides of one training.

        Args:
            more: a user's own; see `check_overrides`.
            start: the bundle of the Transformer, which is AggGen's alone.
        """
        begin = [f"training.start={start}"] if start and model == "agggen" else []
        return [*self.overrides, *more, _ONLY[model], f"training.seed={seed}", *begin]


@dataclass(frozen=True)
class System:
    """A trained model and how it writes; one evaluation, one record."""

    key: str
    """In the names of files."""
    name: str
    model: Model
    inference: tuple[str, ...] = ()
    """Overrides of the inference settings that the model was trained with."""


@dataclass(frozen=True)
class Column:
    """A measure of the table."""

    name: str
    digits: int = 2
    """Behind the point."""


@dataclass(frozen=True)
class Line:
    """A row of ours: where a system's record has its scores."""

    name: str
    """A published system of the same name stands above it."""
    system: str
    scores: Mapping[str, str]
    """``section/name`` in the report, by column."""


@dataclass(frozen=True)
class Table:
    """A table of the paper."""

    name: str
    title: str
    recipe: Recipe
    corpus: str
    split: str
    """What each model is evaluated on, once."""
    columns: tuple[Column, ...]
    systems: tuple[System, ...]
    lines: tuple[Line, ...]
    published: tuple[Published, ...] = ()
    how: str = ""
    """How the published numbers were computed."""
    inputs: int | None = None
    """Records of the test set on which numbers compare; None: not known."""

    def system(self, key: str) -> System | None:
        """The system of that key."""
        return next((system for system in self.systems if system.key == key), None)


SYSTEMS = (
    System("transformer", "Transformer", "transformer", ("ablation=plain", "missing_penalty=0")),  # as it was published
    System("agggen", "AggGen", "agggen"),
    System("agggen-od", "AggGen -OD", "agggen", ("ablation=random-order",)),
    System("agggen-ag", "AggGen -AG", "agggen", ("ablation=no-aggregation",)),
    System("agggen-tuned", "AggGen tuned", "agggen", TUNED),
    System("agggen-verified", "AggGen verified", "agggen", VERIFIED),
    System("agggen-unchecked", "AggGen without check", "agggen", ("missing_penalty=0",)),
)
"""The rows of ours in a table of texts."""

_FOUR_DIGITS = {"nist", "cider"}


def of_board(
    name: str, title: str, recipe: Recipe, board: Board, extra: Iterable[str] = (), systems: Sequence[System] = SYSTEMS
) -> Table:
    """The table of texts beside the systems of a board, with the measures that these have.

    Args:
        extra: further measures of ours, by their names among those of faithfulness.
    """
    measured = dict.fromkeys(score for system in board.systems for score in system.scores)
    scores = {
        score: f"{board.protocol if score in PROTOCOLS[board.protocol] else 'faithfulness'}/{score}"
        for score in measured
    } | {score: f"faithfulness/{score}" for score in extra}
    return Table(
        name,
        title,
        recipe,
        board.corpus,
        board.split,
        tuple(Column(score, 4 if score in _FOUR_DIGITS else 2) for score in scores),
        tuple(systems),
        tuple(Line(system.name, system.key, scores) for system in systems),
        board.systems,
        f"protocol {board.protocol}: {board.how}",
        board.inputs - board.unusable,
    )


def _board(corpus: str, split: str, trained_on: str) -> Board:
    (found,) = (b for b in BOARDS if (b.corpus, b.split, b.trained_on) == (corpus, split, trained_on))
    return found


WEBNLG = Recipe("webnlg", "webnlg", "webnlg-quick")
WEBNLG_LONG = Recipe("webnlg-long", "webnlg", "webnlg-long")
E2E = Recipe("e2e", "e2e", "e2e-quick")
E2E_CLEANED = Recipe("e2e-cleaned", "e2e-cleaned", "e2e-cleaned-quick")

AGGGEN = next(system for system in SYSTEMS if system.key == "agggen")
_HUMAN = ("webnlg-plans", "test", 100)
"""The corpus that people annotated: its split, and its inputs."""


def _plans() -> Table:
    chance = ("ami", "ari")  # NMI likes plans that group nothing; these do not
    compared = ("nmi_max", "nmi_avg", "tau_max", "tau_avg", *chance)
    ours = {name: f"plans/{name}" for name in (*compared, "groups")}
    people = {name: f"plans/human_{name}" for name in compared} | {"groups": "plans/reference_groups"}
    columns = tuple(Column(name, 2 if name == "groups" else 4) for name in ours)
    lines = (Line("people, among themselves", AGGGEN.key, people), Line(AGGGEN.name, AGGGEN.key, ours))
    corpus, split, inputs = _HUMAN
    title = "Most likely plans beside people's, WebNLG"
    return Table("plans", title, WEBNLG, corpus, split, columns, (AGGGEN,), lines, PLANNING, inputs=inputs)


def _alignment() -> Table:
    measured = (
        "precision",
        "recall",
        "f1",
        "accuracy",
    )  # recall: of the triples that got any fact; accuracy: the right
    lines = tuple(
        Line(name, AGGGEN.key, {measure: f"alignment/{who}_{measure}" for measure in measured})
        for name, who in (("AggGen, Viterbi", "viterbi"), ("rule-based", "rule_based"))
    )
    columns = tuple(map(Column, measured))
    corpus, split, inputs = _HUMAN
    title = "Alignments beside people's, WebNLG"
    return Table("alignment", title, WEBNLG, corpus, split, columns, (AGGGEN,), lines, ALIGNMENT, inputs=inputs)


_ALL = (
    of_board(
        "webnlg",
        "WebNLG 2017, seen categories",
        WEBNLG,
        _board("webnlg", "test-seen", "webnlg"),
        ("coverage",),  # it has no slot errors, and the check of values would not show
    ),
    of_board(
        "webnlg-long",
        "WebNLG 2017, seen categories, trained longer",
        WEBNLG_LONG,
        _board("webnlg", "test-seen", "webnlg"),
        ("coverage",),
    ),
    of_board("e2e", "E2E, trained and tested on the original", E2E, _board("e2e", "test", "e2e")),
    of_board(
        "e2e-cross", "E2E, trained on the original, tested on the cleaned", E2E, _board("e2e-cleaned", "test", "e2e")
    ),
    of_board(
        "e2e-cleaned",
        "E2E, trained and tested on the cleaned",
        E2E_CLEANED,
        _board("e2e-cleaned", "test", "e2e-cleaned"),
    ),
    _plans(),
    _alignment(),
)
TABLES: dict[str, Table] = {table.name: table for table in _ALL}
"""The tables by name."""


def table_called(name: str) -> Table:
    """The table of that name.

    Raises:
        ConfigError: there is none; names the nearest.
    """
    if name in TABLES:
        return TABLES[name]
    near = get_close_matches(name, TABLES, 1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise ConfigError(f"no table is called {name!r}; {hint}There are {', '.join(TABLES)}")


def check_overrides(overrides: Sequence[str]) -> None:
    """Passes if a user may set all of these for the trainings of a table.

    Raises:
        ConfigError: one changes what makes the table what it is: its corpus, its stages, how its systems write.
    """
    for override in overrides:
        key = override.partition("=")[0].strip()
        if key.split(".")[0] in ("corpus", "inference") or key in _OF_THE_TABLE:
            raise ConfigError(
                f"{override}: the table itself decides {key}; settings of the machine, such as training.threads=1, "
                "can be given, and so can the model's sizes and the stages' schedules"
            )
