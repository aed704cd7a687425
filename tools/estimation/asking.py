"""An estimate, asked of a process of its own: user code runs there, and torch is imported there.

The same configuration over the same files is not traced twice: the answer is kept by what it depends on.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import trainwright
from trainwright.tools.launchers.environment import worker_environment
from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.base.errors import (
    ConfigurationError,
    DataError,
    OutOfMemoryError,
    TrainwrightError,
    UserCodeError,
)
from trainwright.trainer.base.paths import files_under
from trainwright.trainer.base.secrets import without_secrets
from trainwright.trainer.estimation.results import Estimate
from trainwright.trainer.run import write_atomically
from trainwright.trainer.run.status import ProcessIdentity

if TYPE_CHECKING:
    from trainwright.trainer.config import TrainingConfig

WORKER = "trainwright.trainer.jobs.estimate"
PROBE = "Measure instead: start_training(project, kind='probe') tells peak and time of real steps."
LOG = "log"
POLL_SECONDS = 0.02
MOST_STAMPED = 10_000
KINDS = {kind.category: kind for kind in (UserCodeError, DataError, OutOfMemoryError)}
"""Errors of the process, by category; all others are told as ConfigurationError."""


def estimate(
    config: TrainingConfig,
    code_root: Path,
    *,
    device_kind: Literal["cpu", "cuda"] = "cpu",
    cache: Path | None = None,
    timeout_seconds: float = 300.0,
    should_stop: Callable[[], bool] = lambda: False,
) -> Estimate:
    """Return memory and work of the configuration's training, traced without allocating its model.

    Args:
        code_root: the resolved folder of code and data.
        device_kind: whose kernels and margins hold.
        cache: a folder to keep answers in; None: none is kept.
        should_stop: asked while the process is at work; when it says so, the process is ended.

    Raises:
        ConfigurationError: it cannot be traced, or not in time, or was stopped. And the errors of assembling it.
    """
    kept = cache / f"{_order(config, code_root, device_kind)}.json" if cache is not None else None
    if kept is not None and kept.is_file():
        return Estimate.from_dict(json.loads(kept.read_bytes()))
    answer = _asked(config, code_root, device_kind, timeout_seconds, should_stop)
    if "failure" in answer:
        raise _error(answer["failure"])
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(kept, json.dumps(answer).encode())
    return Estimate.from_dict(answer)


def _asked(
    config: TrainingConfig,
    code_root: Path,
    device_kind: str,
    timeout_seconds: float,
    should_stop: Callable[[], bool],
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="estimate-") as name:
        folder = Path(name)
        values = config.model_dump(mode="json", exclude_unset=True)
        order = {"config": values, "code_root": str(code_root), "device_kind": device_kind}
        (folder / "order.json").write_text(json.dumps(order), encoding="utf-8")
        with (folder / LOG).open("wb") as output, _process(folder, config, code_root, output) as process:
            _await(process, time.monotonic() + timeout_seconds, timeout_seconds, should_stop)
        try:
            found = json.loads((folder / "report.json").read_bytes())
        except (OSError, ValueError) as error:
            raise _without_answer(process.returncode, (folder / LOG).read_bytes()) from error
    return dict(found)


@contextmanager
def _process(folder: Path, config: TrainingConfig, code_root: Path, output: BinaryIO) -> Iterator[Popen[bytes]]:
    """Start the process; at the end it and all that descend from it are gone."""
    process = Popen(
        [sys.executable, "-P", "-m", WORKER, str(folder)],
        cwd=code_root,
        env=worker_environment(config),
        stdin=DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )
    identity = ProcessIdentity.of(process.pid)
    try:
        yield process
    finally:
        identity.kill_tree()
        process.wait()


def _await(process: Popen[bytes], deadline: float, timeout_seconds: float, should_stop: Callable[[], bool]) -> None:
    """Return once the process has ended. Raises ConfigurationError when the time is up, or the caller went away."""
    while process.poll() is None:
        if time.monotonic() > deadline:
            raise ConfigurationError(f"Tracing the first steps took longer than {timeout_seconds:.0f} s.", remedy=PROBE)
        if should_stop():
            raise ConfigurationError("The call was cancelled while the first steps were traced.", remedy="Call again.")
        time.sleep(POLL_SECONDS)


def _without_answer(exit_code: int, log: bytes) -> ConfigurationError:
    lines = without_secrets(" ".join(log.decode(errors="replace").split()), [])[-300:]
    return ConfigurationError(
        f"The process that estimates ended without an answer (exit code {exit_code}). "
        + (f"Its log ends: {lines}" if lines else "It wrote nothing: most often memory ran out while data were read."),
        remedy=PROBE,
    )


def _error(failure: dict[str, Any]) -> TrainwrightError:
    kind = KINDS.get(failure["category"], ConfigurationError)
    return kind(
        failure["message"], remedy=failure["remedy"], document=failure.get("document"), details=failure.get("details")
    )


def _order(config: TrainingConfig, code_root: Path, device_kind: str) -> str:
    """Return the digest of all that an answer depends on and that is known here: files by names, sizes and times."""
    stamps = []
    for name in files_under(code_root, MOST_STAMPED):
        try:
            state = (code_root / name).stat()
        except OSError:
            continue
        stamps.append([str(name), state.st_size, state.st_mtime_ns])
    values = config.model_dump(mode="json", exclude_unset=True)
    return digest_json([values, str(code_root), stamps, device_kind, trainwright.__version__]).replace(":", "-")
