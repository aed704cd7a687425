"""The process that carries a trial of fixes through: its folder, and starting it where there is none."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from trainwright.tools.hyperparameter_tuner.process import MOST_LAUNCHES, conductor_environment, is_conducted
from trainwright.tools.launchers import Launch, may_begin, read_launch, write_launch
from trainwright.tools.launchers.local import spawn
from trainwright.tools.workspace.workspace import checked_name

if TYPE_CHECKING:
    from pathlib import Path

    from trainwright.tools.workspace import Workspace

CONDUCTOR = "trainwright.tools.cures.conductor"
LOG = "conductor.log"


def cure_folder(workspace: Workspace, project: str, cure_id: str) -> Path:
    """Return the trial's folder."""
    return workspace.project_folder(project) / "cures" / checked_name(cure_id)


def ensure_conductor(workspace: Workspace, project: str, cure_id: str) -> bool:
    """Start the trial's process if it has none; return False where it was lost too often."""
    folder = cure_folder(workspace, project, cure_id)
    folder.mkdir(parents=True, exist_ok=True)
    if is_conducted(folder):
        return True
    with workspace.session():  # one caller at a time, so that one process is started
        last = read_launch(folder)
        if last is not None and may_begin(last):
            return True
        if last is not None and last.attempt >= MOST_LAUNCHES:
            return False
        launch = write_launch(folder, Launch(attempt=last.attempt + 1 if last else 1))
    command = [sys.executable, "-P", "-m", CONDUCTOR, str(workspace.path), project, cure_id]
    given = {name: value for name, value in os.environ.items() if workspace.settings.gives_to_data(name)}
    spawn(folder, launch, command, cwd=workspace.path, env=conductor_environment(os.environ) | given, log=LOG)
    return True
