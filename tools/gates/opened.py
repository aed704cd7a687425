"""Files of the user's that appeared, or changed, after planning's smoke run, and that a later run opened.

Derived from sealed evidence alone: the listing of the code root at the end of the smoke run, and what each run opened
and wrote. A file that a recorded run of the project left as it was found is no surprise: a cache, a log.
"""

from __future__ import annotations

from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from trainwright.trainer.base.paths import SKIPPED
from trainwright.trainer.base.traces import note
from trainwright.trainer.run.looked_at import Listing, Opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainwright.tools.gates.records import Records, RunRecords
    from trainwright.trainer.run.looked_at import OpenedFile


def unplanned_files(evidence: Records, run: RunRecords, smoke: RunRecords) -> list[str]:
    """Return the names of the files that a run opened, and that planning's smoke run did not find as they were."""
    return _without_left(evidence, run.id, _unplanned(evidence, run, smoke))


def opened_since(evidence: Records, smoke: RunRecords) -> list[str]:
    """Return one sentence for every complete run after a smoke run that opened files which planning had not seen."""
    ids = list(evidence.facts.started)
    later = ids[ids.index(smoke.id) + 1 :] if smoke.id in ids else []
    found = {run_id: _seen_of(evidence, run_id, smoke) for run_id in later if run_id in evidence.facts.seals}
    return [
        f"files: {run_id} opened {', '.join(names[:3])}{' …' if len(names) > 3 else ''}, new or changed since planning"
        for run_id, other in found.items()
        if (names := _without_left(evidence, run_id, other))
    ]


def _seen_of(evidence: Records, run_id: str, smoke: RunRecords) -> dict[str, OpenedFile]:
    """Return the files of which `_unplanned` tells, of a run by its id; none of one that is not complete.

    A search has many runs, most of them unchanged since the last look.
    """

    def look() -> dict[str, OpenedFile]:
        note(smoke.directory.artifacts / f"{Listing.file}.json")  # which is read once for all runs
        run = evidence.run(run_id)
        return _unplanned(evidence, run, smoke) if run is not None and run.is_complete else {}

    key = ("opened", evidence.folder, run_id, evidence.facts.seals[run_id].state, smoke.id)
    return evidence.inspection.recall(key, look)


def _unplanned(evidence: Records, run: RunRecords, smoke: RunRecords) -> dict[str, OpenedFile]:
    """Return the files that a run opened and that planning's smoke run did not find as they were."""
    opened, planned = run.part(Opened).files, smoke.part(Opened)
    if run.id == smoke.id or not opened or not planned:  # or an earlier version recorded none
        return {}
    listing = evidence.inspection.once(f"listing of {smoke.directory.path}", partial(smoke.part, Listing))
    return {name: file for name, file in opened.items() if not _is_planned(name, file, planned, listing)}


def _without_left(evidence: Records, run_id: str, other: dict[str, OpenedFile]) -> list[str]:
    """Return the names of those files that no earlier run of the project left as they were opened."""
    for earlier in _until(evidence, run_id) if other else ():
        left = earlier.part(Opened).written
        other = {name: file for name, file in other.items() if file.digest is None or left.get(name) != file.digest}
    return sorted(other)


def _is_planned(name: str, file: OpenedFile, planned: Opened, listing: Listing) -> bool:
    """Whether planning's smoke run read or left a file as it was opened later; of others, whether it was there."""
    if not SKIPPED.isdisjoint(PurePosixPath(name).parts):
        return True
    if name in planned.files or name in planned.written:
        seen = planned.files.get(name)
        return file.digest is not None and file.digest in {seen and seen.digest, planned.written.get(name)}
    if name in listing.files:
        return listing.files[name] == file.bytes
    return not listing or listing.is_cut or any(_is_under(name, folder) for folder in listing.unlisted)


def _is_under(name: str, folder: str) -> bool:
    return folder == "." or name.startswith(f"{folder}/")


def _until(evidence: Records, run_id: str) -> Iterator[RunRecords]:
    """Yield the ended runs of the project before this one, the newest first."""
    ids = list(evidence.facts.started)
    for before in reversed(ids[: ids.index(run_id)] if run_id in ids else []):
        earlier = evidence.run(before)
        if earlier is not None and earlier.is_sealed:
            yield earlier
