"""How far a run fell behind a reference, as a share of it."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.checklist import load_checklist
from trainwright.tools.gates.checks.finalization import drift, drift_bounded
from trainwright.tools.gates.phases import Phase
from trainwright.trainer.base.section import EpisodesEntry


@pytest.mark.requirement("PIPE-3")
@pytest.mark.parametrize(
    ("value", "reference", "direction", "share"),
    [
        (0.9, 1.0, "maximize", 0.1),
        (1.0, 0.8, "maximize", -0.25),
        (1.1, 1.0, "minimize", 0.1),
        (0.5, 1.0, "minimize", -0.5),
        (-1.2, -1.0, "maximize", 0.2),  # a log-likelihood
        (0.0, 0.0, "minimize", 0.0),
        (0.1, 0.0, "minimize", math.inf),
        (0.1, 0.0, "maximize", -math.inf),
        (math.nan, 1.0, "minimize", math.inf),
        (1.0, math.nan, "maximize", math.inf),
    ],
)
def test_the_share_by_which_a_value_is_worse(value: float, reference: float, direction: str, share: float) -> None:
    assert drift(value, reference, direction) == pytest.approx(share)


@pytest.mark.requirement("PIPE-3", "GATE-2")
@pytest.mark.parametrize(("value", "status"), [(0.95, "passed"), (0.855, "passed"), (0.84, "failed"), (None, "failed")])
def test_a_final_run_that_fell_behind_the_baseline_is_refused_with_both_values(value: Any, status: str) -> None:
    def run(name: str, best: float | None) -> Any:
        return SimpleNamespace(
            id=name, best_value=lambda metric: best, row=SimpleNamespace(config_digest="tuned"), is_complete=True,
            certified=lambda split: {"accuracy": best}, evaluation=evaluation,
        )  # fmt: skip

    record: dict[str, Any] = {"rows": 100, "intervals": {"accuracy": [0.78, 0.91]}}
    evaluation = SimpleNamespace(splits={"validation": record})
    evidence: Any = SimpleNamespace(
        goal_metric="accuracy",
        goal={"direction": "maximize"},
        export=None,
        project=SimpleNamespace(goal={"direction": "maximize"}),
        baseline=run("baseline-1", 0.9),
        final=run("final-1", value),
        final_value=lambda metric: value,
        config_digest="planned",
        confirmation={"best_parameters": {"optimizer.learning_rate": 0.5}},
        final_values=None,
        config=SimpleNamespace(evaluation_gate=None),
        facts=SimpleNamespace(overlay=lambda run_id: {}),
        call=lambda tool, why, **arguments: NextCall(tool=tool, why=why, arguments=arguments),
        start=lambda kind: NextCall(tool="start_training", arguments={"kind": kind}, why="again"),
    )
    line = next(line for line in load_checklist(Phase.FINALIZATION).checks if line.id == "finalization.drift_bounded")
    found = drift_bounded(evidence, line)
    assert found.status == status
    assert found.required == "worse than the baseline by at most 5 %"
    if value == 0.84:
        assert found.measured == "validation accuracy 0.84, baseline 0.9: 6.67 % worse"
        assert found.next is not None
        assert "compare_runs(run_ids=['baseline-1', 'final-1'])" in found.next.why
        assert found.next.arguments == {"changes": {"optimizer.learning_rate": 0.5}}, "it gets a baseline of its own"
        evidence.config_digest = "tuned"
        evidence.config.evaluation_gate = SimpleNamespace(max_drift=0.1, baseline=None)
        assert drift_bounded(evidence, line).status == "passed", "the project's own bound"
        evidence.config.evaluation_gate = SimpleNamespace(max_drift=None, baseline=None)
        again = drift_bounded(evidence, line).next
        assert again is not None
        assert (again.tool, again.arguments) == ("compare_runs", {"run_ids": ["baseline-1", "final-1"]})
        evidence.final.id = "baseline-1"  # whose program drifted from it
        looked = drift_bounded(evidence, line).next
        assert looked is not None
        assert "code that differs between train and eval mode" in looked.why, "a run is not compared with itself"


@pytest.mark.requirement("PIPE-3", "GATE-2")
@pytest.mark.parametrize(
    ("count", "interval", "status", "episodes"),
    [
        (100, [0.78, 0.91], "passed", None),
        (100, [0.78, 0.89], "failed", None),  # the baseline's 0.9 is beyond it
        (10, [0.78, 0.91], "failed", 30),
        (10, None, "failed", 30),
        (60, None, "failed", None),  # all gave 0.84, and the baseline's did not
        (100, [0.30, 0.99], "failed", 236),  # half of 0.69, where 5 times 5 % of 0.9 are 0.225
    ],
)
def test_other_episodes_excuse_a_difference_where_there_are_enough_of_them(
    count: int, interval: list[float] | None, status: str, episodes: int | None
) -> None:
    record = {"episodes": {"score": {"count": count, "drawn": 1}}, "intervals": {"score": interval} if interval else {}}
    final = SimpleNamespace(
        id="final-1", is_complete=True, certified=lambda split: {"score": 0.84},
        evaluation=SimpleNamespace(splits={"validation": record}), row=SimpleNamespace(config_digest="planned"),
    )  # fmt: skip
    baseline = SimpleNamespace(id="baseline-1", best_value=lambda metric: 0.9)
    goal = {"direction": "maximize"}
    own = EpisodesEntry(use="game.py:score", episodes=count)
    evidence: Any = SimpleNamespace(
        goal_metric="score", goal=goal, project=SimpleNamespace(goal=goal), export=None, baseline=baseline, final=final,
        final_value=lambda metric: 0.84, config_digest="planned", confirmation={}, final_values=None,
        config=SimpleNamespace(evaluation_gate=None, metrics=["accuracy", own]),
        facts=SimpleNamespace(overlay=lambda run_id: {}),
        call=lambda tool, why, **arguments: NextCall(tool=tool, why=why, arguments=arguments),
    )  # fmt: skip
    line = next(line for line in load_checklist(Phase.FINALIZATION).checks if line.id == "finalization.drift_bounded")
    found = drift_bounded(evidence, line)
    assert found.status == status
    assert ("too few to tell it from chance" in found.measured) == (episodes is not None)
    if episodes is not None:
        assert found.next is not None
        (plain, raised) = found.next.arguments["changes"]["metrics"]
        assert (plain, raised["use"], raised["episodes"]) == ("accuracy", "game.py:score", episodes)


@pytest.mark.requirement("PIPE-3", "GATE-2")
def test_a_baseline_of_which_nothing_is_known_can_be_taken_out_with_the_gains_over_it() -> None:
    gate = SimpleNamespace(max_drift=None, baseline="churn/final-1", least_gain={"accuracy": 0.01})
    beside = {"name": "churn/final-1", "project": "", "problem": "There is no run"}
    evaluation = SimpleNamespace(beside=beside)
    run = SimpleNamespace(id="final-1", evaluation=evaluation, best_value=lambda metric: 0.9,
                          row=SimpleNamespace(config_digest="planned"))  # fmt: skip
    evidence: Any = SimpleNamespace(
        name="flowers", goal_metric="accuracy", project=SimpleNamespace(goal={"direction": "maximize"}),
        baseline=run, final=run, export=None, final_value=lambda metric: 0.9, config_digest="planned",
        confirmation={}, final_values=None, config=SimpleNamespace(evaluation_gate=gate),
        facts=SimpleNamespace(overlay=lambda run_id: {}),
        call=lambda tool, why, **arguments: NextCall(tool=tool, why=why, arguments=arguments),
    )  # fmt: skip
    line = next(line for line in load_checklist(Phase.FINALIZATION).checks if line.id == "finalization.drift_bounded")
    found = drift_bounded(evidence, line)
    assert (found.status, "churn/final-1: There is no run" in found.measured) == ("failed", True)
    assert found.next is not None
    changes = {"evaluation_gate.baseline": None, "evaluation_gate.least_gain": None}
    assert (found.next.tool, found.next.arguments) == ("configure", {"changes": changes})
