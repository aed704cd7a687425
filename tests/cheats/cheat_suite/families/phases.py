"""Skipping, reordering and repeating phases."""

from __future__ import annotations

from functools import partial

from cheat_suite.case import cheat
from cheat_suite.scene import Scene
from cheat_suite.world import NAME

refused = partial(cheat, by="tools", expected="refused", shows=("PHASE-1", "PHASE-7"))


@refused(
    "final-first",
    "Start the final run before planning has passed",
    at="created",
    rule="final needs the finalization phase; the project is in planning",
)
def final_first(scene: Scene) -> None:
    scene.attempt("start_training", project=NAME, kind="final")


@refused(
    "baseline-before-planning",
    "Train a baseline before the planning gate, with all evidence there",
    at="smoked",
    rule="baseline needs the baseline phase; the project is in planning",
)
def baseline_before_planning(scene: Scene) -> None:
    scene.attempt("start_training", project=NAME, kind="baseline")


@refused(
    "planning-without-evidence",
    "Ask for the planning gate without a smoke run",
    at="created",
    rule=r"planning gate of flowers stays closed.*measured no smoke run",
)
def planning_without_evidence(scene: Scene) -> None:
    scene.attempt("pass_gate", project=NAME, phase="planning")


@refused(
    "later-gates",
    "Ask for every later gate, in any order, from planning",
    at="created",
    rule=r"gate is closed: the project is in planning",
)
def later_gates(scene: Scene) -> None:
    for phase in ("finalization", "optimization", "baseline", "diagnostics"):
        scene.attempt("pass_gate", project=NAME, phase=phase)


@refused(
    "gate-twice",
    "Pass a gate a second time",
    at="planned",
    rule="planning gate has passed already; nothing it rested on has changed",
)
def gate_twice(scene: Scene) -> None:
    scene.attempt("pass_gate", project=NAME, phase="planning")


@refused(
    "skip-diagnostics",
    "Go from the baseline straight to the optimization gate",
    at="based",
    rule="optimization gate is closed: the project is in diagnostics",
)
def skip_diagnostics(scene: Scene) -> None:
    scene.attempt("pass_gate", project=NAME, phase="optimization")


@refused(
    "tune-before-diagnostics",
    "Search hyperparameters before the baseline was diagnosed",
    at="based",
    rule="needs the optimization phase; the project is in diagnostics",
)
def tune_before_diagnostics(scene: Scene) -> None:
    space = {"optimizer.learning_rate": {"type": "float", "low": 0.001, "high": 0.1}}
    scene.attempt("start_tuning", project=NAME, search={"trials": 2, "space": space})


@refused(
    "diagnose-without-baseline",
    "Have the diagnostic report written before there is a baseline",
    at="planned",
    rule="has no baseline run",
)
def diagnose_without_baseline(scene: Scene) -> None:
    scene.attempt("diagnose_run", project=NAME)


@refused(
    "diagnose-another-run",
    "Have the smoke run diagnosed instead, and pass the diagnostics gate on it",
    at="based",
    rule="measured no diagnosis of the baseline",
)
def diagnose_another_run(scene: Scene) -> None:
    scene.must("diagnose_run", project=NAME, run_id=scene.newest("smoke"))
    scene.attempt("pass_gate", project=NAME, phase="diagnostics")


@refused(
    "export-early",
    "Export, and so look at the test split, before finalization",
    at="diagnosed",
    rule="export needs the finalization phase",
)
def export_early(scene: Scene) -> None:
    scene.attempt("export_model", project=NAME)
    scene.attempt("export_model", project=NAME, run_id=scene.newest("baseline"))


@refused(
    "export-the-baseline",
    "Export another run than the final one in finalization",
    at="tuned",
    rule="is no final run of project",
)
def export_the_baseline(scene: Scene) -> None:
    scene.attempt("export_model", project=NAME, run_id=scene.newest("baseline"))


@refused(
    "second-look",
    "Look at the test split again after the last gate",
    at="finished",
    rule="would look at the test split again",
    shows=("PHASE-6",),
)
def second_look(scene: Scene) -> None:
    scene.attempt("export_model", project=NAME)
    scene.attempt("start_training", project=NAME, kind="final")


@refused(
    "misspelt-phases",
    "Ask for gates that do not exist, hoping for a default",
    at="created",
    rule="`phase` = ",
)
def misspelt_phases(scene: Scene) -> None:
    for phase in ("Planning", "planning ", "all", "", "0", "finalization\n", "plannіng"):
        scene.attempt("pass_gate", project=NAME, phase=phase)


@refused(
    "resume-completed",
    "Train a completed baseline further by resuming it",
    at="trained",
    rule="is completed; there is nothing to resume",
)
def resume_completed(scene: Scene) -> None:
    scene.attempt("resume_training", project=NAME, run_id=scene.newest("baseline"))


@refused(
    "smoke-as-baseline",
    "Pass a smoke run off for the baseline by its idempotency key",
    at="planned",
    rule="already names the smoke run",
)
def smoke_as_baseline(scene: Scene) -> None:
    scene.ended(scene.must("start_training", project=NAME, kind="smoke", idempotency_key="mine")["run_id"])
    scene.attempt("start_training", project=NAME, kind="baseline", idempotency_key="mine")
