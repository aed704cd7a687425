"""Search for a code root that has moved: a folder in the owner's roots with the same files."""

from __future__ import annotations

import os
from pathlib import Path

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.gates.staleness import file_changes
from trainwright.trainer.base import download_log

MAX_DEEP = 3
MAX_FOLDERS = 2000
PLACEHOLDER = "the folder where it is now"


def point_to_moved_root(evidence: Evidence, run: RunEvidence) -> NextCall | None:
    """Name the call that points the project to where its code is now; None while the code root is in its place."""
    if Path(evidence.project.code_root).is_dir():
        return None
    evidence.inspection.sources.are_fleeting = True  # as all the folders in which it is looked for
    found = _find(evidence, run)
    why = "the code was moved there" if found else "or bring the folder back to where it was"
    return evidence.call("configure", why, changes={"code_root": str(found) if found else PLACEHOLDER})


def _find(evidence: Evidence, run: RunEvidence) -> Path | None:
    recorded = [*run.code.files, *run.data.files]
    names = [name for name in recorded if not (Path(name).is_absolute() or download_log.is_remote(name))]
    if not names:
        return None
    seen = 0
    for root in evidence.settings.allowed_roots(evidence.workspace.path):
        for folder, inside, _ in os.walk(root):
            seen += 1
            here = Path(folder)
            deep = len(here.relative_to(root).parts)
            inside[:] = [] if deep >= MAX_DEEP or here == evidence.workspace.path else sorted(inside)
            if seen > MAX_FOLDERS:
                return None
            if all((here / name).exists() for name in names) and not file_changes(
                here, run, evidence.inspection.digest
            ):
                return here
    return None
