"""What a rival, or the user's own reference, scores is said with the model's figure wherever the model is spoken of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from trainwright.tools.gates.beside_rivals import baseline_outdone, beside_rivals, evaluated_text
from trainwright.tools.gates.folds import folds_advice
from trainwright.tools.gates.offers import exit_in_words, owners_exit
from trainwright.tools.gates.searches import chosen_keys
from trainwright.tools.ledger.events import RunEvaluated
from trainwright.tools.training_monitor.outdone import helping_changes, what_helps
from trainwright.trainer.config import parse_config
from trainwright.trainer.data.sections import SplitSection

GOAL = {"metric": "mae", "direction": "minimize", "target": 3.9}
OWN = "reference.py:predict"
CONFIG = parse_config({
    "model": {"use": "mlp"}, "data": {"use": "iris"}, "evaluation_gate": {"reference": OWN},
    "optimizer": {"learning_rate": 0.06, "weight_decay": 0.5},
})  # fmt: skip


def rival(told: str, mae: float, *ends: float) -> dict[str, Any]:
    return {"told": told, "metrics": {"mae": mae}, "paired": {"intervals": {"mae": list(ends)} if ends else {}}}


def evaluated(ours: float = 4.703, **rivals: dict[str, Any]) -> RunEvaluated:
    record = {"rows": 230, "metrics": {"mae": ours}, "rivals": rivals}
    return RunEvaluated(run_id="baseline-1", splits={"validation": record})


LAST, SEASON = rival("the last value", 2.591, 1.9, 2.3), rival("the value 4 rows before", 6.0, -2.0, -0.5)
REFERENCE = rival(f"your reference {OWN}", 4.6, -0.2, 0.4)


def evidence_of(found: RunEvaluated | None = None, **parts: Any) -> Any:
    directory = SimpleNamespace(specification=lambda: SimpleNamespace(config=CONFIG))
    run = SimpleNamespace(evaluation=found, directory=directory, best_value=lambda _: 4.53)
    given = {"confirmation": {}, "improvement": ({}, []), "entries": lambda _: []} | parts
    return SimpleNamespace(name="cigar", baseline=run, goal=GOAL, goal_metric="mae", config=CONFIG, **given)


@pytest.mark.requirement("PHASE-4", "PIPE-3")
def test_the_strongest_rival_and_the_reference_have_a_clause_each_with_the_verdict() -> None:
    found = evaluated(last_value=LAST, seasonal=SEASON, **{OWN: REFERENCE})
    assert [one.clause() for one in beside_rivals(found, GOAL, OWN)] == [
        "the last value is better (mae 2.591 against 4.703 of the model; difference +2.11, 95 % interval 1.9 to 2.3)",
        f"no better than your reference {OWN}, as far as these rows tell (mae 4.6 against 4.703 of the "
        "model; difference +0.103, 95 % interval -0.2 to 0.4)",
    ]
    (met, _) = beside_rivals(found, GOAL, OWN)
    assert met.clause(is_met=True).startswith("the goal is met, and the last value meets it better (mae 2.591")
    assert "your reference" in evaluated_text(found, GOAL, OWN), "the run's own answer has it"
    assert evaluated_text(found, GOAL, OWN).endswith(
        "The value 4 rows before: 6; difference -1.3 (95 % interval -2 to -0.5): the model is better."
    )


@pytest.mark.requirement("GATE-6")
def test_a_metric_that_says_another_thing_of_a_rival_is_told_and_own_ones_have_no_better_side() -> None:
    ends = {"mae": [-2.0, -1.0], "rmse": [-0.5, 0.5], "mse": [-1.0, 2.0], "r2": [0.1, 0.2], "mine": [1.0, 2.0]}
    seasonal = {"told": "the value 24 rows before", "metrics": {"mae": 6.0}, "paired": {"intervals": ends}}
    record = {"rows": 230, "metrics": dict.fromkeys(ends, 4.7), "rivals": {"seasonal": seasonal}, "own": ["mine"]}
    told = evaluated_text(RunEvaluated(run_id="baseline-1", splits={"validation": record}), GOAL, None)
    assert told.endswith(": the model is better. But by rmse (-0.5 to 0.5) and mse (-1 to 2): not told apart.")


@pytest.mark.requirement("GATE-6", "PIPE-3")
def test_where_few_rows_differ_every_sentence_says_which_and_what_the_exact_test_says_of_them() -> None:
    goal = {"metric": "accuracy", "direction": "maximize", "target": 0.8}
    ends = {"accuracy": [0.009, 0.073], "f1": [0.01, 0.08], "auc": [0.01, 0.02]}
    table = {"both": 88, "only_first": 4, "only_second": 0, "none": 18}
    linear, trees = (
        {"told": told, "metrics": {"accuracy": value}, "paired": {"rows": 110, "classes": table, "intervals": ends}}
        for told, value in (("a logistic regression", 0.8), ("TF-IDF", 0.79))
    )
    record = {"rows": 110, "metrics": dict.fromkeys(ends, 0.8364), "rivals": {"linear": linear, "trees": trees}}
    found = RunEvaluated(run_id="baseline-1", splits={"validation": record})
    why = "4 rows right by the model alone, 0 by the rival alone: McNemar's exact test, p = 0.125"
    assert evaluated_text(found, goal, None) == (
        "accuracy on the same 110 validation rows: the model 0.8364, whose epoch was chosen by them, a logistic "
        f"regression 0.8; difference +0.0364 (95 % interval 0.009 to 0.073): not told apart ({why}). "
        "But by auc (0.01 to 0.02): the model is better. "
        f"TF-IDF: 0.79; difference +0.0464 (95 % interval 0.009 to 0.073): not told apart ({why})."
    )
    (one,) = beside_rivals(found, goal, None)
    assert one.clause() == (
        "no better than a logistic regression, as far as these rows tell (accuracy 0.8 against 0.8364 of the model; "
        f"difference +0.0364, 95 % interval 0.009 to 0.073; {why})"
    )


@pytest.mark.requirement("PHASE-4")
@pytest.mark.parametrize(
    ("rivals", "name"),
    [
        ({"last_value": LAST}, "last_value"),
        ({"seasonal": SEASON, OWN: rival("yours", 4.0, 0.1, 0.9)}, OWN),
        ({"last_value": rival("the last value", 4.0, -0.1, 0.9)}, None),
        ({"last_value": rival("the last value", 2.0)}, None),
        ({}, None),
    ],
    ids=["worse than a rival", "worse than the user's own bar", "not told apart", "too few rows", "none"],
)
def test_a_model_is_outdone_by_the_goals_metric_and_beyond_chance_alone(
    rivals: dict[str, Any], name: str | None
) -> None:
    found = baseline_outdone(evidence_of(evaluated(**rivals)))
    assert (found.name if found else None) == name


@pytest.mark.requirement("PHASE-4")
def test_more_capacity_helps_against_a_rival_only_where_the_model_underfits() -> None:
    (last,) = beside_rivals(evaluated(last_value=LAST), GOAL, None)
    (trees,) = beside_rivals(evaluated(boosted_trees=rival("trees", 2.0, 1.0, 2.0)), GOAL, None)
    assert "Fewer inputs" in what_helps(last, CONFIG)
    assert "the rival may simply be the better model" in what_helps(trees, CONFIG)
    for one in (last, trees):
        assert "larger" not in what_helps(one, CONFIG)
        assert "larger" in what_helps(one, CONFIG, underfits=True)


@pytest.mark.requirement("PHASE-4", "GATE-7")
@pytest.mark.parametrize(
    ("args", "scaling", "changes"),
    [
        ({}, "standardize", {"model.args.from_last": True}),
        ({}, None, {"model.args.from_last": True, "target_scaling": "standardize"}),
        ({}, "log", {"model.args.from_last": True, "target_scaling": "standardize"}),
        ({"from_last": True}, "standardize", {}),
    ],
)
def test_a_forecast_of_the_level_that_the_last_value_outdoes_is_told_to_go_on_from_it(
    args: dict[str, Any], scaling: str | None, changes: dict[str, Any]
) -> None:
    series = {"window": 4, "horizon": 1}
    config = parse_config({
        "model": {"use": "dlinear", "args": args}, "loss": "mse", "metrics": ["mae"], "target_scaling": scaling,
        "data": {"use": "csv", "args": {"path": "t.csv", "target": "y", "series": series},
                 "split": {"by": "time", "time": "day"}},
    })  # fmt: skip
    (last,) = beside_rivals(evaluated(last_value=LAST), GOAL, None)
    (trees,) = beside_rivals(evaluated(boosted_trees=rival("trees", 2.0, 1.0, 2.0)), GOAL, None)
    assert helping_changes(last, config) == changes
    assert ("model.args.from_last true" in what_helps(last, config)) is bool(changes)
    assert helping_changes(trees, config) == {}
    without = {**config.model_dump(mode="json")["data"]["args"], "features": ["x"]}
    blind = parse_config({**config.model_dump(mode="json"), "data": {"use": "csv", "args": without,
                          "split": {"by": "time", "time": "day"}}})  # fmt: skip
    assert helping_changes(last, blind) == {}, "its own past is no input"


@pytest.mark.requirement("PHASE-4", "PIPE-3")
@pytest.mark.parametrize(("validation", "origins"), [(0.15, 3), (0.2, 2), (0.3, 0)])
def test_as_many_origins_are_advised_as_leave_enough_to_train_on(validation: float, origins: int) -> None:
    section = SplitSection(by="time", time="day", validation=validation, test=0.2)
    advice = folds_advice(section, 300)
    assert f"data.split.folds {origins} validates" in advice if origins else advice == ""


@pytest.mark.requirement("PHASE-4", "PIPE-3")
def test_folds_are_advised_where_the_rarer_class_is_few() -> None:
    assert folds_advice(SplitSection(), 1500, rare=180).startswith(
        "180 rows of the rarer class leave 27 for validation"
    )
    assert folds_advice(SplitSection(), 1500, rare=400) == folds_advice(SplitSection(), 1500) == ""


CONFIRMED = {
    "best": [3.9591, 3.75821, 3.97916], "best_value": 3.77214, "best_parameters": {"optimizer.learning_rate": 0.06},
    "best_runs": ["trial-10"], "baseline_runs": ["baseline-2"],
}  # fmt: skip


@pytest.mark.requirement("PHASE-10", "TUNE-5")
def test_the_owner_is_offered_the_best_confirmed_value_and_not_the_baselines() -> None:
    told = exit_in_words(evidence_of(confirmation=CONFIRMED))
    assert "4.53" not in told
    assert "changes={'optimizer.learning_rate': 0.06}), and with that configuration configure(" in told
    assert "ask_owner={'accept': 3.98} or" in told, "the worst of its seeds"
    validated = owners_exit(evidence_of(confirmation=CONFIRMED, improvement=({"validated": True}, [])))
    assert validated.startswith("configure(project='cigar', ask_owner={'accept': 3.98}"), "it is finalized as it is"
    for kept in ({}, CONFIRMED | {"best": [3.7, 4.9]}, CONFIRMED | {"baseline_runs": ["trial-10"]}):
        assert "{'accept': 4.53}" in owners_exit(evidence_of(confirmation=kept)), kept


@pytest.mark.requirement("DIAG-8", "TUNE-5")
@pytest.mark.parametrize(
    ("best", "validated", "state", "keys"),
    [
        ({"optimizer.learning_rate": 0.06, "optimizer.weight_decay": 0.5}, True, "completed",
         ["optimizer.learning_rate", "optimizer.weight_decay"]),
        ({"optimizer.learning_rate": 0.06, "optimizer.weight_decay": 0.1}, True, "completed",
         ["optimizer.learning_rate"]),
        ({"optimizer.learning_rate": 0.06}, False, "completed", []),
        ({"optimizer.learning_rate": 0.06}, True, "stopped", []),
    ],
    ids=["both", "one changed since", "within the noise of seeds", "not completed"],
)  # fmt: skip
def test_the_keys_that_a_study_chose_are_those_of_its_confirmed_best(
    best: dict[str, float], state: str, keys: list[str], *, validated: bool
) -> None:
    confirmation = CONFIRMED | {"best_parameters": best, "improvement_mean": 1e-9, "validated": validated}
    bodies = [
        {"study_id": "study-1", "state": "running"},
        {"study_id": "study-1", "state": state, "confirmation": confirmation},
    ]
    assert chosen_keys(evidence_of(entries=lambda _: list(enumerate(bodies))), CONFIG) == keys
