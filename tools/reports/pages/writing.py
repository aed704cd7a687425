"""Writing of pages: rendered with every value escaped, put in place atomically, and not again while nothing changed."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

import trainwright
from trainwright.tools.reports.pages.project_values import project_values
from trainwright.tools.reports.pages.run_values import run_values
from trainwright.tools.workspace.tables import LedgerEntry
from trainwright.trainer.run import write_report

if TYPE_CHECKING:
    from jinja2 import Environment
    from sqlalchemy.orm import Session

    from trainwright.tools.gates.evidence import Evidence
    from trainwright.tools.gates.run_evidence import RunEvidence
    from trainwright.tools.workspace import Workspace

PROJECT_PAGE = "report.html"
LONGEST_WORD = 20
RUN_PAGES = "reports"


def has_new_page(workspace: Workspace, project: str, run_id: str) -> Path | None:
    """Return a run's page where it is newer than the run's last status; None otherwise."""
    path = workspace.project_folder(project) / RUN_PAGES / f"{run_id}.html"
    status = workspace.run_directory(project, run_id).path / "status.json"
    is_new = path.is_file() and status.is_file() and path.stat().st_mtime > status.stat().st_mtime
    return path if is_new else None


def write_run_page(evidence: Evidence, run: RunEvidence) -> Path:
    """Write a run's page into the project's `reports/`, unless it is newer than the run's last status.

    Raises:
        IntegrityError: its record is damaged.
        StorageError: the disk is full.
    """
    there = has_new_page(evidence.workspace, evidence.name, run.id)
    if there is not None:
        return there
    path = evidence.folder / RUN_PAGES / f"{run.id}.html"
    path.parent.mkdir(exist_ok=True)
    written = _written(path, "run.html.j2", evidence.session, run_values(evidence, run))
    if not run.row.sealed:  # its certified figure comes with the seal: the page is written again then
        os.utime(written, (0, 0))
    return written


def write_project_page(evidence: Evidence) -> Path:
    """Write the project's page, `report.html`.

    Raises:
        IntegrityError: a run's record is damaged.
        StorageError: the disk is full.
    """
    pages = {path.stem for path in (evidence.folder / RUN_PAGES).glob("*.html")}
    values = project_values(evidence, {name: f"{RUN_PAGES}/{name}.html" for name in pages})
    return _written(evidence.folder / PROJECT_PAGE, "project.html.j2", evidence.session, values)


def _written(path: Path, template: str, session: Session, values: dict[str, Any]) -> Path:
    head = session.scalars(select(LedgerEntry).order_by(LedgerEntry.sequence.desc()).limit(1)).first()
    ledger = {"sequence": head.sequence, "time": head.time[:19], "digest": head.digest} if head else {}
    write_report(path, rendered(template, values | {"ledger": ledger}))
    return path


def rendered(template: str, values: dict[str, Any]) -> str:
    """Return a page of these values."""
    written = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    filled = {"ledger": {}, "version": trainwright.__version__, "written": written, **values}
    return _environment().get_template(template).render(filled)


def shown(value: Any) -> str:
    """Return a cell as text: floats with four digits, nothing for None."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def has_long_word(value: Any) -> bool:
    """Whether a cell holds a word, such as a digest, that has to break on a phone."""
    return isinstance(value, str) and any(len(word) > LONGEST_WORD for word in value.split())


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    del environment.filters["safe"]
    environment.filters["shown"] = shown
    environment.tests["long"] = has_long_word
    return environment
