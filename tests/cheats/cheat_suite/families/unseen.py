"""Editing what a run leaves while it works, and after its end before a server has looked at it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from threading import Event, Thread
from unittest.mock import patch

import psutil
from tests.worlds.flowers import NAME

from cheat_suite.case import cheat
from cheat_suite.families.checkpoints import fit_manifest
from cheat_suite.scene import Scene, edit_json, flip_byte, wait_until
from trainwright.tools.launchers.local import WORKER
from trainwright.tools.training_orchestrator import resume_run
from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.run import RunDirectory, RunKey, RunState

UNFOUNDED = "its summary does not follow from its recorded series"
OUTER = {"distributed": {"launcher": "outer", "processes": 2}}
forged = partial(cheat, by="files", expected="detected", at="planned", shows=("GATE-3",))


def _unseen(scene: Scene, edit: Callable[[RunDirectory], None]) -> None:
    """Edit a run that has ended, and that no server has looked at since; then try to have it resumed."""
    run = scene.start()
    wait_until(lambda: run.last_status().state is RunState.COMPLETED and not run.is_locked())
    edit(run)
    if scene.finish(run).state is RunState.INTERRUPTED:
        with suppress(IntegrityError), scene.workspace() as workspace:
            resume_run(workspace, run.run_id)


def _better(run: RunDirectory) -> None:
    edit_json(run.artifacts / "summary.json", lambda value: value.update(steps=5000))


@forged(rule=f"summary.json was changed after it was sealed|{UNFOUNDED}")
def before_the_first_look(scene: Scene) -> None:
    """Edit the summary after a run's end and before a server has looked at it."""
    _unseen(scene, _better)


@forged(rule="its worker has not signed that it was completed")
def signed_by_oneself(scene: Scene) -> None:
    """Do so, and sign the record again with a key of one's own."""

    def edit(run: RunDirectory) -> None:
        _better(run)
        RunDirectory(run.path, RunKey.new()).write_last_status(run.last_status())

    _unseen(scene, edit)


@forged(rule="its worker has not signed that it was completed")
def signature_removed(scene: Scene) -> None:
    """Do so, and remove the signed record."""

    def edit(run: RunDirectory) -> None:
        _better(run)
        (run.path / "end.json").unlink()

    _unseen(scene, edit)


class _Thief(Thread):
    """Reads what the workers of this process find on their standard input, and puts it back."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.taken = b""
        self.is_over = Event()

    def run(self) -> None:
        while not self.taken and not self.is_over.wait(0.001):
            for child in psutil.Process().children(recursive=True):
                with suppress(OSError, psutil.Error):
                    if WORKER not in child.cmdline():
                        continue
                    descriptor = os.open(f"/proc/{child.pid}/fd/0", os.O_RDWR | os.O_NONBLOCK)
                    self.taken = os.read(descriptor, 32)
                    os.write(descriptor, self.taken)
                    os.close(descriptor)


def _sign_anew(run: RunDirectory, seed: bytes) -> None:
    """Write a better result into the summary, and sign the record with the run's own key."""
    edit_json(run.artifacts / "summary.json", lambda value: value["best"]["metrics"].update(accuracy=1.0))
    RunDirectory(run.path, RunKey(seed)).write_last_status(run.last_status())


@cheat(by="files", at="planned", rule="the key could not be read", expected="refused", shows=("GATE-3",))
def key_through_proc(scene: Scene) -> None:
    """Take a run's private key through /proc while its worker starts, edit the summary and sign it again."""
    thief = _Thief()
    thief.start()
    try:
        _unseen(scene, lambda run: _sign_anew(run, thief.taken) if thief.taken else None)
    finally:
        thief.is_over.set()
    scene.claim("the key could not be read", is_refused=not thief.taken)


@forged(rule=UNFOUNDED)
def signed_with_the_runs_key(scene: Scene) -> None:
    """Edit the summary, and sign it again with the run's own key, as if it had been taken."""
    seeds: dict[str, bytes] = {}

    def kept(key: RunKey) -> bytes:
        return seeds.setdefault(key.public, bytes(key._known()))

    with patch.object(RunKey, "seed", property(kept)):
        _unseen(scene, lambda run: _sign_anew(run, seeds[scene.bodies("run_started")[-1]["run_key"]]))


@forged(rule="checkpoint .*: the run's worker has not signed it")
def declared_killed(scene: Scene) -> None:
    """Make an unseen run look killed, put another checkpoint into it, manifest and all, and have it resumed."""

    def edit(run: RunDirectory) -> None:
        (run.path / "end.json").unlink()
        run.write_status(run.last_status().model_copy(update={"state": RunState.RUNNING, "stop_reason": None}))
        folder = min(run.checkpoints.glob("step-*"))
        flip_byte(folder / "model.safetensors")
        fit_manifest(folder)

    _unseen(scene, edit)


@forged(rule="data.json was changed after it was sealed")
def evidence_while_it_works(scene: Scene) -> None:
    """Edit the evidence of a run while its worker trains."""
    run = scene.start()
    wait_until((run.artifacts / "data.json").exists)
    edit_json(run.artifacts / "data.json", lambda value: value.update(edited=True))
    scene.finish(run)


@forged(rule="metrics.sqlite was changed after it was sealed")
def metrics_while_it_works(scene: Scene) -> None:
    """Edit the metrics of a run while its worker trains."""
    run = scene.start()
    wait_until(lambda: run.metrics().last("train/loss") is not None)
    with closing(sqlite3.connect(run.path / "metrics.sqlite", timeout=30)) as connection, connection:
        connection.execute("UPDATE metrics SET value = value / 2 WHERE key = 'train/loss' AND step = 1")
    scene.finish(run)


@forged(rule="run.json was changed after it was sealed")
def order_before_the_worker(scene: Scene) -> None:
    """Rewrite a run's instructions before its worker has read it."""
    run = scene.start()
    edit_json(run.path / "run.json", lambda value: value.update(max_steps=3))
    scene.finish(run)


@cheat(by="files", at="empty", rule="needs the owner's consent", expected="refused", shows=("GATE-3",))
def outer_launcher(scene: Scene) -> None:
    """Have runs wait for another launcher, whose workers hold no key, and write their records by hand."""
    scene.project(OUTER)
    scene.attempt("start_training", project=NAME, kind="smoke")
