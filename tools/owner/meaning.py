"""Meaning of a grant, in words for the owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.owner.grant import ALIKE_SAMPLES, MISSING_GIT

if TYPE_CHECKING:
    from trainwright.tools.owner.grant import Grant

LIMIT = "Raises this limit for this project only; shared limits stay. Lower it in settings.yaml to undo it."
CODE_ROOT = "Code and data below this folder may be read for this project, and the code there runs with your rights."
GIT = "The project's code need not be in a git repository: its files are still digested, their history is unknown."
ALIKE = (
    "The project's splits may hold more near-duplicates than chance explains: results on held-out samples may "
    "be memorised, not learned, and every report will say so."
)
DELETION = (
    "Removes the project's runs, checkpoints, models and reports permanently, at the agent's next call. Its "
    "ledger stays, and its use stays counted."
)
OPERATION = (
    "Runs of this project may use this operation, though it has no deterministic implementation: training again may "
    "give other weights, and every report will say so."
)
ACCEPTANCE = (
    "The project may end below its goal with this value of its metric or a better one. The card begins by saying that "
    "the goal was not reached, and that you accepted it."
)
GOAL = "The project's target becomes this value; metric and direction stay. Every report names both goals."
ALERT = "The project may continue while this alert is open. The card says so, and that you accepted it."


def meaning(grant: Grant) -> str:
    """Return what a grant allows."""
    if grant.kind == "exemption":
        return {MISSING_GIT: GIT, ALIKE_SAMPLES: ALIKE}.get(grant.name, OPERATION)
    others = {"limit": LIMIT, "code_root": CODE_ROOT, "deletion": DELETION}
    return (others | {"acceptance": ACCEPTANCE, "goal": GOAL, "alert": ALERT})[grant.kind]
