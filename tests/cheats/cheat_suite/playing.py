"""Playing cases, each on the world as it was at the case's stage."""

from __future__ import annotations

import os
import re
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Self
from unittest.mock import patch

from tests.worlds.flowers import STAGES, World

from cheat_suite.agent import Agent, Agents
from cheat_suite.case import Case, Level
from cheat_suite.judging import WALLED_OFF, Verdict, judge
from cheat_suite.scene import Scene
from trainwright.tools.walls.enclosing import places
from trainwright.tools.walls.wall import Wall
from trainwright.trainer.starting.wall import keep_privileges_out, landlock


def in_playing_order(cases: list[Case]) -> list[Case]:
    """Return the cases by stage, those that leave the world as it is first: they share a server."""
    return sorted(cases, key=lambda case: (STAGES.index(case.stage), case.attacker != "tools"))


class Player:
    """Plays cases one after the other. A server serves on as long as nothing it serves has changed.

    Args:
        world: that the cases begin in.
        command: that starts a server, see `Agents`.
    """

    def __init__(self, world: World, command: Sequence[str] = ()) -> None:
        self.world = world
        self._agents = Agents(command)
        self._agent: Agent | None = None
        self._stage: str | None = None
        """The stage at which the world stands untouched, or None."""

    def __enter__(self) -> Self:
        self._agents.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._agents.__exit__(*error)

    def play(self, case: Case, level: Level = "a shell") -> Verdict:
        """Play one case and judge it."""
        if self._stage != case.stage:
            self._agents.close_all()
            self._agent = None
            self.world.set_back(case.stage)
        self._stage = None
        scene = Scene(self.world, self._agents, self._agent)
        before = scene.gains()
        if level == "a shell inside the wall":
            _play_inside(case, scene)
        else:
            case.play(scene)
        verdict = judge(case, scene)
        if case.attacker == "tools" and scene.gains() == before:
            self._stage, self._agent = case.stage, scene._agent
        return verdict


def _play_inside(case: Case, scene: Scene) -> None:
    """Play in a thread inside the wall that `trainwright enclose --only-landlock` builds, the weakest that it has.

    Landlock holds a thread, and what that starts: servers and the owner's own steps are outside.
    """
    wall = Wall([str(scene.world.code)], str(scene.world.workspace), ports=[])
    failures: list[BaseException] = []

    def inside(temporary: str) -> None:
        keep_privileges_out()
        landlock(places(wall.grants() | {temporary: True}, []), wall.ports)
        try:
            case.play(scene)
        except (IndexError, ValueError) as error:  # of an empty glob: it is silent on what it may not list
            failures.append(_listed(scene.world.workspace) or error)
        except Exception as error:  # noqa: BLE001 - raised again outside, or what the wall refused
            failures.append(error)

    scene.owner.submit(int).result()  # its thread begins here, outside
    with (
        tempfile.TemporaryDirectory() as temporary,
        patch.object(tempfile, "tempdir", temporary),
        patch.dict(os.environ, TMPDIR=temporary),
    ):
        scene.inside = threading.Thread(target=inside, args=(temporary,))
        scene.inside.start()
        scene.inside.join()
    for error in failures:
        told = " ".join(str(one) for one in (error, error.__cause__, error.__context__) if one is not None)
        if not re.search(WALLED_OFF, told):
            raise error
        scene.walled_off = told


def _listed(folder: Path) -> OSError | None:
    """Return why a folder cannot be listed; None: it can."""
    try:
        list(folder.iterdir())
    except OSError as error:
        return error
    return None
