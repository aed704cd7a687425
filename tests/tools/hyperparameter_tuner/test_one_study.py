"""One study with known curves, to its end: what each trial becomes, what is confirmed, and what the report says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.worlds.records import Script
from tests.worlds.scripted import scripted

from trainwright.tools import ledger
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.improvement import measure_improvement
from trainwright.tools.hyperparameter_tuner import StudyView, start_study, study_status, tuning_report
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, FAILED, PRUNED, trials_of
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_study
from trainwright.trainer.run import Failure, RunSpecification

RATE, EPOCHS = "optimizer.learning_rate", 4
PLAIN, LATE, BEST, BROKEN, BASELINE = 1e-3, 0.1, 0.03, 1.0, 1e-6
RATES = [PLAIN, 0.01, LATE, BEST, BROKEN]
QUALITY = {PLAIN: 0.5, 0.01: 0.6, LATE: 0.1, BEST: 0.8, BROKEN: 0.99, BASELINE: 0.3}
SEARCH: dict[str, Any] = {
    "method": "grid",
    "space": {RATE: {"type": "categorical", "choices": RATES}},
    "pruning": {"name": "median", "startup_trials": 2, "warmup_epochs": 1},
    "confirmation_repeats": 3,
}
UNLUCKY = Failure(category="user_code", message="The model raised: one is unlucky.", remedy="Correct it.")


def seeds_share(seed: int) -> float:
    """What a seed adds to both sides of the comparison."""
    return seed % 5 / 1000


def curve(plan: RunSpecification, epoch: int) -> dict[str, float]:
    """Value by epoch; that of `LATE` would end best if it were not pruned before."""
    rate = plan.config.optimizer.learning_rate
    assert rate is not None
    value = 0.98 if (rate, epoch) == (LATE, EPOCHS) else QUALITY[rate] - 0.01 * (EPOCHS - epoch)
    return {"loss": 1 - value, "accuracy": value + (0 if plan.config.seed == 42 else seeds_share(plan.config.seed))}


def by_epoch(rate: float) -> dict[int, float]:
    return {epoch: QUALITY[rate] - 0.01 * (EPOCHS - epoch) for epoch in range(1, EPOCHS + 1)}


@pytest.fixture(scope="module")
def study(module_workspace: Workspace, make_project: Callable[..., str]) -> StudyView:
    make_project(module_workspace, training={"epochs": EPOCHS})
    script = Script(
        curve=curve, failure=lambda plan: UNLUCKY if plan.config.optimizer.learning_rate == BROKEN else None
    )
    with scripted(script) as launcher:
        view = start_study(module_workspace, "digits", search=SEARCH)
        launcher.wait()
        return study_status(module_workspace, view.study_id)


@pytest.mark.requirement("TUNE-2", "TUNE-5")
def test_a_trial_counts_by_its_best_epoch_or_is_pruned_or_failed(module_workspace: Workspace, study: StudyView) -> None:
    with module_workspace.session() as session:
        table = trials_of(session, study.study_id)
    assert [trial.parameters[RATE] for trial in table] == RATES
    assert [trial.state for trial in table] == [COMPLETED, COMPLETED, PRUNED, COMPLETED, FAILED]
    assert [trial.value for trial in table] == pytest.approx([0.5, 0.6, None, 0.8, None])
    assert table[2].intermediate == pytest.approx({1: by_epoch(LATE)[1]}), "its run went on, and leaves no trace"
    for trial in (table[0], table[1], table[3]):
        assert trial.intermediate == pytest.approx(by_epoch(trial.parameters[RATE]))
    assert table[4].attributes["cause"] == UNLUCKY.model_dump(include={"category", "message", "remedy"})
    assert (study.completed, study.pruned, study.failed) == (3, 1, 1)
    assert study.best is not None
    assert (study.best.number, study.best.value) == (3, pytest.approx(0.8))


@pytest.mark.requirement("PHASE-5", "TUNE-5")
def test_the_improvement_is_measured_on_repeated_seeds(module_workspace: Workspace, study: StudyView) -> None:
    found = study.confirmation
    assert study.state == "completed", study.failure
    assert found is not None
    assert study.best is not None
    assert (found["best_trial"], found["best_parameters"], found["validated"]) == (3, {RATE: BEST}, True)
    for side, rate in (("baseline", BASELINE), ("best", BEST)):
        assert len(set(found[f"{side}_runs"])) == 3
        assert found[side] == pytest.approx([QUALITY[rate] + seeds_share(seed) for seed in found["seeds"]])
        plans = [module_workspace.run_directory("digits", run).specification() for run in found[f"{side}_runs"]]
        assert [plan.config.seed for plan in plans] == found["seeds"]
        assert {plan.config.optimizer.learning_rate for plan in plans} == {rate}
    told = study.shown()
    assert told["confirmation"].keys() & {"best_trial", "best_parameters", "best_runs", "metric"} == set(), "beside it"
    assert {"seeds", "baseline", "best", "improvement_mean", "validated"} <= told["confirmation"].keys()
    assert told["others"]
    assert "others" not in study.model_copy(update={"state": "confirming"}).shown()
    assert study.shown(full=True)["confirmation"] == found
    assert found["differences"] == pytest.approx([0.5] * 3)
    assert found["improvement_mean"] == pytest.approx(0.5)
    assert 42 not in found["seeds"]
    assert study.best.run_id not in found["best_runs"]  # the value by which it was chosen does not speak for it
    with module_workspace.session() as session:
        entries = [body for _, body in ledger.entries(session, "digits", "study")]
    assert [body["state"] for body in entries] == ["running", "confirming", "completed"]
    assert entries[-1]["confirmation"] == found


@pytest.mark.requirement("PHASE-5", "GATE-1", "GATE-5")
def test_a_confirmation_on_chosen_seeds_stands_against_the_improvement(
    module_workspace: Workspace, study: StudyView
) -> None:
    with module_workspace.session() as session:
        evidence = Evidence(session, module_workspace, "digits")
        _, honest = measure_improvement(evidence)
        claimed = evidence.confirmation
        assert study.best is not None
        for favourable in (  # the trial's own value among the repetitions, or the order in which they look best
            claimed
            | {"seeds": [42, *claimed["seeds"][1:]], "best_runs": [study.best.run_id, *claimed["best_runs"][1:]]},
            claimed | {name: claimed[name][::-1] for name in ("seeds", "baseline_runs", "best_runs")},
        ):
            vars(evidence)["confirmation"] = favourable
            _, problems = measure_improvement(evidence)
            assert any("confirmed on the seeds" in problem for problem in problems)
    assert not any("confirmed on the seeds" in problem for problem in honest)


@pytest.mark.requirement("TUNE-4")
def test_the_report_tells_best_confirmation_pruning_and_every_trial(
    module_workspace: Workspace, study: StudyView
) -> None:
    with module_workspace.session() as session:
        report = tuning_report(session, module_workspace, get_study(session, study.study_id))
        trials = trials_of(session, study.study_id)
    assert f"Trial 3 (run `{trials[3].run}`)" in report
    assert "The improvement holds" in report
    assert "The project has run 1 study on this configuration." in report
    assert "trial 2 at epoch 1: 3 of 16 planned epochs saved (19%)." in report
    assert "- trial 4: The model raised: one is unlucky." in report
    for trial in trials:
        assert f"| {trial.number} | {trial.state} |" in report
    for name in ("tuning_history.png", "tuning_slices.png", "tuning_intermediate.png"):
        assert f"plots/{name}" in report
        assert (module_workspace.project_folder("digits") / "plots" / name).stat().st_size > 5000
