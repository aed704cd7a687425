"""Assignment of GPUs to a run, in the transaction that starts or resumes it."""

from __future__ import annotations

import fcntl
import json
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from trainwright.tools import ledger
from trainwright.tools.gpus.choice import GIB, Assignment, Need, choose, has_memory
from trainwright.tools.gpus.inventory import Device, gpus_of, has_gpu
from trainwright.tools.launchers import is_living, launcher_of, read_launch
from trainwright.tools.ledger.events import RunStarted
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import Run
from trainwright.trainer.base.errors import ConfigurationError, LimitReachedError, TrainwrightError
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.evidence import Environment

GPUS = "gpus"
"""What an error's details name where a run has to wait for a GPU."""
ONE_GPU = frozenset({RunKind.EXPORT, RunKind.PROBE})


def wanted_gpus(kind: RunKind, config: TrainingConfig) -> int:
    """Return how many GPUs a run works on where there are any; 0: it trains on the CPU, or is started elsewhere."""
    if config.training.device == "cpu" or not launcher_of(kind, config).is_here:
        return 0
    return 1 if kind in ONE_GPU else config.distributed.processes


def assign(
    session: Session, workspace: Workspace, project: str, kind: RunKind, config: TrainingConfig,
    *, study: str | None = None, run: Run | None = None, like: str | None = None, need: Need | None = None,
) -> Assignment:  # fmt: skip
    """Return the GPUs of a run that is about to start; none where the machine shows none, or it wants none.

    Where the owner's list leaves none, or its study began on the CPU, they are hidden: the worker would see the
    server's.

    It holds once the caller has written the run's launch, in the transaction of this session.

    Args:
        study: the study that the run belongs to: its runs keep to one kind of GPU, or to the CPU.
        run: a run that is to be resumed.
        like: id of the run that it repeats or exports: on its kind of GPU, where there is one.

    Raises:
        ConfigurationError: more processes than GPUs.
        LimitReachedError: all places are taken, and it needs one of its own (details: `waits`); the study's
            kind of GPU is gone, none has the memory for it, or the owner's list names one that is not there.
    """
    count = wanted_gpus(kind, config)
    if not count:
        return Assignment()
    devices, need = gpus_of(workspace.settings), need or Need()
    required = kind_of_study(session, project, study) if study is not None else None
    is_on_cpu = study is not None and began_on_cpu(session, workspace, project, study)
    if is_on_cpu or (required is None and not devices):
        hides = bool(devices) or workspace.settings.gpus is not None or (is_on_cpu and has_gpu())
        return Assignment(hides_gpus=hides)
    model = like if run is None else run.id
    usual = (kind_of_run(session, project, model) if model else None) or kind_of_baseline(session, project)
    mine = _of_kind(devices, required, usual, count, study)
    claims = claims_of(session, workspace, without=None if run is None else run.id)
    me = Waiter(project, count, _kind_of(mine), study, 0.0, need.runs_per_gpu, need.needed_bytes)
    found = choose(mine, claims, me, need, waiters(workspace))
    if found is None:
        require_memory(mine, me)
        raise _all_taken(mine, me, [claim.run for claim in claims])
    return found


def _of_kind(
    devices: Sequence[Device], required: str | None, usual: str | None, count: int, study: str | None
) -> list[Device]:
    """Return the GPUs of the required kind, else of the usual one where there are enough, else all.

    A study without a run so far begins on the usual kind too: its trials are compared with the baseline.
    """
    for kind in (required, usual):
        alike = [device for device in devices if device.gpu.name == kind]
        if kind is not None and len(alike) >= count:
            return alike
        if kind is not None and kind == required:
            raise _kind_is_gone(devices, kind, str(study))
    if len(devices) < count:
        raise ConfigurationError(
            f"{count} processes need a GPU each, and this workspace's runs may use {len(devices)}: "
            f"{'; '.join(str(device.gpu) for device in devices)}.",
            remedy=f"Set distributed.processes {len(devices)}, or training.device cpu.",
        )
    return list(devices)


def _kind_of(devices: Sequence[Device]) -> str | None:
    """Return the kind that all GPUs are of; None: there are several."""
    return devices[0].gpu.name if len({one.gpu.name for one in devices}) == 1 else None


def _kind_is_gone(devices: Sequence[Device], kind: str, study: str) -> LimitReachedError:
    here = "; ".join(str(device.gpu) for device in devices) or "none at all"
    return LimitReachedError(
        f"The trials of {study} run on {kind!r}, and too few GPUs of this kind are here now: {here}. Another kind "
        "computes other bits, and a study mixes none.",
        remedy="Make these GPUs usable again (CUDA_VISIBLE_DEVICES of the server, `gpus` in settings.yaml), then "
        "start_tuning with the same search goes on; with another search.seed it is a new study, on the GPUs there are.",
        details={"limit": GPUS, "kind": kind, "waits": False},
    )


def require_memory(devices: Sequence[Device], me: Waiter) -> None:
    """Raise LimitReachedError where too few GPUs have the memory that a run needs, however long it waits."""
    needed = me.needed_bytes
    if needed is None or sum(has_memory(device, needed) for device in devices) >= me.count:
        return
    largest = max(device.gpu.memory_bytes for device in devices)
    raise LimitReachedError(
        f"A run of {me.project} needs {needed / GIB:.1f} GiB on each of {me.count} GPU(s), by what the baseline had "
        f"allocated, and of {len(devices)} here the largest has {largest / GIB:.1f} GiB: it would wait for ever.",
        remedy=f"Set a smaller loader.batch_size with configure(project={me.project!r}, changes=…); or let runs use "
        "another GPU (CUDA_VISIBLE_DEVICES of the server, `gpus` in settings.yaml).",
        details={"limit": GPUS, "needed_bytes": needed, "memory_bytes": largest, "waits": False},
    )


def _all_taken(devices: Sequence[Device], me: Waiter, runs: list[str]) -> LimitReachedError:
    count = "a GPU" if me.count == 1 else f"{me.count} GPUs"
    held = f" Under way: {', '.join(sorted(runs))}." if runs else " Other programs hold their memory."
    return LimitReachedError(
        f"All places on {len(devices)} GPU(s) are taken; a run of {me.project} waits for {count}.{held}",
        remedy="It starts when a run ends; `trainwright doctor` shows the GPUs and their free memory.",
        details={"limit": GPUS, "count": me.count, "kind": me.kind, "waits": True},
    )


# Kinds of GPU that earlier runs were given, by the ledger: bits differ between kinds, so a study keeps to one.


def kind_of_run(session: Session, project: str, run_id: str) -> str | None:
    """Return the kind of GPU that a run began on; None: it was given none."""
    return next((kind for body, kind in _given(session, project) if body["run_id"] == run_id), None)


def kind_of_study(session: Session, project: str, study: str) -> str | None:
    """Return the kind of GPU of a study's first run that was given one; None: none was."""
    return next((kind for body, kind in _given(session, project) if body.get("study") == study), None)


def began_on_cpu(session: Session, workspace: Workspace, project: str, study: str) -> bool:
    """Return whether a study was given no GPU, and its first run that has recorded its device trained on the CPU."""
    if kind_of_study(session, project, study) is not None:
        return False
    for _, body in ledger.entries(session, project, RunStarted.name):
        if body.get("study") == study:
            with suppress(TrainwrightError):  # an edited record is reported where the study is evaluated
                found = workspace.run_directory(project, body["run_id"]).part(Environment)
                if (device := found.fingerprint_basis.get("device")) is not None:
                    return bool(device == "cpu")
    return False


def kind_of_baseline(session: Session, project: str) -> str | None:
    """Return the kind of GPU of the newest baseline that was given one; None: none was."""
    found = [kind for body, kind in _given(session, project) if body.get("kind") == RunKind.BASELINE.value]
    return found[-1] if found else None


def _given(session: Session, project: str) -> list[tuple[dict[str, Any], str]]:
    entries = ledger.entries(session, project, RunStarted.name)
    return [(body, str(body["gpus"][0].get("name", ""))) for _, body in entries if body.get("gpus")]


# Claims: which run under way is on which GPU, by the records of their launches.
#
# A claim is derived and never given back: it holds while the run's worker lives or may still begin, so whatever is
# killed leaves none behind. Read and written under the workspace's write lock, two starts cannot take one place.


@dataclass(frozen=True)
class Claim:
    """GPUs that a run under way was given."""

    run: str
    project: str
    gpus: tuple[str, ...]
    """Their ids."""
    share: Fraction = Fraction(1)
    """Of each of them."""


def claims_of(session: Session, workspace: Workspace, *, without: str | None = None) -> list[Claim]:
    """Return the claims of the workspace's runs under way, of all its projects.

    Args:
        session: holds the workspace's write lock where the answer decides anything.
        without: a run that is left out: one that is about to be resumed.
    """
    found = []
    for run in session.scalars(select(Run).where(~Run.sealed, Run.id != (without or ""))):
        directory = workspace.run_directory(run.project, run.id)
        launch = read_launch(directory.path)
        if launch is not None and launch.gpus and is_living(directory):
            share = Fraction(1, launch.runs_per_gpu)
            found.append(Claim(run.id, run.project, tuple(gpu.id for gpu in launch.gpus), share))
    return found


# Waiters: runs that wait for a GPU, each a file whose lock is held while it waits.
#
# So a start sees who waits, in other processes too, and leaves a place to one that has fewer; one whose process was
# killed waits no more.


@dataclass(frozen=True)
class Waiter:
    """One run that waits, or is to start now."""

    project: str
    count: int = 1
    """GPUs that it needs."""
    kind: str | None = None
    """Of GPU; None: any."""
    study: str | None = None
    since: float = 0.0
    """Unix seconds."""
    runs_per_gpu: int = 1
    needed_bytes: int | None = None
    """Memory of each GPU that it is going to use; None: not known."""


@contextmanager
def waiting(workspace: Workspace, waiter: Waiter) -> Iterator[Waiter]:
    """Let others see that this run waits, until the block ends."""
    folder = _folder(workspace)
    folder.mkdir(parents=True, exist_ok=True)
    name = secrets.token_hex(8)
    path, draft = folder / f"{name}.json", folder / f".{name}"
    with draft.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        json.dump(asdict(waiter), file)
        file.flush()
        draft.rename(path)  # seen only once it is locked
        try:
            yield waiter
        finally:
            path.unlink(missing_ok=True)


def waiters(workspace: Workspace) -> list[Waiter]:
    """Return those that wait now, the longest first; files of processes that are gone are removed."""
    found = []
    for path in _folder(workspace).glob("*.json"):
        with suppress(OSError, ValueError, TypeError), path.open() as file:
            if _is_left_behind(file.fileno()):
                path.unlink(missing_ok=True)
            else:
                found.append(Waiter(**json.load(file)))
    return sorted(found, key=lambda waiter: waiter.since)


def _is_left_behind(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _folder(workspace: Workspace) -> Path:
    return workspace.path / "cache" / "gpus"
