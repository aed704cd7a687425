"""Playing cases, each on the world as it was at the case's stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from tests.worlds.flowers import STAGES, World

from cheat_suite.agent import Agent, Agents
from cheat_suite.case import Case
from cheat_suite.judging import Verdict, judge
from cheat_suite.scene import Scene


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

    def play(self, case: Case) -> Verdict:
        """Play one case and judge it."""
        if self._stage != case.stage:
            self._agents.close_all()
            self._agent = None
            self.world.set_back(case.stage)
        self._stage = None
        scene = Scene(self.world, self._agents, self._agent)
        before = scene.gains()
        case.play(scene)
        verdict = judge(case, scene)
        if case.attacker == "tools" and scene.gains() == before:
            self._stage, self._agent = case.stage, scene._agent
        return verdict
