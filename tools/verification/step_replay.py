"""Replay of one step of a run by anyone who has its folder: does this one step give the next digest (REPRO-5)?

A worker of its own resumes from a copy of the nearest earlier checkpoint, in a folder of its own. Nothing is written
into the run or the ledger, and no permit is needed: it is no run of the project.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from pydantic import BaseModel

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.launchers.environment import command_of, worker_environment
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_run
from trainwright.trainer.base.errors import ConflictError, IntegrityError, NotFoundError
from trainwright.trainer.base.releases import require_torch
from trainwright.trainer.checkpoints.index import CheckpointRecord, has_weights, list_checkpoints
from trainwright.trainer.run import RunDirectory, RunState
from trainwright.trainer.run.commitments import Commitments
from trainwright.trainer.run.results import Comparison

WORKER = "trainwright.trainer.worker"


class StepReplay(BaseModel):
    """The outcome of a replayed step."""

    run_id: str
    step: int
    replayed_from: str
    """Name of the checkpoint, or the run's beginning."""
    steps: int
    """Steps made, up to this one."""
    identical: bool
    """Whether the states before and after the step have the digests that the run committed to."""
    causes: list[str]


def replay_step(workspace: Workspace, run_id: str, step: int, *, code_root: Path | None = None) -> StepReplay:
    """Replay the run up to a step that it has committed to, and compare the state before and after it.

    Args:
        code_root: where the user's code is on this machine; by default where it was.

    Raises:
        NotFoundError: there is no such run.
        IntegrityError: the run's files are not as they were sealed.
        ConflictError: it has not committed to this step, or the replay did not reach it.
        ConfigurationError: it ran in the server's own interpreter, which has no torch.
    """
    with workspace.session() as session:
        row = get_run(session, run_id)
        found = Evidence(session, workspace, row.project).run(run_id)
        differences = found.differences if found is not None else []
    source = workspace.run_directory(row.project, run_id)
    if differences:
        raise IntegrityError(
            f"Run {run_id} is not as it was sealed: {'; '.join(differences[:3])}.",
            remedy=f"trainwright verify {workspace.path} names all that differs.",
        )
    _require_committed(source, step)
    if source.specification().runtime is None:
        require_torch("Replaying a step", "Replay it where torch is")
    with tempfile.TemporaryDirectory(prefix="trainwright-step-") as place:
        return _replayed(source, step, Path(place), code_root)


def _require_committed(source: RunDirectory, step: int) -> None:
    steps = source.part(Commitments).steps
    reached = [number for number, state in steps.items() if state.before and state.after]
    if str(step) not in reached:
        raise ConflictError(
            f"Run {source.run_id} has not committed to its state around step {step}.",
            remedy=f"Its steps are {', '.join(reached)}."
            if reached
            else "It has committed to none: an earlier "
            "version made it, its kind commits to none, or it has several processes.",
        )


def _replayed(source: RunDirectory, step: int, place: Path, code_root: Path | None) -> StepReplay:
    begin = _nearest(source, step)
    original = source.specification()
    root = Path(original.code_root) if code_root is None else code_root.expanduser().resolve()
    if not root.is_dir():
        raise NotFoundError(f"There is no folder {root} with the user's code.", remedy="Name it: --code-root DIR.")
    changes = {
        "code_root": str(root), "max_steps": step, "replayed_step": step, "source_run": str(source.path),
        "expected": {}, "permit": {}, "exports_program": False, "first_looks": None,
        "data_cache": str(place / "data_cache"),
    }  # fmt: skip
    run = RunDirectory.create(place / source.run_id, original.model_copy(update=changes))
    if begin is not None:
        shutil.copytree(begin.path, run.checkpoints / begin.name)
    with run.log.open("wb") as log:
        subprocess.run(
            command_of(original.runtime, WORKER, str(run.path)), cwd=root,
            env=worker_environment(original.config, original.connections, runtime=original.runtime),
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
    status = run.last_status()
    if status.state is not RunState.COMPLETED or run.part(Comparison).identical is None:
        said = status.failure.message if status.failure else run.log.read_text(errors="replace")[-500:]
        raise ConflictError(
            f"The replay ended {status.state.value} at step {status.step}: {said}",
            remedy="Install the packages of the run's artifacts/environment.json, and give it its code and data.",
        )
    found = run.part(Comparison)
    return StepReplay(
        run_id=source.run_id, step=step, replayed_from=begin.name if begin else "the beginning",
        steps=step - (begin.step if begin else 0), identical=bool(found.identical), causes=found.causes or [],
    )  # fmt: skip


def _nearest(source: RunDirectory, step: int) -> CheckpointRecord | None:
    """Return the newest checkpoint from which the step before this one is still made."""
    earlier = [each for each in list_checkpoints(source) if each.step <= step - 2 and has_weights(each.path)]
    return max(earlier, key=lambda each: each.step, default=None)
