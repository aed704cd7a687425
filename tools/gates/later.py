"""Later steps that the intent names, behind the release: another version, a comparison, a version put in use."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from trainwright.tools.ledger.aliases import PRODUCTION, in_production
from trainwright.tools.ledger.events import ModelPromoted, ModelRegistered, RunStarted
from trainwright.trainer.base.text import cut
from trainwright.trainer.config import flatten
from trainwright.trainer.config.later_words import Later, asked_later

if TYPE_CHECKING:
    from trainwright.tools.answers import NextCall
    from trainwright.tools.gates.evidence import Evidence

MAX_WORDS = 120
PATH = "data.args.path"


def later_call(evidence: Evidence, *, is_scored: bool = False) -> NextCall | None:
    """Return the first call of a finished project's later steps that has not been made; None where nothing is left.

    A comparison, or a score, leaves no record: it is named until production was moved, or its gate refused to, since
    the newest version came.

    Args:
        is_scored: whether this answers the score of a later file.
    """
    later = asked_later(evidence.project.intent, str(evidence.version.values.get("data", "a task")))
    versions = [(sequence, body["version"]) for sequence, body in evidence.entries(ModelRegistered.name)]
    if later is None or not versions:
        return None
    said = f"the intent goes on: {cut(later.words, MAX_WORDS)!r}"
    if later.is_again and len(versions) == 1:
        return _second(evidence, said, "" if is_scored else later.scored)
    moves = evidence.entries(ModelPromoted.name)
    if any(sequence > versions[-1][0] and body["alias"] == PRODUCTION for sequence, body in moves):
        return None
    return _choice(evidence, later, said, [number for _, number in versions], is_scored=is_scored)


def _choice(evidence: Evidence, later: Later, said: str, versions: list[int], *, is_scored: bool) -> NextCall | None:
    """Return the call on the way to the version that is to be in use, of which nobody has decided yet."""
    held, newest = in_production(evidence.entries(ModelPromoted.name)), f"v{versions[-1]}"
    if later.is_compared:
        stays = f"v{held} stays in production unless promote_model moves it"
        then = "promote_model then puts the one you choose in production" if held is None else stays
        return evidence.call("models", f"{said}; {then}", compare=[f"v{held or versions[-2]}", newest])
    if later.is_promoted and held is None:
        return evidence.call("promote_model", said, version=newest)
    if later.scored and held is None and not is_scored:
        return evidence.call("models", said, score=later.scored)
    return None


def _second(evidence: Evidence, said: str, scored: str) -> NextCall:
    """Return the score of rows that the first version never saw, or else what begins the second one."""
    if scored:
        why = f"{said}; rows that v1 never saw; then configure(begin_release=true) begins the second version"
        return evidence.call("models", why, score=scored)
    files = 'make data.args.path a list, ["old.csv", "new.csv"], or append the new rows to the first; v1 stays'
    return evidence.call("configure", f"{said}; then {files}", begin_release=True)


def new_rows(evidence: Evidence) -> NextCall | None:
    """Return the change that takes the files of the later step into a begun release's data; None where none is left.

    Once a run of the release has started, its data are the agent's decision.
    """
    given = flatten(evidence.version.values).get(PATH)
    later = asked_later(evidence.project.intent, str(given))
    if not evidence.begun or later is None or not later.is_again or not isinstance(given, str | list):
        return None
    if any(sequence > evidence.begun[-1] for sequence, _ in evidence.entries(RunStarted.name)):
        return None
    present = [given] if isinstance(given, str) else [str(one) for one in given]
    root = Path(evidence.project.code_root)
    more = [
        name
        for name in later.added
        if (root / name).is_file() and not any(PurePath(name).match(one) for one in present)
    ]
    why = f"the intent goes on: {cut(later.words, MAX_WORDS)!r}"
    return evidence.call("configure", why, changes={PATH: [*present, *more]}) if more else None
