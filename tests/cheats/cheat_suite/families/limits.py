"""Raising limits and leaving the folders that the owner allowed, in every spelling."""

from __future__ import annotations

import json
import math
from functools import partial
from typing import Any

from tests.worlds.flowers import CONFIG, GOAL, NAME

from cheat_suite.case import cheat
from cheat_suite.forging import rewrite_copy, rewrite_entry
from cheat_suite.scene import Scene, edit_json, wait_until
from trainwright.trainer.run import RunState

refused = partial(cheat, by="tools", expected="refused", shows=("GATE-4",))


def _create(scene: Scene, **more: Any) -> None:
    arguments = {"name": "second", "intent": "more", "goal": GOAL, "config": CONFIG}
    scene.attempt("create_project", **(arguments | more))


@refused(at="created", rule="Only the workspace's owner may allow this: limit ")
def limits_at_creation(scene: Scene) -> None:
    """Ask for more than the owner allows."""
    for limit in ("trials", "runs_at_once", "disk_bytes"):
        _create(scene, limits={limit: 10**15})
    for limit in ("run_wall_clock_seconds", "project_wall_clock_seconds", "user_code_seconds"):
        _create(scene, limits={limit: 1e12})


@refused(
    at="created",
    rule="limits are not valid|Only the workspace's owner may allow this: limit run_wall_clock_seconds = 1e\\+09 ",
)
def limits_that_are_no_numbers(scene: Scene) -> None:
    """Ask for endless, negative or textual limits."""
    for value in (
        *(-1, 0, True, {"value": 10}),
        *("inf", "nan", "-1", "1e400", "10**9", [math.inf], [[10]], [10, 10**9]),
        *("1e9", [10**9]),  # taken as the number that is meant, which is above the owner's
    ):
        _create(scene, limits={"run_wall_clock_seconds": value})


@refused(at="created", rule="unknown limit|Only the workspace's owner may allow this: limit trials = 1e\\+06 ")
def limits_misspelt(scene: Scene) -> None:
    """Spell a limit differently, so that it might slip past the comparison."""
    for name in ("Trials", "trials ", "max_trials", "limits.trials", "trіals", "TRIALS", "trials\u200b"):
        _create(scene, limits={name: 10**6})


@refused(at="planned", rule="unknown (key|argument) `(limits|settings|project_limits)")
def limits_by_configuration(scene: Scene) -> None:
    """Raise limits by configure."""
    for changes in ({"limits.trials": 10**6}, {"limits": {"trials": 10**6}}, {"settings.limits.trials": 10**6}):
        scene.attempt("configure", project=NAME, changes=changes)
    scene.attempt("configure", project=NAME, changes={}, limits={"trials": 10**6})


@refused(at="planned", rule="unknown argument `(limits|allow|force|approved|permit|exempt)`")
def limits_by_start(scene: Scene) -> None:
    """Raise limits, or claim a permission, with the call that starts a run."""
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


@refused(at="diagnosed", rule="trials")
def trials_beyond_the_limit(scene: Scene) -> None:
    """Search with more trials than the owner allows."""
    space = {"optimizer.learning_rate": {"type": "float", "low": 0.001, "high": 0.1}}
    for trials in (201, 10**6):
        scene.attempt("start_tuning", project=NAME, search={"trials": trials, "space": space})


@refused(at="created", rule="Only the workspace's owner may allow this: code_root /")
def code_root_outside(scene: Scene) -> None:
    """Create a project on a folder that the owner has not allowed."""
    for root in ("/etc", "/", "../..", "code/../../..", "~", "~root"):
        _create(scene, config=CONFIG | {"code_root": root})


@refused(
    at="planned",
    rule="Only the workspace's owner may allow this: code_root /|does not hold the files that flowers was measured on",
)
def code_root_later(scene: Scene) -> None:
    """Move the project to another folder by configure."""
    for root in ("/etc", "../..", "code/.."):
        scene.attempt("configure", project=NAME, changes={"code_root": root})


@refused(at="created", rule="Only the workspace's owner may allow this: code_root /")
def code_root_by_link(scene: Scene) -> None:
    """Reach a forbidden folder through a link inside the allowed one."""
    (scene.world.folder / "shortcut").symlink_to("/etc")
    _create(scene, config=CONFIG | {"code_root": "shortcut"})
    (scene.world.folder / "shortcut").unlink()


@cheat(
    by="files", at="planned", rule="limits was changed in the database", expected="detected", shows=("GATE-4", "GATE-3")
)
def limits_in_the_database(scene: Scene) -> None:
    """Raise a project's limits in the database."""
    scene.execute("UPDATE projects SET limits = json_set(limits, '$.trials', 1000000)")


@cheat(
    by="files",
    at="planned",
    rule="counts as all that was reserved for it",
    expected="refused",
    shows=("GATE-4", "GATE-3"),
)
def time_wound_back(scene: Scene) -> None:
    """Shorten the times in a run's record before a server has looked at it, and put them back once it has counted
    them.
    """
    run = scene.start()
    wait_until(lambda: run.last_status().state is RunState.COMPLETED and not run.is_locked())
    begun = run.events()[0].time
    kept = {path: path.read_bytes() for path in (run.path / "events.jsonl", run.path / "status.json")}
    events = [json.loads(line) | {"time": begun} for line in (run.path / "events.jsonl").read_text().splitlines()]
    (run.path / "events.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    edit_json(run.path / "status.json", lambda value: value.update(heartbeat_at=begun + 0.001))
    scene.finish(run)
    for path, before in kept.items():
        path.write_bytes(before)
    used = next(body["used"] for body in scene.bodies("run_sealed") if body["run_id"] == run.run_id)
    share = scene.bodies("run_started")[-1]["permit"]["reserved"]["share"]
    told = "as all that was reserved for it" if used["wall_clock_seconds"] == share["wall_clock_seconds"] else str(used)
    scene.claim(f"The run counts {told}.", is_refused=used["wall_clock_seconds"] >= share["wall_clock_seconds"])


@cheat(
    by="files",
    at="based",
    rule="its seal says otherwise what it used: wall_clock_seconds 0.001, by its record",
    expected="detected",
    shows=("GATE-4", "GATE-3"),
)
def use_rewritten(scene: Scene) -> None:
    """Lower what the baseline's seal says that it used, every later entry and the JSONL copy rewritten."""
    run_id = scene.newest("baseline")
    entries = scene.query("SELECT sequence, body FROM ledger WHERE kind = 'run_sealed'")
    (sequence,) = [number for number, body in entries if json.loads(body)["run_id"] == run_id]
    bring_back = scene.without_triggers()
    lower = {"wall_clock_seconds": 0.001}
    rewrite_entry(scene, sequence, lambda body: body | {"used": body["used"] | lower}, onwards=True)
    bring_back()
    rewrite_copy(scene)
