"""Skipping, reordering and repeating phases."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tests.worlds.flowers import NAME

from cheat_suite.case import cheat
from cheat_suite.scene import Scene

refused = partial(cheat, by="tools", expected="refused", shows=("PHASE-1", "PHASE-7"))
Call = tuple[str, dict[str, Any]]


def newest(kind: str) -> Callable[[Scene], str]:
    """Name a run that the scene will know."""
    return lambda scene: scene.newest(kind)


def gate(phase: str) -> Call:
    """The call that asks for a gate."""
    return "pass_gate", {"phase": phase}


def start(kind: str) -> Call:
    """The call that starts a run."""
    return "start_training", {"kind": kind}


def calls(identifier: str, title: str, at: str, rule: str, *attempts: Call, **more: Any) -> None:
    """Declare a cheat that is a few calls, all of which must be refused."""

    @refused(identifier, title, at=at, rule=rule, **more)
    def play(scene: Scene) -> None:
        for tool, arguments in attempts:
            known = {name: value(scene) if callable(value) else value for name, value in arguments.items()}
            scene.attempt(tool, project=NAME, **known)


calls(
    "final-first",
    "Start the final run before planning has passed",
    "created",
    "final needs the finalization phase; the project is in planning",
    start("final"),
)
calls(
    "baseline-before-planning",
    "Train a baseline before the planning gate, with all evidence there",
    "smoked",
    "baseline needs the baseline phase; the project is in planning",
    start("baseline"),
)
calls(
    "planning-without-evidence",
    "Ask for the planning gate without a smoke run",
    "created",
    "planning gate of flowers stays closed.*measured no smoke run",
    gate("planning"),
)
calls(
    "later-gates",
    "Ask for every later gate, in any order, from planning",
    "created",
    "gate is closed: the project is in planning",
    *map(gate, ("finalization", "optimization", "baseline", "diagnostics")),
)
calls(
    "gate-twice",
    "Pass a gate a second time",
    "planned",
    "planning gate has passed already; nothing it depends on has changed",
    gate("planning"),
)
calls(
    "skip-diagnostics",
    "Go from the baseline straight to the optimization gate",
    "based",
    "optimization gate is closed: the project is in diagnostics",
    gate("optimization"),
)
calls(
    "tune-before-diagnostics",
    "Search hyperparameters before the baseline was diagnosed",
    "based",
    "needs the optimization phase; the project is in diagnostics",
    (
        "start_tuning",
        {"search": {"trials": 2, "space": {"optimizer.learning_rate": {"type": "float", "low": 0.001, "high": 0.1}}}},
    ),
)
calls(
    "diagnose-without-baseline",
    "Have the diagnostic report written before there is a baseline",
    "planned",
    "has no baseline run",
    ("diagnose_run", {}),
)


@refused(at="based", rule="measured no diagnosis of the baseline")
def diagnose_another_run(scene: Scene) -> None:
    """Have the smoke run diagnosed instead, and pass the diagnostics gate on it."""
    scene.must("diagnose_run", project=NAME, run_id=scene.newest("smoke"))
    scene.attempt("pass_gate", project=NAME, phase="diagnostics")


calls(
    "export-early",
    "Export, and so evaluate the test split, before finalization",
    "diagnosed",
    "export needs the finalization phase",
    ("export_model", {}),
    ("export_model", {"run_id": newest("baseline")}),
)
calls(
    "export-another-run",
    "Export another run than the final one in finalization",
    "tuned",
    "is no final run of project",
    ("export_model", {"run_id": newest("smoke")}),
)
calls(
    "second-look",
    "Evaluate the test split again after the last gate",
    "finished",
    "would look at the test split again|would add nothing to the model that stands",
    ("export_model", {}),
    start("final"),
    shows=("PHASE-6",),
)
calls(
    "misspelt-phases",
    "Ask for gates that do not exist, hoping for a default",
    "created",
    "`phase` = |The planning gate of flowers stays closed|The finalization gate is closed: .* is in planning",
    *map(gate, ("Planning", "planning ", "all", "", "0", "finalization\n", "Finalization", "plannіng")),
    ("pass_gate", {}),
)
calls(
    "concluded-early",
    "Conclude the project below its goal before it was diagnosed, and at gates that have no such end",
    "based",
    "optimization gate is closed: the project is in diagnostics|gate has no such exit",
    *(("pass_gate", {"phase": phase, "conclude": True}) for phase in ("optimization", "diagnostics", "finalization")),
)
calls(
    "resume-completed",
    "Train a completed baseline further by resuming it",
    "trained",
    "is completed; there is nothing to resume",
    ("resume_training", {"run_id": newest("baseline")}),
)


@refused(at="planned", rule="already names the smoke run")
def smoke_as_baseline(scene: Scene) -> None:
    """Pass a smoke run off as the baseline by its idempotency key."""
    scene.ended(scene.must("start_training", project=NAME, kind="smoke", idempotency_key="mine")["run_id"])
    scene.attempt("start_training", project=NAME, kind="baseline", idempotency_key="mine")
