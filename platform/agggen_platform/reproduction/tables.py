"""The tables that can be reproduced: recipes, systems, measures and published numbers.

All recipes and inference settings were chosen on development data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agggen.config import Scalar
from agggen.errors import ConfigError, hint
from agggen.evaluation.protocols import PROTOCOLS
from agggen.evaluation.published import ALIGNMENT, BOARDS, PLANNING, Board, Published
from agggen.evaluation.values import VALUES

Model = Literal["transformer", "agggen", "student"]
"""A student learns from texts of AggGen models; see `agggen_platform.distillation`."""
MODELS: tuple[Model, ...] = ("transformer", "agggen")
"""The models trained on the corpus itself, in the order of training."""
TEACHERS = (1, 2, 3)
"""The seeds of the AggGen models that write the texts of every student."""
SUBSETS = 20_000
"""The largest number of subsets of training records for which the teachers write texts. WebNLG has 12,444."""

_SINGLE_STAGE = {"transformer": "training.joint.epochs=0", "agggen": "training.baseline.epochs=0"}
_MACHINE_KEYS = ("training.threads", "training.device", "cluster.", "storage.", "tracking.")
_TABLE_KEYS = ("corpus", "inference", "training.seed", "training.start")
_PLAN_SETTINGS = ("planner", "top_p", "order_beam", "aggregations", "level", "ablation", "group_reward", "seed")


@dataclass(frozen=True)
class Recipe:
    """How the models of a corpus are trained: a plain Transformer; AggGen, which starts from the Transformer's weights;
    and, for some tables, a student, which starts from AggGen's weights.
    """

    name: str  # the first part of the runs' names
    corpus: str  # the name of the corpus in the catalogue
    preset: str
    overrides: tuple[str, ...] = ()

    def run_name(self, model: Model, seed: int) -> str:
        return f"{self.name}-{model}-{seed}"

    def result_settings(self, more: Sequence[str] = ()) -> tuple[str, ...]:
        """The preset and the overrides of all trainings, without overrides that only concern the machine."""
        overrides = (*self.overrides, *more)
        return (self.preset, *(override for override in overrides if not override.startswith(_MACHINE_KEYS)))

    def settings(self, model: Model, seed: int, more: Sequence[str] = (), start: str = "") -> list[str]:
        """The overrides of one training.

        Args:
            more: further overrides of the user; see `check_overrides`.
            start: the Transformer's bundle, from which AggGen's training starts.
        """
        start_from = [f"training.start={start}"] if start and model == "agggen" else []
        return [*self.overrides, *more, _SINGLE_STAGE[model], f"training.seed={seed}", *start_from]


@dataclass(frozen=True)
class System:
    """A trained model with inference settings; each system and seed has one evaluation and one record."""

    key: str  # the system's name in the names of records
    name: str
    model: Model
    inference: tuple[str, ...] = ()  # overrides of the recipe's inference settings
    phrases: str | None = None
    """Sentences for unknown predicates: a corpus with texts about single triples, or a file; see `adjusted_bundle`."""


@dataclass(frozen=True)
class Column:
    """A measure."""

    name: str
    digits: int = 2
    note: str = ""  # an explanation of the name, if needed


@dataclass(frozen=True)
class SystemRow:
    """The row of one of our systems."""

    name: str  # if a published system has the same name, the row follows it
    system: str  # the key of the system
    scores: Mapping[str, str]  # for each column, ``section/name`` of the score in the report


@dataclass(frozen=True)
class Table:
    """A table of the paper."""

    name: str
    title: str
    recipe: Recipe
    corpus: str
    split: str  # each system is evaluated once on this split of the corpus
    columns: tuple[Column, ...]
    systems: tuple[System, ...]
    lines: tuple[SystemRow, ...]
    published: tuple[Published, ...] = ()
    how: str = ""  # how the published numbers were computed
    inputs: int | None = None  # the number of test records of the published numbers; None: unknown

    def score_settings(self, settings: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """The settings that the scores depend on: only planning settings for scores of plans and alignments."""
        names = [name for line in self.lines for name in line.scores.values()]
        of_plans = all(name.startswith(("plans/", "alignment/")) for name in names)
        return {name: value for name, value in settings.items() if not of_plans or name in _PLAN_SETTINGS}


_AS_PUBLISHED = ("verify=off", "choice=score", "plan_weight=1")  # the joint probability of text and plan, equation 9
SYSTEMS = (
    System("transformer", "Transformer", "transformer", ("ablation=plain", *_AS_PUBLISHED)),
    System("agggen", "AggGen", "agggen"),
    System("agggen-od", "AggGen -OD", "agggen", ("ablation=random-order",)),
    System("agggen-ag", "AggGen -AG", "agggen", ("ablation=no-aggregation",)),
    System("agggen-free", "AggGen, unconstrained", "agggen", _AS_PUBLISHED),
)
_AGGGEN = SYSTEMS[1]
_STUDENT = System("agggen-student", "AggGen, distilled", "student")
_UNSEEN_SYSTEMS = (_AGGGEN, System("agggen-rel2text", "AggGen, sentences of Rel2Text", "agggen", phrases="rel2text"))
_FOUR_DIGITS = ("nist", "cider")


def table_of_texts(
    name: str,
    title: str,
    recipe: Recipe,
    board: Board,
    extra: Iterable[str] = (),
    systems: tuple[System, ...] = SYSTEMS,
) -> Table:
    """The systems of a board and ours, with the measures of the board.

    Args:
        extra: further measures, of the board's protocol or from `agggen.evaluation.values`, for our systems only.
    """
    measures = [*dict.fromkeys(score for system in board.systems for score in system.scores), *extra]
    of_protocol = PROTOCOLS[board.protocol]
    scores = {score: f"{board.protocol if score in of_protocol else 'faithfulness'}/{score}" for score in measures}
    columns = [Column(score, 4 if score in _FOUR_DIGITS else 2, VALUES.get(score, "")) for score in scores]
    return Table(
        name,
        title,
        recipe,
        board.corpus,
        board.split,
        tuple(columns),
        systems,
        tuple(SystemRow(system.name, system.key, scores) for system in systems),
        board.systems,
        f"protocol {board.protocol}: {board.how}" if board.systems else "",
        board.inputs,
    )


def _board(corpus: str, split: str, trained_on: str) -> Board:
    key = (corpus, split, trained_on)
    return next(board for board in BOARDS if (board.corpus, board.split, board.trained_on) == key)


_WEBNLG = Recipe("webnlg", "webnlg", "webnlg-quick")
_WEBNLG_LONG = Recipe("webnlg-long", "webnlg", "webnlg-long")
_WEBNLG_3 = Recipe(
    "webnlg-3.0",
    "webnlg-3.0",
    "webnlg-quick",
    (
        "corpus.name=webnlg-3.0",
        "corpus.test=dev",
        "training.baseline.epochs=4",  # nearly as many texts seen as on WebNLG 2017
        "training.joint.epochs=1",
        "training.precision=bfloat16",
    ),
)
_E2E = Recipe("e2e", "e2e", "e2e-quick", ("training.joint.alignment_penalty=null",))  # as in its existing records
_E2E_CLEANED = Recipe("e2e-cleaned", "e2e-cleaned", "e2e-cleaned-quick")
_ELEMENTS = Recipe("elements", "elements", "elements")


def _annotated(
    name: str,
    title: str,
    columns: Iterable[Column],
    rows: Mapping[str, Mapping[str, str]],
    published: tuple[Published, ...],
) -> Table:
    """A table about the 100 records that people annotated with plans."""
    lines = tuple(SystemRow(row, _AGGGEN.key, scores) for row, scores in rows.items())
    return Table(name, title, _WEBNLG, "webnlg-plans", "test", tuple(columns), (_AGGGEN,), lines, published, inputs=100)


def _plans() -> Table:
    names = ("nmi_max", "nmi_avg", "tau_max", "tau_avg", "ami", "ari")
    rows = {
        "people, among themselves": {name: f"plans/human_{name}" for name in names}
        | {"groups": "plans/reference_groups"},
        _AGGGEN.name: {name: f"plans/{name}" for name in (*names, "groups")},
    }
    columns = [*(Column(name, 4) for name in names), Column("groups")]
    return _annotated("plans", "Most likely plans beside people's, WebNLG", columns, rows, PLANNING)


def _alignment() -> Table:
    names = ("precision", "recall", "f1", "accuracy")  # recall as in the paper: the share of triples that have a fact
    rows = {
        "AggGen, Viterbi": {name: f"alignment/viterbi_{name}" for name in names},
        "rule-based": {name: f"alignment/rule_based_{name}" for name in names},
    }
    return _annotated("alignment", "Alignments beside people's, WebNLG", map(Column, names), rows, ALIGNMENT)


def _all() -> Iterable[Table]:
    webnlg = _board("webnlg", "test-seen", "webnlg")
    values = ("values_whole", "values_lenient", "invented")
    slots = ("values_whole", "invented")  # E2E's boards have slot error rates instead of values_lenient
    with_student = (*SYSTEMS, _STUDENT)
    yield table_of_texts("webnlg", "WebNLG 2017, seen categories", _WEBNLG, webnlg, values, with_student)
    unseen = _board("webnlg", "test-unseen", "webnlg")
    yield table_of_texts("webnlg-unseen", "WebNLG 2017, unseen categories", _WEBNLG, unseen, values, _UNSEEN_SYSTEMS)
    yield table_of_texts("webnlg-long", "WebNLG 2017, seen categories, trained longer", _WEBNLG_LONG, webnlg, values)
    unpublished = Board("webnlg-3.0", "dev", 1667, "webnlg-3.0", "webnlg-2017", "", ())  # the test set is not used yet
    title = "WebNLG 3.0, development set"
    yield table_of_texts("webnlg-3.0", title, _WEBNLG_3, unpublished, ("bleu", "meteor", "ter", *values), SYSTEMS[:2])
    for name, title, recipe, corpus in (
        ("e2e", "E2E, trained and tested on the original", _E2E, "e2e"),
        ("e2e-cross", "E2E, trained on the original, tested on the cleaned", _E2E, "e2e-cleaned"),
        ("e2e-cleaned", "E2E, trained and tested on the cleaned", _E2E_CLEANED, "e2e-cleaned"),
    ):
        yield table_of_texts(name, title, recipe, _board(corpus, "test", recipe.corpus), slots)
    unpublished = Board("elements", "test", 72, "elements", "plain", "", ())
    yield table_of_texts("elements", "Elements, which ships with agggen", _ELEMENTS, unpublished, ("bleu", *values))
    yield _plans()
    yield _alignment()


TABLES: dict[str, Table] = {table.name: table for table in _all()}


def find_table(name: str) -> Table:
    """The table called `name`; if there is none, raises ConfigError, which names the most similar one."""
    if name in TABLES:
        return TABLES[name]
    raise ConfigError(f"no table is called {name!r}; {hint(name, TABLES)}")


def check_overrides(overrides: Sequence[str]) -> None:
    """Raises ConfigError if an override sets what the table fixes: corpus, seed, start or inference settings."""
    for override in overrides:
        key = override.partition("=")[0].strip()
        if key in _TABLE_KEYS or key.split(".")[0] in _TABLE_KEYS:
            raise ConfigError(
                f"{override}: the table fixes {key}; settings of the machine, such as training.threads=1, "
                "can be given, and so can the model's sizes and the stages' schedules"
            )
