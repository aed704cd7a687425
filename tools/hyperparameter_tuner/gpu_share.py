"""Share of a GPU that a study's runs take, by the memory that the baseline was measured to use."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from trainwright.tools import gpus
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.workspace.records import get_study
from trainwright.trainer.base.errors import TrainwrightError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainwright.tools.workspace import Workspace

MARGIN = 1.25
"""Of the allocated memory, for what the allocator holds besides, and for trials that need more than the baseline."""
CONTEXT_BYTES = 700 * 2**20
"""Of CUDA's context and its libraries, for each process."""
USABLE = 0.95
"""Share of a device's memory that runs may take together."""
MOST_BY_ITSELF = 8
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
    return max(1, min(MOST_BY_ITSELF, int(USABLE * memory / share_bytes(peak))))


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
