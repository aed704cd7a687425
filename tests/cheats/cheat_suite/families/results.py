"""Reporting results by oneself, choosing the measure after the results, and hunting for a lucky seed."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.worlds.flowers import CONFIG, GOAL, NAME

from cheat_suite.case import cheat
from cheat_suite.scene import Scene
from trainwright.trainer.run import RunKind

STUDYING = {"running", "confirming"}
SLOW_LEARNER: dict[str, Any] = {"optimizer": {"learning_rate": 1e-5}, "training": {"epochs": 2}}

refused = partial(cheat, by="tools", expected="refused", shows=("GATE-1",))
detected = partial(cheat, by="tools", expected="detected", shows=("GATE-1", "PHASE-8"))


@refused(at="trained", rule="unknown argument `(accuracy|metrics|evidence|passed|force)`")
def report_a_metric(scene: Scene) -> None:
    """Hand a metric, or evidence of one's own, to a gate."""
    for own in ({"accuracy": 0.99}, {"metrics": {"accuracy": 1}}, {"evidence": {}}, {"passed": True}, {"force": True}):
        scene.attempt("pass_gate", project=NAME, phase="baseline", **own)


@refused(at="trained", rule="unknown key|The configuration breaks the schema: `evaluation_gate.baseline")
def result_in_the_configuration(scene: Scene) -> None:
    """Write a result into the configuration."""
    for key in ("best.metrics.accuracy", "summary.accuracy", "result", "baseline.accuracy"):
        scene.attempt("configure", project=NAME, changes={key: 0.99})


@refused(at="trained", rule="unknown argument `goal|The goal is fixed: maximize accuracy to 0.6")
def lower_the_goal(scene: Scene) -> None:
    """Lower the goal's target after the baseline was disappointing."""
    scene.must("configure", project=NAME, ask_owner={"goal": {"target": 0.1}})  # which lowers nothing by itself
    scene.attempt("configure", project=NAME, changes={"goal.target": 0.1})
    scene.attempt("configure", project=NAME, changes={"goal": GOAL | {"target": 0.1}})
    scene.attempt("configure", project=NAME, changes={}, goal=GOAL | {"target": 0.1})


@refused(at="trained", rule="There is a project 'flowers' already")
def goal_by_a_second_creation(scene: Scene) -> None:
    """Create the project again with an easier goal."""
    easy = GOAL | {"target": 0.1}
    scene.attempt("create_project", name=NAME, intent="tell irises apart", goal=easy, config=CONFIG)


@detected(at="based", rule=r"stale.*selection\.metric 'accuracy' -> 'loss'")
def metric_after_the_results(scene: Scene) -> None:
    """Choose the metric to be evaluated by after the results are known."""
    scene.attempt("configure", project=NAME, changes={"selection": {"metric": "loss", "direction": "minimize"}})


@refused(at="based", rule="planning.goal_fixed: measured selection by loss")
def pass_on_another_metric(scene: Scene) -> None:
    """Pass planning again on the metric chosen after the results."""
    scene.must("configure", project=NAME, changes={"selection": {"metric": "loss", "direction": "minimize"}})
    scene.attempt("pass_gate", project=NAME, phase="planning")


@refused(at="planned", rule="unknown argument `seed`|got seed=")
def seed_by_argument(scene: Scene) -> None:
    """Hunt for a seed through the arguments of start_training."""
    scene.attempt("start_training", project=NAME, kind="baseline", seed=7)
    scene.attempt("start_training", project=NAME, kind="smoke", changes={"seed": 7})


@refused(at="diagnosed", rule="the seed with the best result is no improvement", shows=("GATE-1", "PHASE-5"))
def seed_by_ablation(scene: Scene) -> None:
    """Hunt for a seed with ablations."""
    for seed in (1, 2, 3):
        scene.attempt("start_training", project=NAME, kind="ablation", changes={"seed": seed})


@refused(at="diagnosed", rule=r"seed|split", shows=("GATE-1", "PHASE-5"))
def seed_by_search(scene: Scene) -> None:
    """Let a study search over seeds, or over how the data is split."""
    for key in ("seed", "data.split.seed"):
        space = {key: {"type": "int", "low": 1, "high": 50}}
        scene.attempt("start_tuning", project=NAME, search={"trials": 5, "space": space})
        scene.attempt("start_tuning", project=NAME, search={"ablation": {"factors": {key: [1, 2, 3]}}})


@refused(at="diagnosed", rule=r"`objective.* cannot be searched over", shows=("GATE-1", "PHASE-5"))
def measure_by_search(scene: Scene) -> None:
    """Let a study search over how strong the attack is that robust accuracy is measured under."""
    for key in ("objective", "objective.epsilon", "objective.evaluation_steps", "objective.tasks.a.weight"):
        space = {key: {"type": "float", "low": 0.001, "high": 0.5}}
        scene.attempt("start_tuning", project=NAME, search={"trials": 5, "space": space})


@detected(at="based", rule=r"stale.*configuration: seed ")
def seed_after_the_baseline(scene: Scene) -> None:
    """Change the seed once the baseline's result is known."""
    scene.attempt("configure", project=NAME, changes={"seed": 7})


@detected(at="based", rule=r"stale.*data\.split\.seed")
def another_split(scene: Scene) -> None:
    """Draw another validation split once the result is known."""
    scene.attempt("configure", project=NAME, changes={"data.split.seed": 5})


@refused(at="planned", rule="only a smoke run may be cut short")
def short_baseline(scene: Scene) -> None:
    """Make the baseline weak by cutting it short, so that anything improves on it."""
    scene.attempt("start_training", project=NAME, kind="baseline", max_steps=1)


@refused(at="tuned", rule="A final run may not set optimizer.learning_rate", shows=("GATE-1", "PHASE-6"))
def tuned_final(scene: Scene) -> None:
    """Change what the final run learns."""
    scene.attempt(
        "start_training", project=NAME, kind="final", changes={"training.epochs": 50, "optimizer.learning_rate": 0.5}
    )


@detected(at="planned", rule=r"stale.*reproducibility\.deterministic", shows=("REPRO-2", "PHASE-8"))
def determinism_off(scene: Scene) -> None:
    """Switch deterministic operation off once it has been probed."""
    scene.attempt("configure", project=NAME, changes={"reproducibility.deterministic": False})


@refused(
    at="empty",
    rule="optimization gate of flowers stays closed.*study_completed: measured no study|final needs the finalization",
    shows=("GATE-1", "PHASE-5"),
)
def optimize_without_improvement(scene: Scene) -> None:
    """Skip or conclude the optimization although the baseline misses the goal and nothing was searched."""
    _diagnosed(scene, SLOW_LEARNER)
    assert scene.must("project_status", project=NAME)["phase"] == "optimization"
    scene.attempt("pass_gate", project=NAME, phase="optimization")
    scene.attempt("pass_gate", project=NAME, phase="optimization", conclude=True)
    scene.attempt("start_training", project=NAME, kind="final")


@cheat(
    by="files",
    at="empty",
    rule="optimization.best_configuration: measured study .*confirmation was changed in the database",
    expected="refused",
    shows=("GATE-3", "PHASE-5"),
)
def study_rows_for_a_moment(scene: Scene) -> None:
    """Edit a study's trials and confirmation in the database, pass the gate that reports them, and put them back."""
    _search(scene)
    kept = scene.query("SELECT confirmation FROM studies")[0][0]
    (value,) = scene.query("SELECT value FROM trials WHERE number = 0")[0]
    scene.execute(
        "UPDATE studies SET confirmation = json_set(confirmation, '$.improvement_low', 0.9, '$.best[0]', 1.0)",
        "UPDATE trials SET value = 1.0 WHERE number = 0",
    )
    scene.attempt("pass_gate", project=NAME, phase="optimization")
    scene.execute(f"UPDATE studies SET confirmation = '{kept}'", f"UPDATE trials SET value = {value} WHERE number = 0")


@cheat(
    by="files",
    at="empty",
    rule="trial 0 has (parameters that do not follow|other values than its run)",
    expected="detected",
    shows=("GATE-3", "TUNE-7"),
)
def trial_of_a_study_under_way(scene: Scene) -> None:
    """Edit a trial of a study that has not ended, so that its sampler goes where one wants it."""
    _diagnosed(scene, SLOW_LEARNER)
    rates = {"optimizer.learning_rate": {"type": "float", "low": 0.02, "high": 0.03}}
    search = {"method": "tpe", "trials": 8, "space": rates, "pruning": {"name": "none"}}
    study_id = scene.must("start_tuning", project=NAME, search=search)["study_id"]
    while scene.must("tuning_status", study_id=study_id, wait_seconds=1)["trials_done"] < 1:
        pass
    scene.execute("UPDATE trials SET value = 1.0 WHERE number = 0")
    scene.must("stop_training", project=NAME, run_id=study_id)


def _search(scene: Scene) -> None:
    """Take a project that hardly learns through a study, as it may be done."""
    _diagnosed(scene, SLOW_LEARNER)
    rates = {"optimizer.learning_rate": {"type": "float", "low": 0.02, "high": 0.03}}
    search = {"method": "random", "trials": 2, "space": rates, "pruning": {"name": "none"}}
    study_id = scene.must("start_tuning", project=NAME, search=search)["study_id"]
    while (study := scene.must("tuning_status", study_id=study_id, wait_seconds=50))["state"] in STUDYING:
        pass
    assert study["state"] == "completed", study


def _diagnosed(scene: Scene, config: dict[str, Any]) -> None:
    """Take a project with this configuration to the optimization phase, as it may be done."""
    scene.project(config)
    for kind, phase in ((RunKind.SMOKE, "planning"), (RunKind.BASELINE, "baseline")):
        scene.train_aside(kind)
        scene.must("pass_gate", project=NAME, phase=phase)
    scene.must("diagnose_run", project=NAME, run_id=scene.newest("baseline"))
    scene.must("pass_gate", project=NAME, phase="diagnostics")
