"""Values read from small files, kept in this process, and in its forks, while the files are as they were.

A warm process reads them for all runs that it forks; each run compares the stamps again (`traces.stamp_of`), which is
as good as reading: the inode's time of change follows every write, and no program sets it back.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from trainwright.trainer.base.traces import SETTLED_NS, Stamp, note, stamp_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

T = TypeVar("T")
_kept: dict[Hashable, tuple[tuple[Stamp, ...], object]] = {}


def while_unchanged(key: Hashable, paths: Sequence[str], read: Callable[[], T]) -> T:
    """Return what `read` gives, from memory while each of the paths has the stamp that it had then.

    Args:
        key: names the value; one key belongs to one function.
        paths: every file that `read` reads; one that is missing counts as such.
    """
    began = time.time_ns()
    for path in paths:
        note(path)
    stamps = tuple(stamp_of(path) for path in paths)
    if (found := _kept.get(key)) is not None and found[0] == stamps:
        return found[1]  # type: ignore[return-value]
    value = read()
    if max((max(stamp[3:]) for stamp in stamps if stamp is not None), default=0) < began - SETTLED_NS:
        _kept[key] = (stamps, value)
    return value
