"""Acting on the runs of another project, in the name of one's own."""

from __future__ import annotations

from functools import partial

from tests.worlds.flowers import CONFIG, GOAL

from cheat_suite.case import cheat
from cheat_suite.scene import Scene

BELONGS = "belongs to project 'flowers'"
refused = partial(cheat, by="tools", at="trained", expected="refused", shows=("GATE-4",))
SECOND = "second"


def _second(scene: Scene) -> str:
    """A project of one's own; returns the other's run."""
    scene.must("create_project", name=SECOND, intent="mine", goal=GOAL, config=CONFIG)
    return scene.newest("baseline")


@refused(rule=BELONGS)
def stop_of_another(scene: Scene) -> None:
    """Stop or resume a run of another project."""
    run = _second(scene)
    for tool in ("stop_training", "resume_training"):
        scene.attempt(tool, project=SECOND, run_id=run)


@refused(rule=f"{BELONGS}|needs the (baseline|finalization) phase; the project is in planning")
def runs_of_another(scene: Scene) -> None:
    """Have another project's run diagnosed, replayed or exported for one's own."""
    run = _second(scene)
    for tool in ("diagnose_run", "verify_reproducibility", "export_model"):
        scene.attempt(tool, project=SECOND, run_id=run)
