"""Later steps that the intent names, behind the release: another version, a comparison, a version put in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.ledger.aliases import PRODUCTION, aliases_after, moves_among
from trainwright.tools.ledger.events import ModelPromoted, ModelRegistered
from trainwright.trainer.base.text import cut
from trainwright.trainer.config.later_words import asked_later

if TYPE_CHECKING:
    from trainwright.tools.answers import NextCall
    from trainwright.tools.gates.evidence import Evidence

MOST_WORDS = 120


def later_call(evidence: Evidence) -> NextCall | None:
    """Return the first call of a finished project's later steps that has not been made; None where nothing is left.

    A comparison leaves no record: it is named until one of its versions is in use.
    """
    later = asked_later(evidence.project.intent)
    versions = [body["version"] for _, body in evidence.entries(ModelRegistered.name)]
    if later is None or not versions:
        return None
    said = f"the intent goes on: {cut(later.words, MOST_WORDS)!r}"
    if later.is_again and len(versions) == 1:
        score = f"models(project={evidence.name!r}, score='FILE') scores v1 on new rows of a table before"
        both = 'data.args.path a list, ["old.csv", "new.csv"]'
        how = f"{score}; then append them to the file of the data, or make {both}; v1 stays"
        return evidence.call("configure", f"{said}; {how}", begin_release=True)
    newest = f"v{versions[-1]}"
    moves = moves_among(body for _, body in evidence.entries(ModelPromoted.name))
    held = aliases_after(moves).get(PRODUCTION)
    if later.is_compared and held != versions[-1]:
        pair = [f"v{held or versions[-2]}", newest]
        return evidence.call("models", f"{said}; promote_model puts the better one in production", compare=pair)
    if later.is_promoted and held is None:
        return evidence.call("promote_model", said, version=newest)
    return None
