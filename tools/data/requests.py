"""Requests of validation: a process that validates the configured data without training, and what is known of it.

Nothing of it is evidence. The same data and expectations are not validated twice: an order names the files as they
stand, and its answer is taken as it is. Data that no file under the code root shows (databases, remote files, user
code's) may change unseen: their answer is told once, and once with suggestions; after that they are validated anew.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from filelock import FileLock

import trainwright
from trainwright.tools.answers import NextCall
from trainwright.tools.environments import runtime_of
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.leak_prices import leak_prices, removal
from trainwright.tools.launchers import LAUNCH, jobs, read_launch
from trainwright.tools.launchers.environment import worker_environment
from trainwright.tools.launchers.worker_wall import walled
from trainwright.tools.training_orchestrator import locations
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.base.download_log import is_remote
from trainwright.trainer.base.file_stamps import stamp_of
from trainwright.trainer.base.paths import files_under
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.remote.connections import Connection
from trainwright.trainer.jobs.answering import ORDER
from trainwright.trainer.run import write_atomically

WORKER = "trainwright.trainer.jobs.validate"
SERVED = "validation"
TOLD = "told.json"
MAX_STAMPED = 1_000_000
"""Files under the code root whose times are compared."""


@dataclass(frozen=True)
class ValidationRequest:
    """A validation that was ordered."""

    project: str
    order: str
    folder: Path
    """Of the worker, in the workspace's cache."""
    served: Path
    """Where the report is kept for readers, in the project."""
    is_elsewhere: bool
    """Whether the data may change without a change of any file under the code root."""
    limit: float
    """Seconds that the process may take."""
    prices: Mapping[str, str] = field(default_factory=dict)
    """What leaks of this configuration were worth, where a run has priced them, by finding."""
    without_leak: NextCall | None = None
    """The call that takes out the leak whose price is beyond chance."""


def request_validation(workspace: Workspace, project: str, *, suggest: bool = False) -> ValidationRequest:
    """Let a process validate the project's data; one that is at work, or has answered, is not started again.

    A process of an order that no longer holds, because a file or the configuration changed, is ended.

    Raises:
        NotFoundError, ConfigurationError: no such project; a configuration that does not fit the schema any more, or
            names a place or a variable that the owner's settings do not give to data.
    """
    with workspace.session() as session:
        evidence = Evidence(session, workspace, project)
        config, root = evidence.config, Path(evidence.project.code_root)
        limit = evidence.limits.run_wall_clock_seconds
        prices = {price.finding: price.text for price in leak_prices(evidence)}
        without_leak = removal(evidence)
    known = locations.connections(workspace.settings, config)
    request = ValidationRequest(
        project=project,
        order=_order(workspace, config, root),
        folder=workspace.path / "cache" / SERVED / project,
        served=workspace.project_folder(project) / SERVED,
        is_elsewhere=_is_elsewhere(config),
        limit=limit,
        prices=prices,
        without_leak=without_leak,
    )
    request.folder.mkdir(parents=True, exist_ok=True)
    with FileLock(request.folder / "request.lock"):
        if request.is_elsewhere and suggest in _told(request):
            jobs.forget(request.folder, TOLD)
        if jobs.report_of(request.folder, request.order) is None and not _is_known(request):
            _start(workspace, request, config, root, known)
    return request


def _order(workspace: Workspace, config: TrainingConfig, root: Path) -> str:
    """Return the digest of all that an answer depends on and that is known here: files by names and stamps."""
    values = config.model_dump(mode="json", exclude_unset=True)
    today = time.strftime("%Y-%m-%d", time.gmtime())  # of which freshness is counted
    is_apart = root.is_relative_to(workspace.path)
    stamps = [
        (name, stamp_of(root / name))
        for name in files_under(root, MAX_STAMPED)
        if is_apart or not (root / name).is_relative_to(workspace.path)
    ]
    return digest_json([values, str(root), stamps, today, trainwright.__version__])


def _is_elsewhere(config: TrainingConfig) -> bool:
    if config.data is None or ":" in config.data.use:
        return True
    args, path = config.data.args, config.data.args.get("path")
    is_asked = any(args.get(name) for name in ("url_env", "profile", "url"))
    return is_asked or any(map(is_remote, path if isinstance(path, list) else [path]))


def _start(
    workspace: Workspace, request: ValidationRequest, config: TrainingConfig, root: Path, known: dict[str, Connection]
) -> None:
    jobs.kill(read_launch(request.folder))
    jobs.forget(request.folder, TOLD, jobs.LOG)
    ordered = {
        "id": request.order,
        "generation": uuid4().hex,  # of what is fetched: rows of a database are asked for anew
        "config": config.model_dump(mode="json", exclude_unset=True),
        "code_root": str(root),
        "linked_roots": [str(one) for one in workspace.settings.allowed_roots(workspace.path)],
        "connections": {name: one.model_dump(mode="json") for name, one in known.items()},
        "data_cache": [str(workspace.path / "cache" / "data"), workspace.settings.data_cache_bytes],
    }
    runtime = runtime_of(workspace, config, root)
    env = worker_environment(config, known, runtime=runtime)
    by = walled(workspace.path, workspace.settings.wall(workspace.path))
    jobs.begin(request.folder, WORKER, ordered, cwd=root, env=env, by=by, runtime=runtime)


def note_told(request: ValidationRequest, *, suggest: bool) -> None:
    """Record that the answer was told, with or without suggestions."""
    write_atomically(request.folder / TOLD, json.dumps(sorted({*_told(request), suggest})).encode())


def _told(request: ValidationRequest) -> set[bool]:
    found = jobs.read_json(request.folder / TOLD)
    return set(found) if isinstance(found, list) else set()


def _is_known(request: ValidationRequest) -> bool:
    """Return whether a process of this order was started, be it at work or ended; its end is told before another."""
    ordered = jobs.read_json(request.folder / ORDER)
    return isinstance(ordered, dict) and ordered.get("id") == request.order and (request.folder / LAUNCH).exists()


def why_none(request: ValidationRequest, end: jobs.NoAnswerError) -> str:
    """Return why the process has not answered, and will not."""
    if end.launch is None:
        return "The record of the process that validates is gone."
    if end.launch.error is not None:
        return f"The process that validates could not be started: {end.launch.error}."
    if end.took_long:
        return f"Validating took longer than the {request.limit:.0f} s that a run may take, and was ended."
    silent = "It wrote nothing: it was killed from outside, most often because memory ran out."
    return f"The process that validated ended without an answer. {jobs.log_end(request.folder, silent)}"
