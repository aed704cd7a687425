"""Rows of the data since an earlier smoke run: new ones, gone ones, and test rows that are trained on now."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.phases import Phase
from trainwright.tools.gates.records import RunRecords
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.gates.test_set_access import has_evaluated
from trainwright.tools.versions import version_of
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.split_rows import RowsMoved, SplitRows, rows_moved

DECIDED_BY_COLUMN = ("given", "time")
"""Ways to split under which old test rows in train are no slip: a column decides, or time has passed."""


class Grown(NamedTuple):
    """Rows since an earlier smoke run."""

    moved: RowsMoved
    since: str
    """The earlier run."""
    was_planned: bool
    """Whether a planning gate accepted it."""
    rows: int = 0
    """Different rows of the earlier run."""
    kept: tuple[str, ...] = ()
    """Smoke runs whose test rows stay test rows."""

    @property
    def is_other(self) -> bool:
        """Whether most of the earlier rows are gone: another data set, and no further version of it."""
        return self.moved.gone * 2 > self.rows > 0

    def __str__(self) -> str:
        """In words."""
        moved, about = self.moved, "about " if self.moved.estimated else ""
        text = f"since {self.since} {about}{moved.new} rows new, {moved.gone} gone"
        text += f", {moved.changes}" * bool(moved.changed)
        if moved.test_in_train or moved.test_in_validation:
            text += f", of its test rows {moved.test_in_train} now in train"
            text += f" and {moved.test_in_validation} in validation" * bool(moved.test_in_validation)
        if self.is_other:
            return f"{text}: another data set, which compares with no earlier result"
        if not self.kept or moved.test_in_train or moved.test_in_validation:
            return text
        text += f"; test rows of {', '.join(self.kept)} stay test rows"
        anew = f"{moved.validation_in_train} validation rows of {self.since} are in train now"
        return text + f"; others are divided anew: {anew}" * bool(moved.validation_in_train)


def rows_since(evidence: Evidence, run: RunEvidence) -> Grown | None:
    """Compare a smoke run's rows with those of the plan before it, else of the smoke run before it.

    None where there is none, where the data are the same, or one of them recorded no rows.
    """
    if not run.split_rows.kept:
        return None
    earlier, was_planned = _planned_before(evidence, run), True
    if earlier is None:
        earlier, was_planned = _smoke_before(evidence, run), False
    if earlier is None or earlier.data.fingerprint == run.data.fingerprint:
        return None
    files = [(str(one.directory.artifacts), one.split_rows.model_dump_json()) for one in (earlier, run)]
    moved = _compared(*files[0], *files[1])
    different = (one.size if one.different is None else one.different for one in earlier.data.splits.values())
    kept = tuple(Path(one).name for one in run.directory.specification().sides)
    return None if moved is None else Grown(moved, earlier.id, was_planned, sum(different), kept)


def validates_on_same_rows(evidence: Evidence, *runs: RunEvidence | RunRecords) -> bool:
    """Return whether two runs were validated on the same rows for the same target, whichever columns each reads."""
    splits = [one.data.splits.get("validation") for one in runs]
    if len({one.fingerprint for one in splits if one is not None}) < 2:
        return all(splits)
    versions = [version_of(evidence.data_versions, one.data.fingerprint) for one in runs]
    plans = [evidence.run(one.run_id) for one in versions if one is not None]
    files = [(str(one.directory.artifacts), one.split_rows.model_dump_json()) for one in plans if one is not None]
    if len(files) < 2 or len({one.data.understood.get("target") for one in runs}) > 1:
        return False
    moved = _compared(*files[0], *files[1])
    return moved is not None and moved.same_validation


def keeps_test(evidence: Evidence, grown: Grown, split: dict[str, object] | None) -> bool:
    """Return whether old test rows stayed out of train, as far as they must.

    Rows may be divided anew until a model was evaluated on the earlier test split.
    """
    if not (grown.was_planned and grown.moved.test_in_train) or (split or {}).get("by") in DECIDED_BY_COLUMN:
        return True
    earlier = evidence.run(grown.since)
    return earlier is None or not has_evaluated(evidence, earlier)


def runs_to_keep_sides_of(evidence: Evidence) -> list[str]:
    """Return the smoke runs of accepted plans on whose test rows a model was evaluated, the first plan's first."""
    smokes = {
        body["rested_on"].get("smoke_run"): None
        for _, body in evidence.entries("gate")
        if body["phase"] == Phase.PLANNING and body["outcome"] != "refused"
    }
    runs = [run for name in smokes if name and (run := evidence.run(name)) is not None and run.split_rows.kept]
    return [run.id for run in runs if has_evaluated(evidence, run)]


def _planned_before(evidence: Evidence, run: RunEvidence) -> RunEvidence | None:
    for _, body in reversed(evidence.entries("gate")):
        if body["phase"] == Phase.PLANNING and body["outcome"] != "refused":
            named = body["rested_on"].get("smoke_run", "")
            earlier = evidence.run(named) if named and named != run.id else None
            if earlier is not None and earlier.split_rows.kept:
                return earlier
    return None


def _smoke_before(evidence: Evidence, run: RunEvidence) -> RunEvidence | None:
    ids = [run_id for run_id, start in evidence.facts.started.items() if start.kind == RunKind.SMOKE.value]
    for run_id in reversed(ids[: ids.index(run.id)] if run.id in ids else []):
        earlier = evidence.run(run_id)
        if earlier is not None and earlier.is_complete:
            return earlier
    return None


@lru_cache(64)
def _compared(before: str, earlier: str, after: str, now: str) -> RowsMoved | None:
    """Compare two records by their folders and contents, which name the digests of the files that are read."""
    kinds = (SplitRows.model_validate_json(text) for text in (earlier, now))
    first, second = kinds
    return rows_moved(first, Path(before), second, Path(after))
