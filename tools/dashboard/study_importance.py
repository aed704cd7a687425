"""Importance of a study's parameters, computed once for each state of its completed trials: a page asks every time."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from trainwright.tools.hyperparameter_tuner.analysis import Importance, Subject
from trainwright.trainer.base.canonical import digest_json

MOST_KEPT = 32
"""Tables whose importance is remembered."""


@dataclass(frozen=True)
class _Table:
    """What importance is computed of; two with one digest are one."""

    digest: str
    subject: Subject = field(compare=False)


def importance_in(subject: Subject) -> Importance:
    """Return the importance of a study's parameters; of a table that was seen before without computing anything."""
    table = [[one.number, one.parameters, one.value] for one in subject.completed]
    space = {key: range_.model_dump(mode="json") for key, range_ in subject.space.items()}
    return remembered(_Table(digest_json([subject.direction, space, table]), subject))


@lru_cache(maxsize=MOST_KEPT)
def remembered(table: _Table) -> Importance:
    """Return a table's importance, computed at its first look."""
    return table.subject.importance
