"""`trainwright stage` and `trainwright pipeline`: a project's stages made, shown and written out."""

from __future__ import annotations

import json
from pathlib import Path

from trainwright.server.commands.terminal import Terminal
from trainwright.tools.pipeline import make_stage, read_definition, stages_of_project, write_pipeline
from trainwright.tools.pipeline.writing import apply_definition
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConflictError
from trainwright.trainer.run import write_atomically

MARKS = {"done": "ok", "open": "warn", "under way": "warn", "stale": "warn", "failed": "fail"}


def run_stage(path: Path, name: str, file: Path, record: Path | None) -> None:
    """Make a stage of the definition's project, and write its record. Raises TrainwrightError."""
    terminal, definition = Terminal(), read_definition(file)
    workspace = Workspace.open(path)
    try:
        if apply_definition(workspace, definition, file.resolve().parent):
            terminal.line(f"project {definition.project}: configured as {file.name} has it")
        stage = make_stage(workspace, definition.project, name, said=terminal.line)
    except ConflictError as error:
        raise worded_for_file(error, file) from error
    finally:
        workspace.close()
    if record is not None:
        record.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(record, (json.dumps(stage.record(), indent=2, sort_keys=True) + "\n").encode())
    terminal.marked("ok", f"{name} is done")


def worded_for_file(error: ConflictError, file: Path) -> ConflictError:
    """Return the error with the remedy as an edit of the definition, which would undo a call of configure."""
    call = error.details.get("next") or {}
    changes = call.get("arguments", {}).get("changes")
    if call.get("tool") != "configure" or not changes:
        return error
    lines = "; ".join(f"{key}: {json.dumps(value)}" for key, value in changes.items())
    remedy = f"In {file.name}, under config: {lines} (null: take the key out); then make the stage again: {call['why']}"
    return ConflictError(error.message, remedy=remedy, details=error.details)


def show_pipeline(path: Path, project: str, *, write: bool) -> None:
    """Print the stages, or write the pipeline's files. Raises TrainwrightError."""
    terminal = Terminal()
    workspace = Workspace.open(path)
    try:
        if write:
            for written in write_pipeline(workspace, project):
                terminal.marked("ok", str(written))
            return
        for stage in stages_of_project(workspace, project):
            why = f": {'; '.join(stage.reasons)}" if stage.reasons else ""
            terminal.marked(MARKS[stage.state], f"{stage.name} is {stage.state}{why}")
            for what, values in (("took in", stage.inputs), ("gave", stage.outputs)):
                terminal.line(f"      {what} {json.dumps(values)}" if values else f"      {what} nothing yet")
    finally:
        workspace.close()
