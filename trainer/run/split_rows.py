"""Record of the rows that each split holds, and what differs between two. Free of torch.

`artifacts/split_rows.bin` has, of each split in turn, the sorted records of its rows: 8 bytes of a hash by which rows
of large data are drawn, 16 of the content's digest, 16 of the inputs' digest, 8 of its place in the files; of a table
then 4 of a hash of each cell; 4 of its index in the split. Behind them are the marks of the groups that are kept
together and have a row outside the test split. Drawn by content, a row is in the record of grown data
again. A row is known by its place where the files are the same (whichever columns are read), else by the cells of the
columns that both have, or by its inputs, where these tell rows apart: another target, a column more or less makes no
other row of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trainwright.trainer.base.canonical import digest_bytes
from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.run.directory import RunDirectory
from trainwright.trainer.run.evidence import Part

if TYPE_CHECKING:
    from trainwright.trainer.data.marks import Marks

FILE = "split_rows.bin"
ORDER = ("train", "validation", "test")
HASH, CONTENT, INPUTS, RECORD = 8, 24, 40, 48
"""Where the parts of a row's record end, before its cells."""
CELL = 4
"""Bytes of a cell's hash."""
GROUP = 7
"""Bytes of a group's mark."""
TARGET = "(target)"
"""Name of the cell that is a row's target (trainer/data/marks.py)."""
INDEX = "(index)"
"""Name of the cell that is a row's index in its split: of windows, whose rows overlap, there is none."""
SAME_CELLS = 0.5
"""Share of different cells in a column that both must have, for it to be the same column."""
PARTS = {"content": slice(0, CONTENT), "inputs": slice(CONTENT, INPUTS), "place": slice(INPUTS, RECORD)}
MAX_ROWS = 1 << 17
"""Of which about so many are recorded: all of smaller data."""
FOUND_AGAIN = 0.9
"""Share of an earlier plan's drawn rows that must be there again, for rows of large data to be known by content."""
TELLING = 0.98
"""Share of different rows that must have different inputs, for rows to be known by these."""

Rows = dict[str, list[bytes]]


class SplitRows(Part, file="split_rows"):
    """What the file holds."""

    level: int = 0
    """Of 2 ** level rows one is recorded, by its content."""
    kept: dict[str, int] = {}  # noqa: RUF012 - a model, whose base stands in another file
    """Recorded rows by split."""
    size: int = CONTENT
    """Bytes of a row's record."""
    columns: list[str] = []  # noqa: RUF012
    """Names of the cells in each record."""
    source: str = ""
    """Digest of the files that the rows' places are in; empty where rows have none."""
    groups: int = 0
    """Marks of groups behind the records."""
    digest: str | None = None
    """Of the file."""
    not_recorded: str | None = None
    """Why no rows are recorded."""

    def read(self, artifacts: Path) -> Rows:
        """Return the records of each split. Raises IntegrityError where the file is not the one that was written."""
        content, found, start = self._content(artifacts), dict[str, list[bytes]](), 0
        for name in ORDER:
            stop = start + self.kept.get(name, 0) * self.size
            found[name] = [content[place : place + self.size] for place in range(start, stop, self.size)]
            start = stop
        return found

    def read_groups(self, artifacts: Path) -> set[bytes]:
        """Return the marks of the groups that train or validation has a row of (data/cells.py). Raises as `read`."""
        content = self._content(artifacts)
        start = len(content) - GROUP * self.groups
        return {content[place : place + GROUP] for place in range(start, len(content), GROUP)}

    def _content(self, artifacts: Path) -> bytes:
        path = artifacts / FILE
        content = path.read_bytes() if path.is_file() else b""
        if digest_bytes(content) != self.digest:
            raise IntegrityError(
                f"{path} is not as the run wrote it.",
                remedy="Measure again with a smoke run; `trainwright verify WORKSPACE` names what was changed.",
            )
        return content

    def different(self, artifacts: Path) -> int:
        """Return how many different rows there are, estimated where some are drawn. Raises as `read`."""
        return len({one[:CONTENT] for one in chain(*self.read(artifacts).values())}) << self.level


class RowsMoved(NamedTuple):
    """What became of the rows between two records; numbers of different rows, estimated where rows were drawn."""

    new: int
    gone: int
    test_in_train: int
    """Rows of the earlier test split that are for training now."""
    test_in_validation: int
    estimated: bool
    changed: int = 0
    """Rows that are there still, and hold something else."""
    same: int = 0
    """Rows that are there still."""
    from_train: dict[str, int] = {}  # noqa: RUF012 - never changed
    """Rows of each held-out split now that the earlier train split has."""
    validation_in_train: int = 0
    """Rows of the earlier validation split that are for training now."""
    by: str = "content"
    """By what a row is known: its `content`, its `inputs`, its `cells`, or its `place` in unchanged files."""
    same_validation: bool = False
    """Whether the validation rows are the same ones of unchanged files."""
    gone_by_target: dict[bytes, tuple[int, int]] = {}  # noqa: RUF012 - never changed
    """Of the earlier rows with a target, by the hash of its cell, how many are gone, and how many there were."""

    @property
    def changes(self) -> str:
        """In words what rows that are there still hold; empty where all hold the same."""
        return f"{self.changed} with {'another target' if self.by == 'inputs' else 'other values'}" * bool(self.changed)


class Known(NamedTuple):
    """Records of rows, and what is to be known of them to compare them with others."""

    records: list[bytes]
    columns: list[str]
    source: str


Key = Callable[[bytes], bytes]
"""Returns of a record that by which the row is known."""


def known_by(earlier: Known, now: Known) -> tuple[str, Key, Key]:
    """Return by what rows of two records are known (RowsMoved.by), and how it is read from a record of either."""
    if earlier.source and earlier.source == now.source:
        return "place", _part("place"), _part("place")
    shared = [name for name in earlier.columns if name in now.columns and name != INDEX]
    both = [name for name in shared if _is_same_column(earlier, now, name)]
    plain = [name for name in both if name != TARGET]
    inputs, cells = [_part("inputs")] * 2, [_cells(one.columns, plain) for one in (earlier, now)]
    if plain and _tell(earlier, now, cells) and _shared(earlier, now, cells) > _shared(earlier, now, inputs):
        return "cells", cells[0], cells[1]
    if _tell(earlier, now, inputs):
        return "inputs", inputs[0], inputs[1]
    if plain:  # rows that are alike but for their targets, of which each is a row of its own
        return "cells", _cells(earlier.columns, both), _cells(now.columns, both)
    return "content", _part("content"), _part("content")


def _tell(earlier: Known, now: Known, keys: Sequence[Key]) -> bool:
    return all(_tells(one, key) for one, key in zip((earlier, now), keys, strict=True))


def _shared(earlier: Known, now: Known, keys: Sequence[Key]) -> int:
    return len(set(map(keys[0], earlier.records)) & set(map(keys[1], now.records)))


def _part(name: str) -> Key:
    place = PARTS[name]
    return lambda record: record[place]


def _cells(columns: list[str], chosen: list[str]) -> Key:
    starts = [RECORD + CELL * columns.index(name) for name in chosen]
    return lambda record: b"".join(record[start : start + CELL] for start in starts)


def _is_same_column(earlier: Known, now: Known, name: str) -> bool:
    first, second = (set(map(_cells(one.columns, [name]), one.records)) for one in (earlier, now))
    return len(first & second) >= SAME_CELLS * min(len(first), len(second))


def _tells(known: Known, key: Key) -> bool:
    if any(len(one) < INPUTS for one in known.records):
        return False
    return tell_apart(set(map(key, known.records)), {one[PARTS["content"]] for one in known.records})


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
    level, *both_plans = _both(earlier, before, now, after)
    by = both_plans[0].by
    old, new = ({name: set(map(one.key, rows)) for name, rows in one.rows.items()} for one in both_plans)
    old_rows, new_rows = (_contents(one.rows, one.key) for one in both_plans)
    both = old_rows.keys() & new_rows.keys()

    def moved(one: str, split: str) -> int:  # rows that only their targets tell apart may have been in both before
        return len((old[one] - old[split]) & new[split]) << level

    return RowsMoved(
        new=(len(new_rows) - len(both)) << level,
        gone=(len(old_rows) - len(both)) << level,
        test_in_train=moved("test", "train"),
        test_in_validation=moved("test", "validation"),
        estimated=level > 0,
        changed=sum(old_rows[one] != new_rows[one] for one in both),
        same=len(both) << level,
        from_train={name: count << level for name in ORDER[1:] if (count := len(new[name] & old["train"]))},
        validation_in_train=moved("validation", "train"),
        by=by,
        same_validation=by == "place" and old["validation"] == new["validation"],
        gone_by_target=_gone_by_target(both_plans[0], new_rows, level),
    )


def _gone_by_target(old: _Plan, there: Collection[bytes], level: int) -> dict[bytes, tuple[int, int]]:
    """Return RowsMoved.gone_by_target; empty where none is gone, or targets are not recorded.

    Args:
        there: what the later rows are known by.
    """
    if TARGET not in old.known.columns:
        return {}
    target = _cells(old.known.columns, [TARGET])
    of = {old.key(one): target(one) for one in old.known.records}
    every, gone = Counter(of.values()), Counter(of[key] for key in of if key not in there)
    return {one: (count << level, every[one] << level) for one, count in gone.items()}


def rows_tested_by_both(one: SplitRows, folder: Path, other: SplitRows, other_folder: Path) -> int:
    """Return how many different test rows the plans of two projects share; 0 where that is not recorded.

    Two tables are of the same rows by cells that tell each row from the others, in more columns than one: a running
    number alone is in any table. Raises as `rows_moved`.
    """
    if not (one.kept and other.kept):
        return 0
    level, first, second = _both(one, folder, other, other_folder)
    tell = all(tell_apart(set(map(plan.key, plan.known.records)), plan.known.records) for plan in (first, second))
    columns = [name for name in one.columns if name in other.columns and name not in {TARGET, INDEX}]
    shared = sum(_is_same_column(first.known, second.known, name) for name in columns)
    if not tell or (first.by == "cells" and shared == 1):
        return 0
    tested = (set(map(plan.key, plan.rows["test"])) for plan in (first, second))
    return len(set.intersection(*tested)) << level


class Became(NamedTuple):
    """What became of the different rows that tested an earlier plan; of large data, of those that are recorded."""

    same: int = 0
    """Test rows still, with the same target and the same cells in the columns of the earlier plan."""
    moved: int = 0
    """The same, and for training or validation now."""
    relabelled: int = 0
    """With another target."""
    changed: int = 0
    """With other cells."""
    columns: tuple[str, ...] = ()
    """Columns that hold other cells in them."""
    gone: int = 0
    unknown: int = 0
    """That cannot be told from rows to train on, by what both records know."""

    @property
    def all(self) -> int:
        """How many there were."""
        return self.same + self.moved + self.relabelled + self.changed + self.gone + self.unknown


class Unseen(NamedTuple):
    """The held-out rows of a plan that an earlier one has not for training."""

    indices: dict[str, list[int]]
    """Indices in each split; {}: all of its rows. Of large data, those among the rows that are recorded."""
    seen: dict[str, int]
    """How many the earlier plan has for training, by split; estimated where rows were drawn."""
    tested: Became = Became()
    are_drawn: bool = False
    """Whether only a drawn part of the rows is recorded."""
    kept: tuple[int, ...] = ()
    """Indices in the later test split of the same test rows, each once; empty where indices are not recorded."""


def rows_unseen(earlier: SplitRows, before: Path, now: SplitRows, after: Path) -> Unseen | None:
    """Return the held-out rows of `after` that the train split of `before` has not; None where that is not recorded.

    Of large data it is told by content alone, and only where most of the earlier rows are found again by it.

    Raises:
        IntegrityError: a file is not as it was written.
    """
    if not (earlier.kept and now.kept):
        return None
    level, old, new = _both(earlier, before, now, after)
    keys = set(map(old.key, old.known.records))
    if level and len(keys & set(map(new.key, new.known.records))) < FOUND_AGAIN * len(keys):
        return None
    trained = set(map(old.key, old.rows["train"]))
    unseen = {name: [one for one in new.rows[name] if new.key(one) not in trained] for name in ORDER[1:]}
    seen = {name: (len(new.rows[name]) - len(rows)) << level for name, rows in unseen.items()}
    names, have_targets = _other_columns(old, new), TARGET in earlier.columns and TARGET in now.columns
    was, is_now = (_held(one, names, have_targets=have_targets) for one in (old, new))
    tested = {was(one) for one in old.rows["test"]}
    still = {pair: one for one in unseen["test"] if (pair := is_now(one)) in tested}
    became = _became(tested, still.keys(), trained, map(is_now, new.known.records), names)
    is_all = level == 0 and not any(seen.values())
    if INDEX not in now.columns:
        return Unseen({}, seen, became, level > 0) if is_all else None
    cell = _cells(now.columns, [INDEX])
    index, kept = (
        {name: sorted(int.from_bytes(cell(one), "big") for one in rows) for name, rows in found.items()}
        for found in (unseen, {"test": still.values()})
    )
    return Unseen({} if is_all else index, seen, became, level > 0, tuple(kept["test"]))


class Held(NamedTuple):
    """What a row holds beside that by which it is known.

    Whoever edits targets chooses who is right, and whoever turns or scales a column, who can read it.
    """

    target: bytes
    cells: bytes

    def cell(self, place: int) -> bytes:
        """Return one of the cells."""
        return self.cells[CELL * place : CELL * (place + 1)]


def _held(plan: _Plan, names: list[str], *, have_targets: bool) -> Callable[[bytes], tuple[bytes, Held]]:
    """Return what reads of a plan's record its key, and its target and cells in these columns."""
    cells = _cells(plan.known.columns, names)
    target = _part("content") if plan.by == "inputs" else _cells([], [])
    if have_targets:
        target = _cells(plan.known.columns, [TARGET])
    return lambda record: (plan.key(record), Held(target(record), cells(record)))


def _other_columns(old: _Plan, new: _Plan) -> list[str]:
    """Return the columns in which a row may hold another cell: none of the same inputs, or in the same file."""
    both = [name for name in old.known.columns if name in new.known.columns and name not in {TARGET, INDEX}]
    return both if old.by == "cells" else []


def _became(
    tested: set[tuple[bytes, Held]],
    still: Collection[tuple[bytes, Held]],
    trained: Collection[bytes],
    now: Iterable[tuple[bytes, Held]],
    names: Sequence[str],
) -> Became:
    """Count what became of the rows that tested a plan.

    Args:
        tested: keys, and what these rows held.
        still: those of them that are test rows as they were.
        trained: keys of the plan's rows to train on. Whoever changes all columns but one makes test rows these.
        now: of all rows now.
        names: of the columns whose cells are held.
    """
    there: dict[bytes, list[Held]] = {}
    for key, held in now:
        there.setdefault(key, []).append(held)
    counts, columns = dict.fromkeys(("same", "moved", "relabelled", "changed", "gone", "unknown"), 0), set[str]()
    for key, held in tested:
        found = there.get(key, [])
        alike = [one for one in found if one.target == held.target]
        if key in trained:
            counts["unknown"] += 1
        elif (key, held) in still:
            counts["same"] += 1
        elif held in found:
            counts["moved"] += 1
        elif alike:
            counts["changed"] += 1
            columns |= {name for place, name in enumerate(names) if alike[0].cell(place) != held.cell(place)}
        else:
            counts["relabelled" if found else "gone"] += 1
    return Became(**counts, columns=tuple(name for name in names if name in columns))


class _Plan(NamedTuple):
    """One of two records of rows, and how its rows are known in the other."""

    rows: Rows
    known: Known
    by: str
    key: Key


def _both(earlier: SplitRows, before: Path, now: SplitRows, after: Path) -> tuple[int, _Plan, _Plan]:
    """Return the level at which rows of both are drawn, and both. Raises IntegrityError for a changed file."""
    level = max(earlier.level, now.level)
    rows = [_drawn(one.read(folder), level) for one, folder in ((earlier, before), (now, after))]
    known = [
        Known([*chain(*found.values())], one.columns, one.source)
        for found, one in zip(rows, (earlier, now), strict=True)
    ]
    by, was, is_now = "content", _part("content"), _part("content")  # of many rows some are drawn, by it
    if level == 0:
        by, was, is_now = known_by(*known)
    return level, _Plan(rows[0], known[0], by, was), _Plan(rows[1], known[1], by, is_now)


def _contents(found: Rows, key: Key) -> dict[bytes, set[bytes]]:
    """Return, by what rows are known, what they hold."""
    contents: dict[bytes, set[bytes]] = {}
    for one in chain(*found.values()):
        contents.setdefault(key(one), set()).add(one[HASH:CONTENT])
    return contents


def _drawn(found: Rows, level: int) -> Rows:
    limit = 1 << (64 - level)
    return {name: [one for one in rows if int.from_bytes(one[:HASH], "big") < limit] for name, rows in found.items()}


# Sides that rows keep from one plan to the next, as the smoke runs of earlier plans recorded them. Free of torch.


@dataclass(frozen=True)
class Plan:
    """The rows of one earlier plan."""

    test: list[bytes]
    others: list[bytes]
    columns: list[str]
    source: str

    @classmethod
    def of(cls, run: RunDirectory) -> Plan | None:
        """Return what a smoke run recorded; None where not all rows are. Raises IntegrityError for a changed file."""
        kept = run.part(SplitRows)
        if not kept.kept or kept.level or kept.size < RECORD:
            return None
        found = kept.read(run.artifacts)
        return cls(found["test"], found["train"] + found["validation"], kept.columns, kept.source)


class KeptSides:
    """The sides of rows by earlier plans.

    Args:
        runs: folders of the smoke runs that these plans depend on.
    """

    def __init__(self, runs: Iterable[str]) -> None:
        self.plans = [plan for one in runs if (plan := Plan.of(RunDirectory(Path(one)))) is not None]

    def of(self, marks: Marks) -> tuple[list[bool], list[bool]]:
        """Return which rows were test rows of an earlier plan, and which were its other rows, (rows,) each."""
        was_test, was_other = ([False] * len(marks.records) for _ in range(2))
        now = Known(marks.records, marks.columns, marks.source)
        for plan in self.plans:
            _, before, after = known_by(Known(plan.test + plan.others, plan.columns, plan.source), now)
            test, others = ({*map(before, rows)} for rows in (plan.test, plan.others))
            for row, mark in enumerate(map(after, marks.records)):
                was_test[row] |= mark in test
                was_other[row] |= mark in others
        return was_test, was_other
