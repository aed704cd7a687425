"""Assignment of GPUs to a run, in the transaction that starts or resumes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.gpus.choice import GIB, Assignment, Need, choose, has_memory
from trainwright.tools.gpus.claims import claims_of
from trainwright.tools.gpus.inventory import gpus_of, has_gpu
from trainwright.tools.gpus.kinds import began_on_cpu, kind_of_baseline, kind_of_run, kind_of_study
from trainwright.tools.gpus.waiting import Waiter, waiters
from trainwright.tools.launchers import launcher_of
from trainwright.trainer.base.errors import ConfigurationError, LimitReachedError
from trainwright.trainer.run import RunKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.orm import Session

    from trainwright.tools.gpus.inventory import Device
    from trainwright.tools.workspace import Workspace
    from trainwright.tools.workspace.tables import Run
    from trainwright.trainer.config import TrainingConfig

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
