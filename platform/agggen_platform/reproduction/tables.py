"""The reproducible tables: recipes, systems, measures and published scores.

All recipes and inference settings were chosen on development data.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agggen.config import Scalar
from agggen.errors import ConfigError, hint
from agggen.evaluation.protocols import PROTOCOLS
from agggen.evaluation.published import ALIGNMENT, BOARDS, PLANNING, Board, PublishedSystem

Model = Literal["transformer", "agggen", "student"]
"""A student is trained on texts of AggGen models; see `agggen_platform.distillation`."""
MODELS: tuple[Model, ...] = ("transformer", "agggen")
"""The models trained on the corpus itself, in the order of training."""
TEACHERS = (1, 2, 3)
"""The seeds of the AggGen models that generate the training texts of every student."""
SUBSETS = 20_000
"""Maximum number of subsets of training records for which teachers generate texts. WebNLG has 12,444."""

_SINGLE_STAGE = {"transformer": "training.joint.epochs=0", "agggen": "training.baseline.epochs=0"}
_MACHINE_KEYS = ("training.threads", "training.device", "cluster.", "storage.", "tracking.")
_TABLE_KEYS = ("corpus", "inference", "training.seed", "training.start")
_PLAN_MEASURES = ("nmi_max", "nmi_avg", "tau_max", "tau_avg", "ami", "ari")
FOUR_DIGITS = frozenset({"nist", "cider", *_PLAN_MEASURES})  # measures that are printed with four decimal places
_PLAN_SETTINGS = ("planner", "top_p", "order_beam", "aggregations", "level", "ablation", "group_reward", "seed")


@dataclass(frozen=True)
class Recipe:
    """The settings for training the models of a corpus.

    AggGen starts from the weights of the plain Transformer, and the student (only for some tables) from AggGen's.
    """

    name: str  # prefix of the runs' names
    corpus: str  # the name of the corpus in the catalogue
    preset: str
    overrides: tuple[str, ...] = ()

    def run_name(self, model: Model, seed: int) -> str:
        return f"{self.name}-{model}-{seed}"

    def result_settings(self, user_overrides: Sequence[str] = ()) -> tuple[str, ...]:
        """The preset and the overrides that affect the trained models, without settings of the machine."""
        overrides = (*self.overrides, *user_overrides)
        return (self.preset, *(override for override in overrides if not override.startswith(_MACHINE_KEYS)))

    def settings(self, model: Model, seed: int, user_overrides: Sequence[str] = (), start: str = "") -> list[str]:
        """The overrides of one training; `start`: the address of the Transformer's bundle, from which AggGen starts."""
        start_from = [f"training.start={start}"] if start and model == "agggen" else []
        return [*self.overrides, *user_overrides, _SINGLE_STAGE[model], f"training.seed={seed}", *start_from]


@dataclass(frozen=True)
class System:
    """A trained model with inference settings; each system and seed has one evaluation and one record."""

    key: str  # identifies the system in names of records
    name: str  # the name in the table
    model: Model
    inference: tuple[str, ...] = ()  # overrides of the recipe's inference settings
    phrases: str | None = None
    """Sentences for unknown predicates: a corpus with texts about single triples, or a file; see `adjusted_bundle`."""


@dataclass(frozen=True)
class SystemRow:
    """The row of one of our systems."""

    name: str  # if a published system has the same name, the row is placed after it
    system: str  # `System.key`
    scores: Mapping[str, str]  # column -> ``section/name`` of the score in the report


@dataclass(frozen=True)
class Table:
    """A table of the paper."""

    name: str
    title: str
    recipe: Recipe
    corpus: str
    split: str  # each system is evaluated once on this split of `corpus`
    columns: tuple[str, ...]  # names of measures
    systems: tuple[System, ...]
    system_rows: tuple[SystemRow, ...]
    published: tuple[PublishedSystem, ...] = ()
    published_protocol: str = ""  # how the published scores were computed
    inputs: int | None = None  # number of test records of the published scores; None: unknown

    def score_settings(self, settings: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """The inference settings that affect the scores: for tables of plans and alignments, only planning settings."""
        measures = [name for system_row in self.system_rows for name in system_row.scores.values()]
        is_plan_table = all(name.startswith(("plans/", "alignment/")) for name in measures)
        return {name: value for name, value in settings.items() if not is_plan_table or name in _PLAN_SETTINGS}


_AS_PUBLISHED = ("verify=off", "choice=score", "plan_weight=1")  # by the joint probability, equation 9 of the paper
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


def table_of_texts(
    name: str,
    title: str,
    recipe: Recipe,
    board: Board,
    extra_measures: Iterable[str] = (),
    systems: tuple[System, ...] = SYSTEMS,
) -> Table:
    """A table of the published systems of `board` and ours, with the board's measures and further ones of ours."""
    measures = [*dict.fromkeys(score for system in board.systems for score in system.scores), *extra_measures]
    protocol_metrics = PROTOCOLS[board.protocol]
    scores = {score: f"{board.protocol if score in protocol_metrics else 'faithfulness'}/{score}" for score in measures}
    system_rows = tuple(SystemRow(system.name, system.key, scores) for system in systems)
    protocol = f"protocol {board.protocol}: {board.method}" if board.systems else ""
    ours = (tuple(scores), systems, system_rows)
    return Table(name, title, recipe, board.corpus, board.split, *ours, board.systems, protocol, board.inputs)


def _board(corpus: str, split: str, trained_on: str) -> Board:
    key = (corpus, split, trained_on)
    return next(board for board in BOARDS if (board.corpus, board.split, board.trained_on) == key)


_WEBNLG = Recipe("webnlg", "webnlg", "webnlg-quick")
_WEBNLG_3_SETTINGS = (  # nearly as many updates as in _WEBNLG; without coverage, as in the shipped records
    *("corpus.name=webnlg-3.0", "corpus.test=dev", "training.baseline.epochs=4", "training.joint.epochs=1"),
    *("training.precision=bfloat16", "model.coverage=false"),
)
_WEBNLG_3 = Recipe("webnlg-3.0", "webnlg-3.0", "webnlg-quick", _WEBNLG_3_SETTINGS)
_E2E = Recipe("e2e", "e2e", "e2e-quick", ("training.joint.alignment_penalty=null",))  # as in the shipped records
_E2E_CLEANED = Recipe("e2e-cleaned", "e2e-cleaned", "e2e-cleaned-quick")
_ELEMENTS = Recipe("elements", "elements", "elements")


def _annotation_table(
    name: str, title: str, rows: Mapping[str, Mapping[str, str]], published: tuple[PublishedSystem, ...]
) -> Table:
    """Scores on the 100 records with human plans and alignments (`webnlg-plans`); each row has all columns."""
    columns = tuple(next(iter(rows.values())))
    system_rows = tuple(SystemRow(row, _AGGGEN.key, scores) for row, scores in rows.items())
    test_data = ("webnlg-plans", "test")
    return Table(name, title, _WEBNLG, *test_data, columns, (_AGGGEN,), system_rows, published, inputs=100)


def _build_tables() -> Iterable[Table]:
    webnlg = _board("webnlg", "test-seen", "webnlg")
    values = ("values_whole", "values_lenient", "invented")
    slots = ("values_whole", "invented")  # the E2E boards have slot error rates instead of values_lenient
    systems_with_student = (*SYSTEMS, _STUDENT)
    yield table_of_texts("webnlg", "WebNLG 2017, seen categories", _WEBNLG, webnlg, values, systems_with_student)
    unseen = _board("webnlg", "test-unseen", "webnlg")
    yield table_of_texts("webnlg-unseen", "WebNLG 2017, unseen categories", _WEBNLG, unseen, values, _UNSEEN_SYSTEMS)
    own_board = Board("webnlg-3.0", "dev", 1667, "webnlg-3.0", "webnlg-2017", "", ())  # the test set is reserved
    title = "WebNLG 3.0, development set"
    yield table_of_texts("webnlg-3.0", title, _WEBNLG_3, own_board, ("bleu", "meteor", "ter", *values), SYSTEMS[:2])
    for name, title, recipe, corpus in (
        ("e2e", "E2E, trained and tested on the original data", _E2E, "e2e"),
        ("e2e-cross", "E2E, trained on the original, tested on the cleaned data", _E2E, "e2e-cleaned"),
        ("e2e-cleaned", "E2E, trained and tested on the cleaned data", _E2E_CLEANED, "e2e-cleaned"),
    ):
        yield table_of_texts(name, title, recipe, _board(corpus, "test", recipe.corpus), slots)
    own_board = Board("elements", "test", 72, "elements", "plain", "", ())
    yield table_of_texts("elements", "Elements, which ships with agggen", _ELEMENTS, own_board, ("bleu", *values))
    plan_rows = {
        "between humans": {name: f"plans/human_{name}" for name in _PLAN_MEASURES}
        | {"groups": "plans/reference_groups"},
        _AGGGEN.name: {name: f"plans/{name}" for name in (*_PLAN_MEASURES, "groups")},
    }
    yield _annotation_table("plans", "Most probable plans and human plans, WebNLG", plan_rows, PLANNING)
    measures = ("precision", "recall", "f1", "accuracy")  # recall as in the paper: the share of aligned triples
    alignment_rows = {
        "AggGen, Viterbi": {name: f"alignment/viterbi_{name}" for name in measures},
        "rule-based": {name: f"alignment/rule_based_{name}" for name in measures},
    }
    yield _annotation_table("alignment", "Automatic and human alignments, WebNLG", alignment_rows, ALIGNMENT)


TABLES: dict[str, Table] = {table.name: table for table in _build_tables()}


def find_table(name: str) -> Table:
    """The table called `name`; raises ConfigError, which suggests the most similar name, if there is none."""
    if name in TABLES:
        return TABLES[name]
    raise ConfigError(f"no table is called {name!r}; {hint(name, TABLES)}")


def check_overrides(overrides: Sequence[str]) -> None:
    """Raises ConfigError if an override changes corpus, seed, start or inference, which the table sets."""
    for override in overrides:
        key = override.partition("=")[0].strip()
        if key in _TABLE_KEYS or key.split(".")[0] in _TABLE_KEYS:
            raise ConfigError(
                f"{override}: {key} is set by the table; allowed are settings of the machine, such as "
                "training.threads=1, the model's sizes and the schedules of the training stages"
            )
