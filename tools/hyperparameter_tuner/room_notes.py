"""Notes on the room for a search's trials: its GPUs and cores, with the figures, before the first trial."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

from trainwright.tools import gpus, limits
from trainwright.tools.gates.searches import seconds_a_trial
from trainwright.tools.hyperparameter_tuner.gpu_share import USABLE, devices_for, peak_bytes, per_gpu, share_bytes
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import parse_config
from trainwright.trainer.run import RunKind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from trainwright.tools.gates.evidence import Evidence
    from trainwright.tools.gpus import Device
    from trainwright.trainer.config import SearchSection, TrainingConfig

GIB = 1024**3


def room_notes(
    evidence: Evidence, search: SearchSection, values: dict[str, Any], study_id: str | None = None
) -> list[str]:
    """Return what there is to say of the GPUs and the cores that the trials are going to have.

    Args:
        values: the configuration that the trials start from.
        study_id: a study that goes on.

    Raises:
        ConfigurationError: more trials on a GPU than its memory holds, by what the baseline used.
        LimitReachedError: the owner's list of GPUs names one that is not there.
    """
    config = parse_config({name: value for name, value in values.items() if name != "search"})
    wanted = gpus.wanted_gpus(RunKind.TRIAL, config)
    devices = devices_for(evidence, study_id) if wanted else []
    notes = _place_notes(evidence, search.width) + core_notes(search.width, config, cores_here())
    notes += time_notes(search, seconds_a_trial(evidence))
    if not devices:
        if search.trials_per_gpu != 1:
            notes.append(
                f"trials_per_gpu = {search.trials_per_gpu!r} is ignored: the trials train on no GPU of this machine's"
            )
        return notes
    return notes + _gpu_notes(evidence, search, devices, wanted)


def _place_notes(evidence: Evidence, width: int) -> list[str]:
    """Return a sentence where the owner's limits let fewer trials train at once than the width."""
    own = limits.effective_limits(evidence.session, evidence.workspace, evidence.project)
    whole = evidence.workspace.settings.workspace_limits
    places = {
        "runs_at_once": own.runs_at_once,
        "workspace_limits.runs_at_once": whole.runs_at_once,
        "disk_bytes": math.ceil(own.disk_bytes / own.run_disk_bytes),  # each reserves as much as a run may use
    }
    name, least = min(places.items(), key=lambda place: place[1])
    if width <= least:
        return []
    return [
        f"width {width}, and {name} lets {least} run at once: a wave runs in turns, with the same results; only the "
        f"owner can raise it: {limits.how_to_raise(name, evidence.name)}"
    ]


def time_notes(search: SearchSection, seconds: float | None) -> list[str]:
    """Return a sentence where the search's own time ends it before its last trial, by what a run took."""
    hours = search.stop_after.wall_clock_hours if search.stop_after is not None else None
    if hours is None or not seconds:
        return []
    turns = math.floor(hours * 3600 / seconds) - math.ceil(2 * search.confirmation_repeats / search.width)
    fitting = max(turns, 0) * search.width
    if fitting >= search.trials:
        return []
    cheaper = "confirmation_repeats 1, " if search.confirmation_repeats > 1 else ""
    shorter = "pruning median, " if search.pruning.name == "none" else ""
    return [
        f"stop_after.wall_clock_hours {hours:g} leaves about {fitting} of {search.trials} trials: a run takes "
        f"{seconds:.0f} s, and {2 * search.confirmation_repeats} repetitions are kept back; {cheaper}{shorter}"
        "fewer training.epochs or more hours make room"
    ]


def core_notes(width: int, config: TrainingConfig, cores: int) -> list[str]:
    """Return a sentence where the trials side by side want more cores than there are.

    Threads are a part of the record, for other numbers give other bits: they are never lowered to fit.
    """
    threads, workers = config.reproducibility.threads, config.loader.num_workers
    each = config.distributed.processes * (threads + workers)
    if width * each <= cores:
        return []
    loaders = f" and {workers} loader workers" if workers else ""
    fitting = max(1, cores // each)
    return [
        f"width {width} x {each} = {width * each} busy processes and threads ({threads} threads{loaders} each), and "
        f"the machine allows {cores} cores: the trials slow each other down; width {fitting} fits"
    ]


def cores_here() -> int:
    """Return the cores that this process, and so a worker, may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _gpu_notes(evidence: Evidence, search: SearchSection, devices: Sequence[Device], wanted: int) -> list[str]:
    peak = peak_bytes(evidence)
    memory = min(one.gpu.memory_bytes for one in devices)
    together = per_gpu(search.trials_per_gpu, peak, memory)
    require_memory(search, together, peak, memory)
    notes = []
    if search.trials_per_gpu == "auto":
        by = "the baseline's memory on a GPU is not known" if peak is None else f"the baseline used {_gib(peak)}"
        notes.append(f"trials_per_gpu auto: {together} ({by})")
    if len({one.gpu.name for one in gpus.gpus_of(evidence.workspace.settings)}) > 1:
        kinds = sorted({one.gpu.name for one in devices})
        kind = repr(kinds[0]) if len(kinds) == 1 else "that of its first trial"
        notes.append(f"the trials run on one kind of GPU, {kind}: another kind computes other bits")
        if len(kinds) > 1:
            return notes
    places = len(devices) * together // wanted
    if search.width > places:
        notes.append(
            f"width {search.width}, and {len(devices)} GPU(s) hold {places} trial(s) at once: a wave runs in turns, "
            "with the same results"
        )
    return notes


def require_memory(search: SearchSection, together: int, peak: int | None, memory: int) -> None:
    """Raise ConfigurationError where so many trials do not fit on a GPU; nothing is known without a peak or a size.

    Args:
        together: trials on one GPU.
        peak: bytes that the baseline had allocated at most.
        memory: bytes of the smallest GPU; 0: not known.
    """
    if peak is None or not memory or together == 1 or together * share_bytes(peak) <= USABLE * memory:
        return
    most = per_gpu("auto", peak, memory)
    raise ConfigurationError(
        f"`search.trials_per_gpu` = {search.trials_per_gpu}: {together} trials of {_gib(share_bytes(peak))} each "
        f"(the baseline's {_gib(peak)}, a quarter more, and CUDA's own) do not fit in {USABLE:.0%} of a GPU's "
        f"{_gib(memory)}.",
        remedy=f"Set search.trials_per_gpu {most} or auto; a smaller loader.batch_size needs less.",
        details={"peak_bytes": peak, "share_bytes": share_bytes(peak), "memory_bytes": memory, "fitting": most,
                 "amend": {"search": search.as_asked() | {"trials_per_gpu": most}}},
    )  # fmt: skip


def _gib(count: int) -> str:
    return f"{count / GIB:.1f} GiB"
