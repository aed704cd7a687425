"""Later steps that the intent names, behind the release: another version, a comparison, a version put in use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.tools.ledger.aliases import PRODUCTION, in_production
from trainwright.tools.ledger.events import ModelPromoted, ModelRegistered
from trainwright.trainer.base.text import cut
from trainwright.trainer.config.later_words import FILES, asked_later

if TYPE_CHECKING:
    from trainwright.tools.answers import NextCall
    from trainwright.tools.gates.evidence import Evidence

CHANGED = (
    "v1 stays. `changes` of the same call say what differs; rows are added by making data.args.path a list that keeps "
    "the old file, after models(score=FILE) where new labelled rows are to be scored before they are trained on"
)


def later_call(evidence: Evidence, *, is_scored: bool = False) -> NextCall | None:
    """Return the first call of a finished project's later steps that has not been made; None where nothing is left.

    What to train on is left to the reader of the sentence. A comparison, or a score, leaves no record: it is named
    until production was moved, or its gate refused to, since the newest version came.

    Args:
        is_scored: whether this answers the score of a later file.
    """
    later = asked_later(evidence.project.intent, str(evidence.version.values.get("data", "a task")))
    versions = [(sequence, body["version"]) for sequence, body in evidence.entries(ModelRegistered.name)]
    if later is None or not versions:
        return None
    said, steps = f"the intent goes on: {cut(later.words, 200)!r}", later.steps - ({"scored"} if is_scored else set())
    root, names = Path(evidence.project.code_root), set(FILES.findall(later.words))
    evidence.inspection.sources.note(*(root / name for name in names))
    is_named = "scored" in steps and len(names) == 1 and all((root / name).is_file() for name in names)
    score = {"score": names.pop()} if is_named else {}
    if "again" in steps and len(versions) == 1:
        first = evidence.call("models", f"{said}; then configure(begin_release=true)", **score)
        return first if score else evidence.call("configure", f"{said}; {CHANGED}", begin_release=True)
    moves = evidence.entries(ModelPromoted.name)
    if any(sequence > versions[-1][0] and body["alias"] == PRODUCTION for sequence, body in moves):
        return None
    held, newest = in_production(moves), versions[-1][1]
    if "again" in steps and steps & {"compared", "promoted"}:
        stays = f"v{held} stays in production unless promote_model moves it"
        then = "promote_model then puts the one you choose in production" if held is None else stays
        return evidence.call("models", f"{said}; {then}", compare=[f"v{held or versions[-2][1]}", f"v{newest}"])
    if "promoted" in steps and held is None:
        return evidence.call("promote_model", said, version=f"v{newest}")
    why = said if score else f"{said}; models(score=FILE) evaluates a version on a labelled file"
    return evidence.call("models", why, **score) if "scored" in steps and held is None else None
