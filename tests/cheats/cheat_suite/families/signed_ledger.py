"""The same on a signed ledger, by an agent that cannot read the key; who verifies has the public half."""

from __future__ import annotations

from functools import partial

from tests.worlds.flowers import CONFIG, NAME

from cheat_suite.case import cheat
from cheat_suite.forging import cut_newest_decision, rewrite_copy, rewrite_intent
from cheat_suite.scene import Scene, honest
from trainwright.tools import projects
from trainwright.tools.workspace.signing import new_key
from trainwright.trainer.base.errors import GateRefusedError

edited = partial(cheat, by="files", at="empty", shows=("GATE-3",))
detected = partial(edited, expected="detected")
CUT = "holds no entry .* with which it once ended"


def _signed(scene: Scene) -> None:
    """A project whose every entry is signed, and the last is a refusal: something to be rid of."""
    scene.begin_signing()
    scene.only_project(CONFIG)
    _decide(scene)


@honest
def _decide(scene: Scene) -> None:
    with scene.workspace() as workspace:
        try:
            projects.pass_gate(workspace, NAME, "planning")
        except GateRefusedError:
            return
    raise AssertionError("planning passed without a smoke run")


@detected(rule="with a signature that does not fit|no entry is signed by key")
def signed_rewritten(scene: Scene) -> None:
    """Rewrite a signed ledger and its JSONL copy, every entry re-chained."""
    _signed(scene)
    rewrite_intent(scene)
    rewrite_copy(scene)


@detected(rule="no entry is signed by key")
def signed_by_another_key(scene: Scene) -> None:
    """Rewrite a signed ledger and its JSONL copy, and sign every entry with a key of one's own."""
    _signed(scene)
    rewrite_intent(scene)
    own, bring_back = new_key(scene.world.folder / "own.key"), scene.without_triggers()
    for sequence, digest in scene.query("SELECT sequence, digest FROM ledger"):
        scene.update_ledger(sequence, signature=own.sign(digest))
    bring_back()
    rewrite_copy(scene)


@detected(rule="no entry is signed by key")
def signatures_removed(scene: Scene) -> None:
    """Rewrite a signed ledger and its JSONL copy, and take the signatures away."""
    _signed(scene)
    rewrite_intent(scene)
    bring_back = scene.without_triggers()
    scene.execute("UPDATE ledger SET signature = NULL")
    bring_back()
    rewrite_copy(scene)


@edited(rule=CUT, expected="missed")
def signed_cut(scene: Scene) -> None:
    """Cut a refusal off a signed ledger, its row and its JSONL copy, and ask again: no signature shows what is gone."""
    _signed(scene)
    cut_newest_decision(scene)
    _decide(scene)


@detected(rule=CUT)
def noted_signed_cut(scene: Scene) -> None:
    """Do the same, someone having noted elsewhere how the ledger ended."""
    _signed(scene)
    scene.note_head()
    cut_newest_decision(scene)
    _decide(scene)
