"""Record of the rows that each split holds, and what differs between two. Free of torch.

`artifacts/split_rows.bin` has, of each split in turn, the records of its rows in order: 8 bytes of a hash by which rows
of large data are drawn, 16 of the content's digest, 16 of the inputs' digest. Drawn by content, a row is in the record
of grown data again. A row is known by its inputs where these tell rows apart: another target makes no other row of it.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from trainwright.trainer.base.canonical import digest_bytes
from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.run.evidence import Part

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

FILE = "split_rows.bin"
ORDER = ("train", "validation", "test")
HASH, CONTENT, RECORD = 8, 24, 40
"""Where the parts of a row's record end."""
MOST_ROWS = 1 << 17
"""Of which about so many are recorded: all of smaller data."""
TELLING = 0.98
"""Share of different rows that must have different inputs, for rows to be known by these."""

Rows = dict[str, list[bytes]]


class SplitRows(Part, file="split_rows"):
    """What the file holds."""

    level: int = 0
    """Of 2 ** level rows one is recorded, by its content."""
    kept: dict[str, int] = {}  # noqa: RUF012 - a model, whose base stands in another file
    """Recorded different rows by split."""
    size: int = CONTENT
    """Bytes of a row's record: earlier versions left the inputs out."""
    digest: str | None = None
    """Of the file."""
    not_recorded: str | None = None
    """Why no rows are recorded."""

    def read(self, artifacts: Path) -> Rows:
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
            stop = start + self.kept.get(name, 0) * self.size
            found[name] = [content[place : place + self.size] for place in range(start, stop, self.size)]
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
    other_targets: int = 0
    """Rows that have the inputs of an earlier one, and another target."""


def tell_apart(inputs: Collection[object], contents: Collection[object]) -> bool:
    """Return whether different inputs are about as many as different rows, so that a row is known by them."""
    return bool(contents) and len(inputs) >= TELLING * len(contents)


def rows_moved(earlier: SplitRows, before: Path, now: SplitRows, after: Path) -> RowsMoved | None:
    """Compare the rows recorded under `before` with those under `after`; None where one of them has no record.

    Raises:
        IntegrityError: a file is not as it was written.
    """
    if not (earlier.kept and now.kept):
        return None
    level = max(earlier.level, now.level)
    old, new = _known_rows(earlier.read(before), now.read(after), level)
    old_rows, new_rows = (dict(chain(*(rows.items() for rows in one.values()))) for one in (old, new))
    both, tested = old_rows.keys() & new_rows.keys(), old.get("test", {}).keys()
    return RowsMoved(
        new=(len(new_rows) - len(both)) << level,
        gone=(len(old_rows) - len(both)) << level,
        test_in_train=len(tested & new.get("train", {}).keys()) << level,
        test_in_validation=len(tested & new.get("validation", {}).keys()) << level,
        estimated=level > 0,
        other_targets=sum(old_rows[one] != new_rows[one] for one in both),
    )


def _known_rows(old: Rows, new: Rows, level: int) -> Iterator[dict[str, dict[bytes, bytes]]]:
    """Yield, for both records, each split's rows: by what a row is known, its content."""
    limit = 1 << (64 - level)
    drawn = [
        {name: [one for one in rows if int.from_bytes(one[:HASH], "big") < limit] for name, rows in found.items()}
        for found in (old, new)
    ]
    by_inputs = level == 0 and all(map(_are_told_by_inputs, drawn))  # of many rows some are drawn, by their content
    part = slice(CONTENT, RECORD) if by_inputs else slice(0, CONTENT)
    for found in drawn:
        yield {name: {one[part]: one[:CONTENT] for one in rows} for name, rows in found.items()}


def _are_told_by_inputs(found: Rows) -> bool:
    rows = {*chain(*found.values())}
    return all(len(one) == RECORD for one in rows) and tell_apart({one[CONTENT:] for one in rows}, rows)
