"""Record of the rows that each split holds, and what differs between two. Free of torch.

`artifacts/split_rows.bin` has, of each split in turn, RECORD bytes a row in order: 8 of a hash by which rows of large
data are drawn, 16 of the content's digest. Drawn by content, a row is in the record of grown data again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trainwright.trainer.base.canonical import digest_bytes
from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.run.evidence import Part

if TYPE_CHECKING:
    from pathlib import Path

FILE = "split_rows.bin"
ORDER = ("train", "validation", "test")
HASH, RECORD = 8, 24
MOST_ROWS = 1 << 17
"""Of which about so many are recorded: all of smaller data."""


class SplitRows(Part, file="split_rows"):
    """What the file holds."""

    level: int = 0
    """Of 2 ** level rows one is recorded, by its content."""
    kept: dict[str, int] = {}  # noqa: RUF012 - a model, whose base stands in another file
    """Recorded different rows by split."""
    digest: str | None = None
    """Of the file."""
    not_recorded: str | None = None
    """Why no rows are recorded."""

    def read(self, artifacts: Path) -> dict[str, list[bytes]]:
        """Return the records of each split. Raises IntegrityError where the file is not the one that was written."""
        path = artifacts / FILE
        content = path.read_bytes() if path.is_file() else b""
        if digest_bytes(content) != self.digest:
            raise IntegrityError(
                f"{path} is not as the run wrote it.",
                remedy="Measure again with a smoke run; `trainwright verify WORKSPACE` names what was changed.",
            )
        found, start = {}, 0
        for name in ORDER:
            stop = start + self.kept.get(name, 0) * RECORD
            found[name] = [content[place : place + RECORD] for place in range(start, stop, RECORD)]
            start = stop
        return found


class RowsMoved(NamedTuple):
    """What became of the rows between two records; numbers of different rows, estimated where rows were drawn."""

    new: int
    gone: int
    test_in_train: int
    """Rows of the earlier test split that are for training now."""
    test_in_validation: int
    estimated: bool


def rows_moved(earlier: SplitRows, before: Path, now: SplitRows, after: Path) -> RowsMoved | None:
    """Compare the rows recorded under `before` with those under `after`; None where one of them has no record.

    Raises:
        IntegrityError: a file is not as it was written.
    """
    if not (earlier.kept and now.kept):
        return None
    level = max(earlier.level, now.level)
    limit = 1 << (64 - level)
    old, new = (
        {name: {one for one in rows if int.from_bytes(one[:HASH], "big") < limit} for name, rows in found.items()}
        for found in (earlier.read(before), now.read(after))
    )
    old_rows, new_rows = set().union(*old.values()), set().union(*new.values())
    tested = old.get("test", set())
    return RowsMoved(
        new=len(new_rows - old_rows) << level,
        gone=len(old_rows - new_rows) << level,
        test_in_train=len(tested & new.get("train", set())) << level,
        test_in_validation=len(tested & new.get("validation", set())) << level,
        estimated=level > 0,
    )
