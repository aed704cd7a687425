"""Stands in for a worker's time, not for its work: hands to each launch the directory of a real run of the same order.

A run is trained once, by a real worker in a forked process, for every combination of order, code and data that comes
up; after that its files are copied into each run directory that is ordered like it. Meanwhile the run is held as a
worker holds it: a process of its own that signals reach, the lock, a status with a heartbeat.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from trainwright.tools.launchers import Launch, write_launch
from trainwright.trainer.base.canonical import digest_file, digest_json
from trainwright.trainer.checkpoints.index import checkpoint_folders, read_manifest
from trainwright.trainer.run import (
    ProcessIdentity,
    RunDirectory,
    RunKey,
    RunSpecification,
    RunState,
    RunStatus,
    write_atomically,
)
from trainwright.trainer.run.artifacts import FixedRows
from trainwright.trainer.run.commitments import Commitments, StepState, draw
from trainwright.trainer.run.environment import launch_environment
from trainwright.trainer.run.evidence import Resolved, Summary
from trainwright.trainer.run.key import rows_statement

OWN = frozenset({"run.json", "launch.json", "run.lock", "status.json", "events.jsonl", "worker.log", "stop_reason"})
"""Files that belong to one run, or are written for it when it ends."""


class Library:
    """Real runs, trained when they are first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.trained = 0
        self._keys: dict[Path, str] = {}

    def key(self, specification: RunSpecification) -> str:
        """Return what the run's outcome follows from: the order, the source run, the user's files as they are now."""
        order = specification.model_dump(mode="json", exclude={"run_id", "project", "limits", "permit", "source_run"})
        source = specification.source_run and self._keys[Path(specification.source_run)]
        root = Path(specification.code_root)
        files = {path.name: digest_file(path) for path in sorted(root.iterdir()) if path.is_file()}
        return digest_json([order, source, files]).removeprefix("blake3:")[:16]

    def take(self, run: RunDirectory) -> RunDirectory:
        """Return the prepared run for a run that is being launched, training it if there is none yet."""
        specification = run.specification()
        key = self._keys.setdefault(run.path, self.key(specification))
        prepared = RunDirectory(self.folder / key)
        if not prepared.path.exists():
            source = specification.source_run and str(self.folder / self._keys[Path(specification.source_run)])
            order = specification.model_copy(update={"source_run": source})
            _work(RunDirectory.create(prepared.path, order))
            self.trained += 1
        return prepared

    def remember(self) -> dict[str, str]:
        """Return which run is like which prepared one, to go with a copy of the world."""
        return {str(path): key for path, key in self._keys.items()}

    def recall(self, keys: dict[str, str]) -> None:
        """Take up what `remember` gave."""
        self._keys = {Path(path): key for path, key in keys.items()}


def _work(run: RunDirectory) -> None:
    """Let a real worker work on the run, in a fork of this process, which has imported torch."""
    from trainwright.trainer import worker
    from trainwright.trainer.user_code.guard import exit_now

    child = os.fork()
    if child == 0:
        code = 70
        try:
            log = os.open(run.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(log, 1)
            os.dup2(log, 2)
            sys.stdout = sys.stderr = os.fdopen(log, "w", buffering=1)
            os.environ.update(launch_environment(run.specification().config))
            code = worker.main([str(run.path)])
        finally:
            exit_now(code)
    os.waitpid(child, 0)
    if run.status().state not in {RunState.COMPLETED, RunState.FAILED}:
        raise RuntimeError(f"{run.path}: {run.status()}\n{run.log.read_text()[-2000:]}")


@dataclass
class Held:
    """A run that is being worked on, as far as anyone can tell."""

    run: RunDirectory
    prepared: RunDirectory
    attempt: int
    process: subprocess.Popen[bytes]
    lock: IO[bytes]
    since: float


class Understudy:
    """Takes the place of `spawn` in the orchestrator: holds runs, and lets them end as it is told."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.held: dict[str, Held] = {}
        self.at_once = False
        """Whether runs end the moment they are launched, as those of a study do."""

    def spawn(self, folder: Path, launch: Launch, *_: object, seed: bytes, **__: object) -> Launch:
        """Take up a run as a new worker does: lock, status, and a process that a signal ends."""
        run = RunDirectory(folder, RunKey(seed))
        prepared = self.library.take(run)
        process = subprocess.Popen(["sleep", "3600"], stdin=subprocess.DEVNULL, start_new_session=True)
        lock = (folder / "run.lock").open("ab")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        identity, now = ProcessIdentity.of(process.pid), time.time()
        run.write_status(
            RunStatus(
                state=RunState.RUNNING, attempt=launch.attempt, process=identity, started_at=now, heartbeat_at=now
            )
        )
        self.held[run.run_id] = Held(run, prepared, launch.attempt, process, lock, now)
        launched = write_launch(folder, launch.model_copy(update={"process": identity}))
        if self.at_once:
            self.end(run.run_id, "completed")
        return launched

    def was_signalled(self, run_id: str) -> bool:
        """Return whether the run's process has been ended by a signal."""
        return self.held[run_id].process.poll() is not None

    def end(self, run_id: str, how: str) -> RunState:
        """Leave what a worker leaves: `completed` (or failed, where a real one did), `stopped`, `killed`, `crashed`.

        A `killed` one has written its files up to its last status; a `crashed` one a failure of the user's code.
        """
        held = self.held.pop(run_id)
        if held.process.poll() is None:
            held.process.send_signal(signal.SIGKILL)
        held.process.wait()
        status = held.prepared.last_status()
        fields: dict[str, Any] = {"attempt": held.attempt, "process": ProcessIdentity.current()}
        shift = held.since - status.started_at
        fields |= {"started_at": status.started_at + shift, "heartbeat_at": status.heartbeat_at + shift}
        if how == "stopped":
            fields |= {"state": RunState.STOPPED, "stop_reason": "requested"}
        elif how == "killed":
            fields |= {"state": RunState.RUNNING, "stop_reason": None, "stage": "training"}
        elif how == "crashed":
            failure = {"category": "user_code", "message": "The user's code raised ValueError: no", "remedy": "mend it"}
            status = RunStatus.model_validate(status.model_dump() | {"failure": failure})
            fields |= {"state": RunState.FAILED, "stop_reason": None}
        _copy(held.prepared, held.run)
        _sign_checkpoints(held.run)
        _sign_rows(held.run)
        _commit(held.run)
        _write_events(held, shift)
        held.run.write_last_status(status.model_copy(update=fields))
        held.lock.close()
        return held.run.status().state

    def close(self) -> None:
        """End whatever is still held."""
        for held in self.held.values():
            held.process.kill()
            held.process.wait()
            held.lock.close()
        self.held.clear()


def _copy(prepared: RunDirectory, run: RunDirectory) -> None:
    for path in prepared.path.iterdir():
        if path.name in OWN:
            continue
        target = run.path / path.name
        if path.is_dir():
            shutil.copytree(path, target, dirs_exist_ok=True)
        else:
            shutil.copy2(path, target)


def _sign_checkpoints(run: RunDirectory) -> None:
    """Sign as the run's own worker does; the prepared run had no key."""
    for folder in checkpoint_folders(run.checkpoints):
        manifest = read_manifest(folder)
        if manifest is not None and run.key is not None:
            manifest["signature"] = run.key.sign(manifest["digest"])
            write_atomically(folder / "manifest.json", json.dumps(manifest).encode())


def _sign_rows(run: RunDirectory) -> None:
    """Sign the rows that a smoke run fixed, as its own worker does."""
    record = run.evidence(FixedRows.file)
    if record is not None and run.key is not None:
        record["signature"] = run.key.sign_rows(rows_statement(run.run_id, record))
        write_atomically(run.artifacts / f"{FixedRows.file}.json", json.dumps(record).encode())


def _commit(run: RunDirectory) -> None:
    """Draw the steps to be replayed as the run's own worker does. No model here replays one: any digest will do."""
    if run.key is not None and run.specification().commits_steps and (steps := run.part(Summary).steps):
        drawn = draw(run.key, run.run_id, first=0, last=max(steps, run.part(Resolved).total_steps or 0))
        state = StepState(before=digest_json([run.run_id, "before"]), after=digest_json([run.run_id, "after"]))
        run.write_evidence(Commitments(draws=[drawn], steps={str(step): state for step in drawn.steps}))


def _write_events(held: Held, shift: float) -> None:
    """Append the prepared run's events in the times of this one."""
    earlier = held.run.path / "events.jsonl"
    lines = [earlier.read_text()] if earlier.exists() else []
    for line in (held.prepared.path / "events.jsonl").read_text().splitlines():
        event = json.loads(line)
        lines.append(json.dumps(event | {"time": event["time"] + shift}) + "\n")
    write_atomically(earlier, "".join(lines).encode())
