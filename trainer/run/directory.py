"""Directory of a run: its files, read and written safely.

run.json        the specification, written once by the launcher
limits.json     limits of the present attempt, written by the launcher of a resumed run; before, as in run.json
status.json     the latest RunStatus, replaced atomically by the worker
run.lock        an flock held by the worker: whether it is alive
metrics.sqlite  see metrics.py
events.jsonl    see events.py
stop_reason     why the run was asked to stop; alert_stop.N.json: for which alert its attempt N was (conditions.py)
end.json        digests of an orderly end, signed with the run's key: see ending.py
checkpoints/    one folder per checkpoint
artifacts/      evidence and results, JSON and others (evidence names: see EVIDENCE)
tensorboard/    event files
worker.log      everything the process printed
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from trainwright.trainer.base.canonical import digest_bytes
from trainwright.trainer.base.errors import ConflictError, IntegrityError, NotFoundError, StorageError
from trainwright.trainer.base.secret_scan import masked, require_no_secrets
from trainwright.trainer.run.digests import METRICS
from trainwright.trainer.run.key import END, SIGNED, end_record
from trainwright.trainer.run.metrics import MetricStore
from trainwright.trainer.run.specification import Limits, RunSpecification
from trainwright.trainer.run.status import Event, EventWriter, RunState, RunStatus, read_events

if TYPE_CHECKING:
    from trainwright.trainer.run.evidence import P, Part
    from trainwright.trainer.run.key import RunKey

Record = TypeVar("Record", bound=BaseModel)

LIMITS = "limits.json"
EVENTS = "events.jsonl"
EVIDENCE = ("environment", "reproducibility", "data", "code", "resolved", "summary")
"""Names of `artifacts/<name>.json` that every training worker leaves."""


class RunDirectory:
    """One run's folder. Reading never needs the worker; only the worker writes after the launch."""

    def __init__(self, path: Path, key: RunKey | None = None) -> None:
        self.path = path.resolve()
        self.key = key
        """The run's secret key: the worker's alone, and None where another launcher started it."""
        self.written: dict[str, str] = {}
        """Name to digest of what this process has written: evidence, events, metrics, the checkpoints' tags."""
        self._log = EventWriter(self.path / EVENTS)

    @property
    def run_id(self) -> str:
        """The run's id: the folder's name."""
        return self.path.name

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.path / "checkpoints"

    @property
    def artifacts(self) -> Path:
        """Folder of evidence and results."""
        return self.path / "artifacts"

    @property
    def log(self) -> Path:
        """Everything the worker process printed."""
        return self.path / "worker.log"

    @property
    def stop_reason(self) -> Path:
        """File that says why the run was asked to stop; absent where it was not."""
        return self.path / "stop_reason"

    def alert_stop(self, attempt: int) -> Path:
        """File by which a follower requests the end of an attempt for an alert; absent where none did."""
        return self.path / f"alert_stop.{attempt}.json"

    @classmethod
    def create(cls, path: Path, specification: RunSpecification) -> RunDirectory:
        """Make the folder and write the specification and a first status. Raises ConflictError if it exists."""
        try:
            path.mkdir(parents=True)
        except FileExistsError as error:
            raise ConflictError(f"The run folder {path.name} exists.", remedy="Use a new run id.") from error
        directory = cls(path)
        directory.checkpoints.mkdir()
        directory.artifacts.mkdir()
        write_atomically(path / "run.json", specification.model_dump_json(indent=2).encode())
        directory.write_status(RunStatus(state=RunState.CREATED, attempt=0))
        return directory

    def specification(self) -> RunSpecification:
        """Read `run.json`. Raises NotFoundError or IntegrityError."""
        return self._read_model("run.json", RunSpecification)

    def limits(self) -> Limits:
        """Return the limits of the present attempt. Raises NotFoundError or IntegrityError."""
        if (self.path / LIMITS).exists():
            return self._read_model(LIMITS, Limits)
        return self.specification().limits

    def write_limits(self, limits: Limits) -> None:
        """Set the limits of the next attempt. Raises StorageError."""
        write_atomically(self.path / LIMITS, limits.model_dump_json(indent=2).encode())

    def write_status(self, status: RunStatus) -> None:
        """Replace `status.json`. Raises StorageError."""
        write_atomically(self.path / "status.json", _status_bytes(status))

    def write_passing_status(self, status: RunStatus) -> None:
        """Replace `status.json` by what the next beat replaces again. Raises StorageError."""
        write_atomically(self.path / "status.json", _status_bytes(status), is_passing=True)

    def write_last_status(self, status: RunStatus) -> None:
        """Write the last `status.json`, after signing the record if the run ended in order. Raises StorageError.

        All other parts of the record must have been written.
        """
        if self.key is not None and status.state in SIGNED:
            write_atomically(self.path / END, end_record(self, _status_bytes(status), self.key))
        self.write_status(status)

    def status(self) -> RunStatus:
        """Return the run's state: `interrupted` when the last record is not final and no worker holds the lock.

        A run that was created and that no worker ever started stays `created`.
        """
        status = self._read_model("status.json", RunStatus)
        if status.state.is_terminal or status.state is RunState.CREATED or self.is_locked():
            return status
        status = self._read_model("status.json", RunStatus)  # it may have ended in between
        return status if status.state.is_terminal else status.model_copy(update={"state": RunState.INTERRUPTED})

    def last_status(self) -> RunStatus:
        """Return the last record as it was written, for a worker that holds the lock itself."""
        return RunStatus.model_validate(self._read_json("status.json"))

    def is_locked(self) -> bool:
        """Return whether a worker holds the run."""
        path = self.path / "run.lock"
        if not path.exists():
            return False
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False

    @contextmanager
    def lock(self) -> Iterator[IO[bytes]]:
        """Hold the run for this process, by the file it yields. Raises ConflictError when another worker has it."""
        with (self.path / "run.lock").open("ab") as file:
            if not _lock_within(file, seconds=2.0):
                raise ConflictError(
                    f"Another worker holds run {self.run_id}.",
                    remedy=f"run_status(run_id='{self.run_id}') shows it.",
                )
            # A forked child shares the lock and would keep it after our death, so it releases it at once.
            os.register_at_fork(after_in_child=file.close)
            yield file

    def append_event(self, kind: str, **data: Any) -> Event:
        """Append to the event log."""
        event = self._log.append(kind, data)
        self.written[EVENTS] = self._log.digest
        return event

    def events(self, kind: str | None = None) -> list[Event]:
        """Return the complete events in order, of one kind if it is given."""
        events = read_events(self.path / EVENTS)
        return events if kind is None else [event for event in events if event.kind == kind]

    def seconds_worked(self) -> float:
        """Return the wall-clock seconds of all attempts together; pauses between them do not count.

        Raises IntegrityError when the status is damaged.
        """
        attempts: list[list[float]] = []
        for event in self.events():
            if event.kind == "started" or not attempts:
                attempts.append([])
            attempts[-1].append(event.time)
        if attempts:
            attempts[-1].append(self._read_model("status.json", RunStatus).heartbeat_at)
        return sum(max(times) - times[0] for times in attempts)

    def metrics(self, *, writer: bool = False) -> MetricStore:
        """Open the metrics; their digest is that of the writer's rows when it closes them."""
        note = partial(self.written.__setitem__, METRICS) if writer else None
        return MetricStore(self.path / METRICS, writer=writer, note=note)

    def write_evidence(self, part: Part) -> None:
        """Write one part of the evidence: its given values, and no defaults."""
        text = json.dumps(part.as_dict(), indent=2, sort_keys=True, ensure_ascii=False, default=str).encode()
        write_atomically(self.artifacts / f"{part.file}.json", text)
        self.written[f"artifacts/{part.file}.json"] = digest_bytes(text)

    def part(self, kind: type[P]) -> P:
        """Return one part of the evidence; empty when the worker has not written it. Raises IntegrityError."""
        try:
            return kind.model_validate(self.evidence(kind.file) or {})
        except ValidationError as error:
            raise self._damaged(f"artifacts/{kind.file}.json", error) from error

    def evidence(self, name: str) -> dict[str, Any] | None:
        """Return `artifacts/<name>.json` as it is, or None when it was not written. Raises IntegrityError."""
        if not (self.artifacts / f"{name}.json").exists():
            return None
        return self._read_json(f"artifacts/{name}.json")

    def _read_model(self, name: str, model: type[Record]) -> Record:
        try:
            return model.model_validate(self._read_json(name))
        except ValidationError as error:
            raise self._damaged(name, error) from error

    def _damaged(self, name: str, error: Exception) -> IntegrityError:
        return IntegrityError(
            f"{name} of run {self.run_id} is damaged: {' '.join(str(error).split())[:200]}.",
            remedy="Start the run again; `trainwright verify` lists all other changes.",
        )

    def _read_json(self, name: str) -> dict[str, Any]:
        path = self.path / name
        try:
            value = json.loads(path.read_bytes())
        except FileNotFoundError as error:
            raise NotFoundError(
                f"Run {self.run_id} has no {name}.",
                remedy="project_status(project) lists the runs that exist.",
            ) from error
        except (ValueError, RecursionError) as error:
            raise self._damaged(name, error) from error
        if not isinstance(value, dict):
            raise IntegrityError(f"{name} of run {self.run_id} is not a mapping.", remedy="Start the run again.")
        return value


def _status_bytes(status: RunStatus) -> bytes:
    return status.model_dump_json(indent=2).encode()


def _lock_within(file: IO[bytes], seconds: float) -> bool:
    """Take the exclusive lock; readers hold a shared one for an instant, so a refusal is tried again."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        else:
            return True


def write_atomically(path: Path, data: bytes, *, is_passing: bool = False, mode: int = 0o666) -> None:
    """Replace a file so that a reader, or a crash at any instant, sees the old bytes or the new ones.

    Args:
        is_passing: whether it is replaced again within a second: what a killed process wrote stays, and after a power
            cut the newest may be missing.
        mode: who may read it, from its first byte on, as the process's umask allows.

    Raises:
        StorageError: the disk is full or the folder cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "wb", opener=partial(os.open, mode=mode)) as file:
            file.write(data)
            file.flush()
            if not is_passing:
                os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StorageError(
            f"Could not write {path.name} ({len(data)} bytes): {error.strerror}.",
            remedy="Free disk space or make the folder writable, then resume; `trainwright doctor` checks both.",
        ) from error


# Files that are generated for the user: scanned for secrets, then written, all or none.


def write_generated(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write generated files (code, configurations, templates) into a folder, and return their paths.

    Args:
        texts: by path relative to the folder; folders in between are made.

    Raises:
        ConfigurationError: a text holds a secret; nothing is written.
        StorageError: the disk is full or the folder cannot be written.
    """
    require_no_secrets(texts)
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / name, text.encode())
    return [folder / name for name in texts]


def write_report(path: Path, text: str, *, keeps_random: bool = False) -> None:
    """Write a report, card or page with every secret as `***`: what it states has happened and cannot be refused.

    Args:
        keeps_random: as `masked` takes it: for a recorded configuration.

    Raises:
        StorageError: the disk is full or the folder cannot be written.
    """
    write_atomically(path, masked(text, keeps_random=keeps_random).encode())
