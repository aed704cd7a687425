"""Diff of two data versions: rows new, gone and moved between splits; columns; distributions. From records alone."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from trainwright.tools.documents.rendering import Markdown, render
from trainwright.tools.evaluation import Sealed
from trainwright.tools.ledger import ProjectFacts
from trainwright.tools.versions.versions import DataVersion
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.records import Frozen
from trainwright.trainer.run.profile import ColumnProfile
from trainwright.trainer.run.split_rows import SplitRows, rows_moved

MAX_SHIFTS = 20
COUNTS = ("new", "gone", "test_in_train", "test_in_validation", "changed")
"""Of rows that moved, those that a diff tells."""


class Shift(Frozen):
    """How far one column moved."""

    column: str
    measure: str
    """`PSI` of shares, or `Wasserstein` in deviations of the earlier version."""
    value: float
    before: str
    after: str


class VersionDiff(Frozen):
    """What differs between two versions."""

    before: str
    after: str
    sizes: dict[str, tuple[int, int]]
    """Rows of each split in both."""
    rows: dict[str, int] | None = None
    """Different rows: `new`, `gone`, `test_in_train`, `test_in_validation` (of the earlier test
    split); None where a version's rows were not recorded."""
    rows_by: str = "content"
    """By what a row is known: content, inputs or place."""
    rows_estimated: bool = False
    """Whether of large data a part of the rows was compared."""
    rows_not_compared: str = ""
    """Why there are none."""
    columns: dict[str, list[str]]
    """`added`, `removed`, `new_values`, `lost_values`, `classes_added`, `classes_removed`; without empty ones."""
    changed: dict[str, tuple[Any, Any]]
    """Source, way of splitting, preprocessing and licence, where they differ."""
    files: dict[str, str]
    """Path to `new`, `gone` or `changed`."""
    shifts: list[Shift]
    """The largest first: of the train split, and of the classes."""


def diff_versions(
    workspace: Workspace, facts: ProjectFacts, project: str, before: DataVersion, after: DataVersion
) -> VersionDiff:
    """Return what differs between two versions of a project's data."""
    records = [_rows_of(workspace, facts, project, version) for version in (before, after)]
    moved = rows_moved(*records[0], *records[1])
    unknown = next((record.not_recorded or "a smoke run recorded none" for record, _ in records if not record.kept), "")
    pairs = {
        name: (getattr(before, name), getattr(after, name))
        for name in ("source", "split", "preprocessing_digest", "licence")
    }
    counts = [{name: split.size for name, split in version.splits.items()} for version in (before, after)]
    sizes = {name: (counts[0].get(name, 0), counts[1].get(name, 0)) for name in counts[0] | counts[1]}
    return VersionDiff(
        before=before.name,
        after=after.name,
        sizes=sizes,
        rows={name: getattr(moved, name) for name in COUNTS} if moved else None,
        rows_by=moved.by if moved else "content",
        rows_estimated=moved is not None and moved.estimated,
        rows_not_compared=unknown,
        columns=_columns(before, after),
        changed={name: pair for name, pair in pairs.items() if pair[0] != pair[1]},
        files=_files(before.files, after.files),
        shifts=sorted(_shifts(before, after), key=lambda shift: -shift.value)[:MAX_SHIFTS],
    )


def _rows_of(workspace: Workspace, facts: ProjectFacts, project: str, version: DataVersion) -> tuple[SplitRows, Path]:
    """Return the record of a version's rows, and the folder of its file."""
    directory = workspace.run_directory(project, version.run_id)
    record: SplitRows = Sealed(directory, facts.seals[version.run_id].digests).part(SplitRows)
    return record, directory.artifacts


def _columns(before: DataVersion, after: DataVersion) -> dict[str, list[str]]:
    first, second = before.feature_names or [], after.feature_names or []
    values = {
        key: [
            f"{name}={value}"
            for name in first
            for value in newer.categories.get(name, [])
            if name in older.categories and value not in older.categories[name]
        ]
        for key, older, newer in (("new_values", before, after), ("lost_values", after, before))
    }
    found = {
        "added": [name for name in second if name not in first],
        "removed": [name for name in first if name not in second],
        **values,
        "classes_added": [name for name in after.class_names or [] if name not in (before.class_names or [])],
        "classes_removed": [name for name in before.class_names or [] if name not in (after.class_names or [])],
    }
    return {name: listed for name, listed in found.items() if listed}


def _files(before: dict[str, str], after: dict[str, str]) -> dict[str, str]:
    found = {}
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            found[name] = "new" if name not in before else "gone" if name not in after else "changed"
    return found


def _shifts(before: DataVersion, after: DataVersion) -> list[Shift]:
    found = []
    for name, one in before.profile.columns.items():
        other = after.profile.columns.get(name)
        if other is None:
            continue
        distance = quantile_distance(one, other)
        if distance is not None:
            texts = [f"mean {each.mean:g}, deviation {each.deviation:g}" for each in (one, other)]
            found.append(Shift(column=name, measure="Wasserstein", value=distance, before=texts[0], after=texts[1]))
        elif one.shares and other.shares:
            found.append(_of_shares(name, one.shares, other.shares))
        missing = [each.missing / each.count if each.count else 0.0 for each in (one, other)]
        if missing[0] != missing[1]:
            shares = [{"missing": share, "there": 1.0 - share} for share in missing]
            found.append(_of_shares(f"{name} (missing)", shares[0], shares[1]))
    classes = [_class_shares(version) for version in (before, after)]
    found += [_of_shares("classes of train", classes[0], classes[1])] if classes[0] and classes[1] else []
    return [shift for shift in found if shift.value > 0]


def _class_shares(version: DataVersion) -> dict[str, float]:
    counts = (version.splits["train"].classes if "train" in version.splits else None) or {}
    names, total = version.class_names or [], sum(counts.values())
    return {
        names[int(code)] if code.isdigit() and int(code) < len(names) else code: count / total
        for code, count in counts.items()
    }


def _of_shares(name: str, before: dict[str, float], after: dict[str, float]) -> Shift:
    most = sorted(before.keys() | after.keys(), key=lambda value: -abs(after.get(value, 0.0) - before.get(value, 0.0)))[
        :3
    ]
    texts = [", ".join(f"{value} {100 * shares.get(value, 0.0):.3g} %" for value in most) for shares in (before, after)]
    return Shift(column=name, measure="PSI", value=stability_index(before, after), before=texts[0], after=texts[1])


# Shifts between two profiles of a column: population stability index of shares, Wasserstein distance of quantiles.

MIN_SHARE = 1e-4
"""Put for a value that one of the two has not: its logarithm would be infinite."""


def stability_index(before: dict[str, float], after: dict[str, float]) -> float:
    """Return the population stability index of two distributions over values (Siddiqi 2006): 0.1 little, 0.25 much."""
    total = 0.0
    for value in before.keys() | after.keys():
        one, other = (max(shares.get(value, 0.0), MIN_SHARE) for shares in (before, after))
        total += (other - one) * math.log(other / one)
    return total


def quantile_distance(before: ColumnProfile, after: ColumnProfile) -> float | None:
    """Return the Wasserstein distance between two columns by their quantiles, in deviations of the first.

    None where a column holds no numbers; of one that did not vary: 0, or infinity.
    """
    if not before.quantiles or not after.quantiles or len(before.quantiles) != len(after.quantiles):
        return None
    apart = [abs(one - other) for one, other in zip(before.quantiles, after.quantiles, strict=True)]
    distance = (sum(apart) - (apart[0] + apart[-1]) / 2) / (len(apart) - 1)
    return distance / before.deviation if before.deviation else math.inf if distance else 0.0


# Data card: a version of the data in Markdown, under the head that Hugging Face's dataset cards have.

MAX_COLUMNS = 100
MAX_VALUES = 8


def data_card(project: str, version: DataVersion, since: VersionDiff | None = None) -> str:
    """Return the card of a version.

    Args:
        project: whose data they are.
        since: what differs from its parent; None of the first version.
    """
    return render(
        "versions/data_card.md.j2",
        project=project,
        version=version,
        licence=version.licence or "not stated",
        columns=_columns_of(version),
        more=max(0, len(version.profile.columns) - MAX_COLUMNS),
        since=since,
        difference=diff_text(since) if since is not None else "",
    )


def card_of(
    workspace: Workspace,
    facts: ProjectFacts,
    project: str,
    versions: list[DataVersion],
    version: DataVersion,
    *,
    released: DataVersion | None = None,
) -> str:
    """Return the card of one of a project's versions, with what is new since the last release's, else its parent."""
    earlier = released or next((one for one in versions if one.number == version.parent), None)
    is_other = earlier is not None and earlier.number != version.number
    since = diff_versions(workspace, facts, project, earlier, version) if earlier and is_other else None
    return data_card(project, version, since)


def diff_text(diff: VersionDiff) -> Markdown:
    """Return what differs between two versions, in Markdown."""
    return render("versions/data_diff.md.j2", diff=diff)


def _columns_of(version: DataVersion) -> list[list[Any]]:
    """Return (name, missing, content) of each column, as the train split has it."""
    found = []
    for name, column in list(version.profile.columns.items())[:MAX_COLUMNS]:
        listed = ", ".join(f"{value} {100 * share:.3g} %" for value, share in list(column.shares.items())[:MAX_VALUES])
        more = " …" if len(column.shares) > MAX_VALUES else ""
        span = f"{column.quantiles[0]:g} to {column.quantiles[-1]:g}" if column.quantiles else ""
        numbers = f"{span}, mean {column.mean:g}, deviation {column.deviation:g}" if column.quantiles else ""
        is_listed = bool(listed) and (not numbers or len(column.shares) <= MAX_VALUES)
        found.append([name, column.missing, listed + more if is_listed else numbers])
    return found
