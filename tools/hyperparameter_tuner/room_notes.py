"""Notes on the room for a search's trials: its GPUs and cores, with the figures, before the first trial."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from trainwright.tools import gpus, limits
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.searches import seconds_a_trial
from trainwright.tools.gpus import Device
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_study
from trainwright.trainer.base.errors import ConfigurationError, TrainwrightError
from trainwright.trainer.config import SearchSection, TrainingConfig, parse_config
from trainwright.trainer.run import RunKind

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


# Share of a GPU that a study's runs take, by the memory that the baseline was measured to use.

MARGIN = 1.25
"""Of the allocated memory, for what the allocator holds besides, and for trials that need more than the baseline."""
CONTEXT_BYTES = 700 * 2**20
"""Of CUDA's context and its libraries, for each process."""
USABLE = 0.95
"""Share of a device's memory that runs may take together."""
MAX_BY_ITSELF = 8
"""Trials that `auto` lets share a GPU: more of them seldom train faster together."""


def need_of(workspace: Workspace, study_id: str | None) -> gpus.Need:
    """Return how a conductor's next run wants its GPU: it waits for a place.

    Args:
        study_id: None: no study's, but one that tries a fix.
    """
    if study_id is None or not gpus.gpus_of(workspace.settings):
        return gpus.Need(waits=True)
    with workspace.session() as session:
        evidence = Evidence(session, workspace, get_study(session, study_id).project)
        peak, memory = peak_bytes(evidence), memory_bytes(evidence, study_id)
        asked = _asked(evidence, study_id)
    return gpus.Need(per_gpu(asked, peak, memory), needed_bytes=peak, waits=True)


def _asked(evidence: Evidence, study_id: str) -> Any:
    """Return `trials_per_gpu` as the study was last started with; its row has the search of its first start."""
    searches = [body["search"] for _, body in evidence.entries("study")
                if body["study_id"] == study_id and body.get("search")]  # fmt: skip
    return searches[-1].get("trials_per_gpu", 1) if searches else 1


def per_gpu(asked: Any, peak: int | None, memory: int) -> int:
    """Return how many trials share a GPU; by `auto` one, where the baseline's memory or the device's is not known.

    Args:
        asked: a number, or "auto".
        peak: bytes that the baseline had allocated at most.
        memory: bytes of the smallest device; 0: not known.
    """
    if asked != "auto":
        return int(asked)
    if peak is None or not memory:
        return 1
    return max(1, min(MAX_BY_ITSELF, int(USABLE * memory / share_bytes(peak))))


def share_bytes(peak: int) -> int:
    """Return the bytes of a device that a trial is given when several share it."""
    return int(MARGIN * peak) + CONTEXT_BYTES


def peak_bytes(evidence: Evidence) -> int | None:
    """Return the most device memory that the baseline had allocated; None where none ran on a GPU."""
    with suppress(TrainwrightError):  # an edited record is reported where the study is evaluated
        run = evidence.baseline
        if run is not None and run.resolved.device == "cuda":
            return run.summary.peak_memory_bytes
    return None


def memory_bytes(evidence: Evidence, study_id: str | None) -> int:
    """Return the memory of the smallest GPU that the study's trials may run on; 0: not known."""
    return min((one.gpu.memory_bytes for one in devices_for(evidence, study_id)), default=0)


def usable_kinds(evidence: Evidence, study_id: str) -> set[str]:
    """Return the kinds of GPU whose runs may stand in a study's table: its own, before its first run those it may get.

    Empty where the machine shows no GPU.
    """
    kind = gpus.kind_of_study(evidence.session, evidence.name, study_id)
    return {kind} if kind else {one.gpu.name for one in devices_for(evidence, study_id)}


def devices_for(evidence: Evidence, study_id: str | None) -> Sequence[gpus.Device]:
    """Return the GPUs that a study's trials may run on: of its first run's kind, before one of the baseline's.

    Of a study that began on the CPU none.
    """
    here = gpus.gpus_of(evidence.workspace.settings)
    session, name = evidence.session, evidence.name
    if study_id and gpus.began_on_cpu(session, evidence.workspace, name, study_id):
        return []
    kind = (gpus.kind_of_study(session, name, study_id) if study_id else None) or gpus.kind_of_baseline(session, name)
    return [one for one in here if one.gpu.name == kind] or here
