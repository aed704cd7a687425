"""Calls at the same time, through several servers on one workspace."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.worlds.flowers import CONFIG, GOAL, NAME

from cheat_suite.agent import Reply
from cheat_suite.case import cheat
from cheat_suite.scene import Scene

race = partial(cheat, by="tools", expected="refused", shows=("GATE-3",))


def _through_both(scene: Scene, tool: str, *, times: int, winners: int, **arguments: Any) -> list[Reply]:
    """Make the same call several times at once through two servers, by turns."""
    agents = (scene.agent, scene.another_agent())
    return scene.race(*((agents[n % 2], tool, {"project": NAME, **arguments}) for n in range(times)), winners=winners)


@race(at="smoked", rule="planning gate has passed already")
def two_gates_at_once(scene: Scene) -> None:
    """Pass one gate through two servers at once."""
    _through_both(scene, "pass_gate", times=4, winners=1, phase="planning")


@race(
    at="planned",
    rule="planning gate is stale|gate is closed: the project is in planning|baseline needs the baseline phase",
)
def start_while_stale(scene: Scene) -> None:
    """Start the baseline while the configuration that planning passed is being changed."""
    other = scene.another_agent()
    change = {"project": NAME, "changes": {"training.epochs": 7}}
    start = {"project": NAME, "kind": "baseline"}
    configured, started = scene.race((scene.agent, "configure", change), (other, "start_training", start), winners=2)
    assert not configured.is_error
    if not started.is_error:
        scene.ended(started.content["run_id"])
    scene.attempt("pass_gate", project=NAME, phase="baseline")  # whichever came first, the run does not count


@race(at="planned", rule="limit runs_at_once is used up", shows=("GATE-4",))
def burst_of_starts(scene: Scene) -> None:
    """Start more runs at once than the limit allows, before any of them counts."""
    for reply in _through_both(scene, "start_training", times=4, winners=2, kind="baseline"):
        if not reply.is_error:
            scene.ended(reply.content["run_id"])


@race(at="empty", rule="There is a project 'flowers' already")
def two_projects_at_once(scene: Scene) -> None:
    """Create one project with two goals at once."""
    other = scene.another_agent()
    made = {"name": NAME, "intent": "x", "config": CONFIG}
    easy = made | {"goal": GOAL | {"target": 0.1}}
    scene.race((scene.agent, "create_project", made | {"goal": GOAL}), (other, "create_project", easy))
    scene.rightful += 1  # the project's first configuration


@race(at="planned", rule="started once")
def one_key_twice(scene: Scene) -> None:
    """Have one idempotency key start two runs at once."""
    before = scene.gains()
    replies = _through_both(scene, "start_training", times=2, winners=2, kind="smoke", idempotency_key="once")
    ids = {reply.content["run_id"] for reply in replies if not reply.is_error}
    scene.ended(next(iter(ids)))
    is_one = len(ids) == 1 and scene.gains() == before + 1
    scene.claim("the run was started once" if is_one else f"{len(ids)} runs", is_refused=is_one)
