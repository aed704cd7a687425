"""Meaning of a grant, in words for the owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.owner.grant import ALIKE_SAMPLES, MISSING_GIT

if TYPE_CHECKING:
    from trainwright.tools.owner.grant import Wish

LIMIT = "Raises this limit for this project alone; what all projects share stays. Lower it in settings.yaml to undo it."
CODE_ROOT = "Code and data below this folder may be read for this project, and the code there runs with your rights."
GIT = "The project's code need not stand in a git repository: its files are still digested, their history is not known."
ALIKE = (
    "The project's splits may hold almost equal samples beyond what chance explains: results on held-out samples may "
    "be remembered, not learned, and every report will say so."
)
DELETION = (
    "Removes the project's runs, checkpoints, models and reports for good, at the agent's next call. Its ledger "
    "stays, and what it used stays counted."
)
OPERATION = (
    "Runs of this project may use this operation, though it has no deterministic implementation: training again may "
    "give other weights, and every report will say so."
)
ACCEPTANCE = (
    "The project may end below its goal with this value of its metric or a better one. The card says at its head that "
    "the goal was not reached, and that you accepted it."
)
GOAL = "The project's target becomes this value; metric and direction stay. Every report names both goals."
ALERT = "The project may go on while this alert is open. The card says so, and that you accepted it."


def meaning(wish: Wish) -> str:
    """Return what the grant of a wish allows."""
    if wish.kind == "exemption":
        return {MISSING_GIT: GIT, ALIKE_SAMPLES: ALIKE}.get(wish.name, OPERATION)
    others = {"limit": LIMIT, "code_root": CODE_ROOT, "deletion": DELETION}
    return (others | {"acceptance": ACCEPTANCE, "goal": GOAL, "alert": ALERT})[wish.kind]
