"""Raising limits and leaving the folders that the owner allowed, in every spelling."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from cheat_suite.case import cheat
from cheat_suite.scene import Scene
from cheat_suite.world import CONFIG, GOAL, NAME

refused = partial(cheat, by="tools", expected="refused", shows=("GATE-4",))


def _create(scene: Scene, **more: Any) -> None:
    arguments = {"name": "second", "intent": "more", "goal": GOAL, "config": CONFIG}
    scene.attempt("create_project", **(arguments | more))


@refused(
    "limits-at-creation",
    "Ask for more than the owner allows",
    at="created",
    rule="Only the workspace's owner may allow this: limit ",
)
def limits_at_creation(scene: Scene) -> None:
    for limit in ("trials", "runs_at_once", "disk_bytes"):
        _create(scene, limits={limit: 10**15})
    for limit in ("run_wall_clock_seconds", "project_wall_clock_seconds", "user_code_seconds"):
        _create(scene, limits={limit: 1e12})


@refused(
    "limits-that-are-no-numbers",
    "Ask for endless, negative or textual limits",
    at="created",
    rule="limits are not valid",
)
def limits_that_are_no_numbers(scene: Scene) -> None:
    for value in (math.inf, math.nan, -1, 0, "1e9", True, [10], {"value": 10}):
        _create(scene, limits={"run_wall_clock_seconds": value})


@refused(
    "limits-misspelt",
    "Spell a limit otherwise, so that it might slip past the comparison",
    at="created",
    rule="unknown limit",
)
def limits_misspelt(scene: Scene) -> None:
    for name in ("Trials", "trials ", "max_trials", "limits.trials", "trіals", "TRIALS", "trials\u200b"):
        _create(scene, limits={name: 10**6})


@refused(
    "limits-by-configuration",
    "Raise limits by configure",
    at="planned",
    rule="unknown (key|argument) `(limits|settings|project_limits)",
)
def limits_by_configuration(scene: Scene) -> None:
    for changes in ({"limits.trials": 10**6}, {"limits": {"trials": 10**6}}, {"settings.limits.trials": 10**6}):
        scene.attempt("configure", project=NAME, changes=changes)
    scene.attempt("configure", project=NAME, changes={}, limits={"trials": 10**6})


@refused(
    "limits-by-start",
    "Raise limits, or claim a permission, with the call that starts a run",
    at="planned",
    rule="unknown argument `(limits|allow|force|approved|permit|exempt)`",
)
def limits_by_start(scene: Scene) -> None:
    permit = {"phase": "finalization", "kind": "final"}
    claims = (
        {"limits": {}},
        {"allow": True},
        {"force": True},
        {"approved": "owner"},
        {"permit": permit},
        {"exempt": []},
    )
    for claim in claims:
        scene.attempt("start_training", project=NAME, kind="baseline", **claim)


@refused(
    "trials-beyond-the-limit",
    "Search with more trials than the owner allows",
    at="diagnosed",
    rule="trials",
)
def trials_beyond_the_limit(scene: Scene) -> None:
    space = {"optimizer.learning_rate": {"type": "float", "low": 0.001, "high": 0.1}}
    for trials in (201, 10**6):
        scene.attempt("start_tuning", project=NAME, search={"trials": trials, "space": space})


@refused(
    "code-root-outside",
    "Make a project on a folder that the owner has not allowed",
    at="created",
    rule="Only the workspace's owner may allow this: code_root /",
)
def code_root_outside(scene: Scene) -> None:
    for root in ("/etc", "/", "../..", "code/../../..", "~", "~root"):
        _create(scene, config=CONFIG | {"code_root": root})


@refused(
    "code-root-later",
    "Move the project to another folder by configure",
    at="planned",
    rule="code_root is fixed when a project is made",
)
def code_root_later(scene: Scene) -> None:
    for root in ("/etc", "../..", "code/.."):
        scene.attempt("configure", project=NAME, changes={"code_root": root})


@refused(
    "code-root-by-link",
    "Reach a forbidden folder through a link inside the allowed one",
    at="created",
    rule="Only the workspace's owner may allow this: code_root /",
)
def code_root_by_link(scene: Scene) -> None:
    (scene.world.folder / "shortcut").symlink_to("/etc")
    _create(scene, config=CONFIG | {"code_root": "shortcut"})
    (scene.world.folder / "shortcut").unlink()


@cheat(
    "limits-in-the-database",
    "Raise a project's limits in the database",
    by="files",
    at="planned",
    rule="limits was changed in the database",
    expected="detected",
    shows=("GATE-4", "GATE-3"),
)
def limits_in_the_database(scene: Scene) -> None:
    scene.execute("UPDATE projects SET limits = json_set(limits, '$.trials', 1000000)")
