"""An estimate, asked of a process of its own: user code runs there, and torch is imported there.

The same configuration over the same files is not traced twice: the answer is kept by what it depends on.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import trainwright
from trainwright.tools.launchers import jobs
from trainwright.tools.launchers.environment import worker_environment
from trainwright.tools.launchers.worker_wall import Walled
from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.base.errors import (
    ConfigurationError,
    DataError,
    OutOfMemoryError,
    TrainwrightError,
    UserCodeError,
)
from trainwright.trainer.base.file_stamps import stamp_of
from trainwright.trainer.base.paths import files_under
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.remote.connections import Connection
from trainwright.trainer.estimation.results import Estimate
from trainwright.trainer.run import write_atomically
from trainwright.trainer.run.runtime import Runtime

WORKER = "trainwright.trainer.jobs.estimate"
PROBE = "Measure instead: start_training(project, kind='probe') tells peak and time of real steps."
MAX_STAMPED = 10_000
KINDS = {kind.category: kind for kind in (UserCodeError, DataError, OutOfMemoryError)}
"""Errors of the process, by category; all others are told as ConfigurationError."""


def estimate(
    config: TrainingConfig,
    code_root: Path,
    *,
    connections: Mapping[str, Connection],
    device_kind: Literal["cpu", "cuda"] = "cpu",
    runtime: Runtime | None = None,
    by: Walled | None = None,
    cache: Path | None = None,
    timeout_seconds: float = 300.0,
    should_stop: Callable[[], bool] = lambda: False,
) -> Estimate:
    """Return memory and work of the configuration's training, traced without allocating its model.

    Args:
        code_root: the resolved folder of code and data.
        connections: the owner's that its data name, as `locations.connections` admits them.
        device_kind: whose kernels and margins hold.
        runtime: of the project's environment; None: the server's own.
        by: by what the wall round the process is built; None: there is none.
        cache: a folder to keep answers in; None: none is kept.
        should_stop: asked while the process is at work; when it says so, the process is ended.

    Raises:
        ConfigurationError: it cannot be traced, or not in time, or was stopped. And the errors of assembling it.
    """
    kept = cache / f"{_order(config, code_root, device_kind, runtime)}.json" if cache is not None else None
    if kept is not None and kept.is_file():
        return Estimate.from_dict(json.loads(kept.read_bytes()))
    order = {
        "config": config.model_dump(mode="json", exclude_unset=True),
        "code_root": str(code_root),
        "device_kind": device_kind,
        "connections": {name: one.model_dump(mode="json") for name, one in connections.items()},
    }
    env = worker_environment(config, connections, runtime=runtime)
    answer = _asked(order, env, timeout_seconds, should_stop, runtime=runtime, by=by)
    if "failure" in answer:
        raise _error(answer["failure"])
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(kept, json.dumps(answer).encode())
    return Estimate.from_dict(answer)


def _asked(
    order: dict[str, Any],
    env: dict[str, str],
    timeout_seconds: float,
    should_stop: Callable[[], bool],
    *,
    runtime: Runtime | None,
    by: Walled | None,
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="estimate-") as name:
        folder, root = Path(name), Path(order["code_root"])
        try:
            found = jobs.ask(
                folder, WORKER, order, timeout_seconds, should_stop, cwd=root, env=env, by=by, runtime=runtime
            )
        except jobs.NoAnswerError as end:
            said = jobs.log_end(folder, "It wrote nothing: most often memory ran out while data were read.")
            what = f"The process that estimates ended without an answer (exit code {end.exit_code}). {said}"
            raise ConfigurationError(what, remedy=PROBE) from None
    if found is None and should_stop():
        raise ConfigurationError("The call was cancelled while the first steps were traced.", remedy="Call again.")
    if found is None:
        raise ConfigurationError(f"Tracing the first steps took longer than {timeout_seconds:.0f} s.", remedy=PROBE)
    return found


def _error(failure: dict[str, Any]) -> TrainwrightError:
    kind = KINDS.get(failure["category"], ConfigurationError)
    return kind(
        failure["message"], remedy=failure["remedy"], document=failure.get("document"), details=failure.get("details")
    )


def _order(config: TrainingConfig, code_root: Path, device_kind: str, runtime: Runtime | None) -> str:
    """Return the digest of all that an answer depends on and that is known here: files by names and stamps."""
    stamps = [(name, stamp_of(code_root / name)) for name in files_under(code_root, MAX_STAMPED)]
    values = config.model_dump(mode="json", exclude_unset=True)
    worker = None if runtime is None else runtime.model_dump()
    return digest_json([values, str(code_root), stamps, device_kind, trainwright.__version__, worker]).replace(":", "-")
