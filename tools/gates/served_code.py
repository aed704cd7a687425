"""Code that answers raw inputs, `data.prepare` and `data.present`: no training depends on it, an export ships it."""

from __future__ import annotations

from pathlib import Path

from trainwright.tools.gates.records import RunRecords
from trainwright.tools.workspace.query_cache import Sources
from trainwright.trainer.config.schema import DataSection
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.artifacts import ExportProbe
from trainwright.trainer.user_code.served import CODE, served_meanings

FOLDER = "final_model"


def served_code_changes(data: DataSection | None, code_root: str, run: RunRecords, sources: Sources) -> list[str]:
    """Return the files of these functions that mean other things now than what a smoke run tried, or an export ships.

    Empty of another kind of run, and where the configuration names no such function.
    """
    entries = [] if data is None else data.served
    if not entries or run.row.kind not in {RunKind.SMOKE.value, RunKind.EXPORT.value}:
        return []
    if run.row.kind == RunKind.SMOKE.value:
        then = run.part(ExportProbe).own_meanings
    else:
        then = served_meanings(entries, run.directory.artifacts / FOLDER / CODE)
    now = served_meanings(entries, Path(code_root)) if then else {}
    sources.note(*(Path(code_root) / name for name in then.keys() | now.keys()))
    return sorted(name for name in then.keys() | now.keys() if then.get(name) != now.get(name))
