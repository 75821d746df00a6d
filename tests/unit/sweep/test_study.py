"""The study without Ray: resumption after kills, with a real journal; successive halving."""

from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.trial import TrialState

from agggen.errors import ConfigError
from agggen_platform.sweep.config import AshaConfig, SweepConfig, parse_space
from agggen_platform.sweep.study import JOURNAL, Epochs, Study, Suggestion, is_rung, open_study, should_prune

SPACE: dict[str, dict[str, list[Any]]] = {
    "model.predicate_dim": {"choice": [8, 16, 32]},
    "training.joint.learning_rate": {"log_uniform": [1e-4, 1e-2]},
}
EPOCHS = Epochs(baseline=2, joint=4)
ENDED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)


def settings(**changed: Any) -> SweepConfig:
    return SweepConfig(**{"space": SPACE, "trials": 14, "asha": AshaConfig(2, 2)} | changed)


def opened(folder: Path, config: SweepConfig | None = None) -> Study:
    """The study, restored from the journal as by a new process."""
    config = config or settings()
    return Study(open_study(folder, "s", {"seed": config.seed}), config, parse_space(SPACE), EPOCHS)


def losses(suggestion: Suggestion) -> Iterator[tuple[str, int, float]]:
    """The evaluations of a training with these parameters."""
    rate, size = float(str(suggestion.params["training.joint.learning_rate"])), suggestion.params["model.predicate_dim"]
    floor = abs(rate - 2e-3) * 100 + abs(int(str(size)) - 16) / 16
    for stage, epochs in (("baseline", EPOCHS.baseline), ("joint", EPOCHS.joint)):
        for epoch in range(1, epochs + 1):
            yield stage, epoch, floor + 1 / epoch + (stage == "baseline")


def suggested(study: Study) -> Suggestion:
    """The next suggestion; there must be one."""
    suggestion = study.next()
    assert suggestion is not None
    return suggestion


def drive(study: Study, calls: int = 10**6) -> list[int]:
    """Runs one trial at a time until all have ended or, as if killed, for `calls` calls of the study.

    Returns the numbers of the trials.
    """
    numbers: list[int] = []

    def run() -> Iterator[None]:
        """Pauses before each call."""
        while True:
            yield
            if (suggestion := study.next()) is None:
                return
            numbers.append(number := suggestion.number)
            reported = len(study.trials()[number].intermediate_values)
            # Training resumes from a checkpoint, so an evaluation after it is reported again.
            for stage, epoch, loss in list(losses(suggestion))[max(0, reported - 1) :]:
                yield
                if study.report_evaluation(number, stage, epoch, loss):
                    break
            else:
                yield
                study.complete(number, f"bundle-{number}", f"run-{number}", 1.0)

    deque(islice(run(), calls + 1), maxlen=0)
    return numbers


def outcome(study: Study) -> list[tuple[Any, ...]]:
    return [(t.number, t.state, t.params, t.value, t.intermediate_values) for t in study.trials()]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Any, ...]]:
    study = opened(tmp_path_factory.mktemp("uninterrupted"))
    drive(study)
    return outcome(study)


@pytest.mark.parametrize("every", [6, 7, 11, 40])
def test_a_driver_that_is_killed_repeatedly_ends_with_the_same_study(
    every: int, uninterrupted: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    processes, continued = 0, 0
    while (study := opened(tmp_path)).remaining:
        assert study.remaining == 14 - len(study.trials(*ENDED))
        cut_off = [trial.number for trial in study.trials(TrialState.RUNNING)]
        assert drive(study, every)[: len(cut_off)] == cut_off
        processes += 1
        continued += len(cut_off)
    assert processes >= 2
    assert continued
    assert outcome(study) == uninterrupted
    assert study.next() is None


def test_a_trial_interrupted_before_its_suggestion_gets_the_same_parameters(
    uninterrupted: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    study = opened(tmp_path)
    study.optuna.ask()  # killed before the first parameter is stored
    repeated = opened(tmp_path).next()
    assert repeated == Suggestion(0, uninterrupted[0][2])


def test_a_trial_that_fell_behind_just_before_the_kill_is_not_continued(tmp_path: Path) -> None:
    study = opened(tmp_path)
    for number, loss in enumerate((1.0, 2.0)):
        study.next()
        study.report_evaluation(number, "baseline", 1, loss)
        study.optuna.tell = lambda *_, **__: None  # type: ignore[method-assign, assignment] # it is killed before
        assert study.report_evaluation(number, "baseline", 2, loss) is (number == 1)
    repeated = opened(tmp_path)
    assert [trial.state for trial in repeated.trials()] == [TrialState.RUNNING, TrialState.PRUNED]
    assert suggested(repeated).number == 0


def test_concurrent_trials_are_all_resumed_in_order(tmp_path: Path) -> None:
    study = opened(tmp_path)
    before = [suggested(study) for _ in range(3)]
    study.fail(1, "the loss is not finite")
    repeated = opened(tmp_path)
    assert repeated.remaining == 13
    after = [suggested(repeated) for _ in range(3)]
    assert [suggestion.number for suggestion in after] == [0, 2, 3]
    assert [after[0].params, after[1].params] == [before[0].params, before[2].params]


def test_a_larger_budget_extends_a_sweep_and_a_smaller_one_runs_nothing(tmp_path: Path) -> None:
    drive(opened(tmp_path, settings(trials=3)))
    assert opened(tmp_path, settings(trials=2)).next() is None
    more = opened(tmp_path, settings(trials=5))
    assert more.remaining == 2
    drive(more)
    assert [trial.number for trial in more.trials(*ENDED)] == [0, 1, 2, 3, 4]


def test_an_incomplete_line_and_a_lock_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    drive(opened(tmp_path, settings(trials=2)))
    journal = tmp_path / JOURNAL
    complete = journal.read_bytes()
    journal.write_bytes(complete + complete.splitlines()[-1][:20])
    journal.with_name(f"{JOURNAL}.lock").symlink_to(journal)
    repeated = opened(tmp_path, settings(trials=3))
    assert journal.read_bytes().startswith(complete)
    drive(repeated)
    assert len(opened(tmp_path, settings(trials=3)).trials(*ENDED)) == 3


def test_another_sweep_under_the_same_name_is_refused(tmp_path: Path) -> None:
    opened(tmp_path)
    with pytest.raises(ConfigError, match="the sweep s was begun with another seed; give another --name"):
        opened(tmp_path, settings(seed=2))


def test_another_seed_suggests_other_parameters(uninterrupted: list[tuple[Any, ...]], tmp_path: Path) -> None:
    assert suggested(opened(tmp_path, settings(seed=2))).params != uninterrupted[0][2]


def test_the_value_of_a_trial_is_its_best_evaluation_of_the_metrics_stage(tmp_path: Path) -> None:
    study = opened(tmp_path, settings(asha=None))
    study.next()
    for stage, epoch, loss in (("baseline", 1, 0.1), ("joint", 1, 3.0), ("joint", 2, 2.0), ("joint", 3, 2.5)):
        assert not study.report_evaluation(0, stage, epoch, loss)
    study.complete(0, "b", "r", 1.0)
    trial = study.trials()[0]
    assert trial.value == 2.0
    assert trial.intermediate_values == {1: 0.1, 3: 3.0, 4: 2.0, 5: 2.5}  # the baseline may have two epochs
    assert trial.user_attrs["bundle"] == "b"


def test_a_trial_without_the_metric_has_failed(tmp_path: Path) -> None:
    study = opened(tmp_path)
    study.next()
    assert not study.report_evaluation(0, "joint", 1, None)
    study.complete(0, "b", "r", 1.0)
    trial = study.trials()[0]
    assert (trial.state, trial.user_attrs["reason"]) == (TrialState.FAIL, "it never reported joint/dev_loss")
    assert study.best() is None


def test_a_stopped_trial_stays_stopped(tmp_path: Path) -> None:
    """Its process may die before it is stopped and then be restarted."""
    study = opened(tmp_path)
    for number, loss in enumerate((1.0, 2.0)):
        study.next()
        assert study.report_evaluation(number, "baseline", 2, loss) is (number == 1)
    assert study.report_evaluation(1, "baseline", 2, 2.0)
    assert study.report_evaluation(1, "joint", 1, 0.0)
    study.complete(1, "b", "r", 1.0)
    study.fail(1, "it died")
    assert [trial.state for trial in study.trials()] == [TrialState.RUNNING, TrialState.PRUNED]


def test_rungs_are_the_grace_times_powers_of_the_factor_before_the_end() -> None:
    asha = AshaConfig(grace=2, factor=3)
    assert [position for position in range(1, 60) if is_rung(position, asha, 54)] == [2, 6, 18]
    assert [position for position in range(1, 60) if is_rung(position, asha, 55)] == [2, 6, 18, 54]


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=30, unique=True), st.integers(2, 5))
def test_one_in_factor_trials_at_a_rung_continues(values: list[float], factor: int) -> None:
    continued = [v for i, v in enumerate(values) if not should_prune(v, values[:i] + values[i + 1 :], factor)]
    assert sorted(continued) == sorted(values)[: max(1, len(values) // factor)]
    assert not should_prune(min(values), [min(values)], factor), "tied with the best"
