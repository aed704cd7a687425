"""Processes that a plan asks, which outlive a call: they read data, model and machine, or divide rows for a script.

The same files are not read twice: an answer is kept by what it depends on. What the machine has is asked anew after a
while.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from filelock import FileLock

import trainwright
from trainwright.tools.environments import found_environment, no_environment, runtime_in
from trainwright.tools.launchers import LAUNCH, jobs
from trainwright.tools.launchers.environment import activated, inherited_environment
from trainwright.tools.launchers.worker_wall import walled
from trainwright.tools.training_architect.places import TABLES
from trainwright.tools.training_architect.request import PlanRequest
from trainwright.tools.training_architect.series import spoken_spans
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.base.file_stamps import stamp_of
from trainwright.trainer.base.paths import files_under
from trainwright.trainer.base.releases import has_torch
from trainwright.trainer.run.runtime import Runtime

WORKER = "trainwright.trainer.jobs.inspection"
FOLDER = "plans"
LONGEST_SECONDS = 300.0
MACHINE_SECONDS = 600.0
"""For which what the machine has is taken as it was found."""
MAX_STAMPED = 10_000
INSPECTION = 13
"""Of what is inspected and how: answers of another number are not taken."""


def inspected(
    workspace: Workspace,
    request: PlanRequest,
    root: Path,
    wait_seconds: float,
    should_stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any] | None:
    """Return what the inspection found; None while it is at work. The same files are not inspected twice.

    Raises:
        DataError: it failed, with what it said.
    """
    deadline = time.monotonic() + wait_seconds
    found = answer_of(begun(workspace, WORKER, order_of(request, root), root), wait_seconds, should_stop)
    if found is None or time.time() - found["at"] <= MACHINE_SECONDS:
        return found
    order = {"machine": int(time.time() // MACHINE_SECONDS), "version": INSPECTION}
    left = max(deadline - time.monotonic(), 0.0)
    machine = answer_of(begun(workspace, WORKER, order, root), left, should_stop)
    return None if machine is None else found | {"machine": machine["machine"]}


def target_alone(workspace: Workspace, request: PlanRequest, root: Path, wait_seconds: float) -> dict[str, Any]:
    """Return what the inspection finds of what is predicted alone; nothing where it takes longer.

    Raises:
        DataError: it failed, with what it said.
    """
    order = order_of(request, root) | {"target_alone": True}
    found = answer_of(begun(workspace, WORKER, order, root), wait_seconds, lambda: False) or {}
    return dict(found.get("data") or {})


def begun(workspace: Workspace, worker: str, order: dict[str, Any], root: Path) -> Path:
    """Start a process for an order, unless it was started before; return its folder, in which it answers.

    Raises:
        ConfigurationError: the server has no torch, which the process imports, and no environment is found that has it.
    """
    folder = workspace.path / "cache" / FOLDER / digest_json([worker, order]).partition(":")[2][:32]
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "request.lock"):
        if not (folder / LAUNCH).exists():
            roots = {"linked_roots": [str(one) for one in workspace.settings.allowed_roots(workspace.path)]}
            runtime = _runtime(workspace, root)
            own = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
            environment = activated(inherited_environment(), runtime) | own
            by = walled(workspace.path, workspace.settings.wall(workspace.path))
            jobs.begin(folder, worker, order | roots, cwd=root, env=environment, by=by, runtime=runtime)
    return folder


def _runtime(workspace: Workspace, root: Path) -> Runtime | None:
    """Return what a plan's files are read in: the server's own interpreter where it can train, else a found one."""
    if has_torch():
        return None
    found = found_environment(workspace, root)
    if found is None:
        raise no_environment(workspace, root)
    return runtime_in(workspace, found.section, root)


def order_of(request: PlanRequest, root: Path) -> dict[str, Any]:
    """Return what is asked of an inspection, with a stamp of each file that it reads."""
    data = request.data
    if data is not None:
        args = data["args"]
        is_one = isinstance(args.get("target"), str) and "text" in args
        unknown = data["use"] in TABLES and not is_one
        spans = spoken_spans(request.intent) if data["use"] in TABLES else None
        data = {**data, "columns_wanted": unknown, **({"spans": spans} if spans else {})}
    return {
        "code_root": str(root),
        "data": data,
        "model": request.model,
        "task": request.task,
        "stamps": [stamps_of(root, (one or {}).get("args", {}).get("path")) for one in (data, request.model)],
        "version": [trainwright.__version__, INSPECTION],
    }


def stamps_of(root: Path, given: Any) -> list[Any]:
    """Return name and stamp of every file that paths name: files, patterns, or folders with all in them."""
    names = given if isinstance(given, list) else [given] if given else []
    return [(str(path), stamp_of(path)) for name in names for path in _files(root, str(name))]


def _files(root: Path, name: str) -> list[Path]:
    path = root / name
    try:
        if path.is_dir():
            return [path / one for one in files_under(path, MAX_STAMPED)]
        return [path] if path.exists() else sorted(root.glob(name))[:MAX_STAMPED]
    except (OSError, ValueError, NotImplementedError):  # of a name that no file system takes
        return [path]


def answer_of(folder: Path, wait_seconds: float, should_stop: Callable[[], bool]) -> dict[str, Any] | None:
    """Return what a process left; None while it is at work. Raises DataError for its failure, or where it is gone."""
    try:
        found = jobs.answer_of(folder, wait_seconds, should_stop, limit=LONGEST_SECONDS)
        failure = (found or {}).get("failure")
    except jobs.NoAnswerError:
        said = jobs.log_end(folder, "It wrote nothing; most often memory ran out. Plan with fewer rows.")
        failure = {"message": "The process that reads the files ended without an answer.", "remedy": said}
    if failure is not None:
        jobs.forget(folder)
        absent = {name: path for name, path in (failure.get("details") or {}).items() if name == "absent"}
        raise DataError(failure["message"], remedy=failure["remedy"], document=failure.get("document"), details=absent)
    return found
