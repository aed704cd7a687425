"""A request to stop is heard at every stage of a worker, and leaves a recorded state and no process."""

from __future__ import annotations

import os
import signal
import textwrap
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.variants import variants

from trainwright.tools.training_orchestrator.observation import observe
from trainwright.trainer.checkpoints.index import list_checkpoints, verify_checkpoint
from trainwright.trainer.run import RunDirectory, RunKind, RunState, write_atomically
from trainwright.trainer.supervision.stop import Abandoned, StopRequest

BLOCK = """
import time
from pathlib import Path
ROOT = Path(__file__).parent
def block(deaf=False):
    while True:
        try:
            (ROOT / "here").touch()
            time.sleep(3600)
        except BaseException:
            if not deaf: raise
"""
CONFIG: dict[str, Any] = {
    "task": {"use": "mine.py:build"}, "loader": {"batch_size": 8}, "training": {"epochs": 2},
    "logging": {"tensorboard": False},
}  # fmt: skip
PLAIN = """
def build(config, context):
    return {"model": Net(), "train": data(), "validation": data(20), "loss": "cross_entropy"}
"""
SLOW_SAMPLES = """
class Samples(torch.utils.data.Dataset):
    served = 0
    def __len__(self): return 40
    def __getitem__(self, index):
        self.served += torch.utils.data.get_worker_info() is not None
        if BLOCKS: block()
        return torch.zeros(4), index % 2
def build(config, context):
    return {"model": Net(), "train": Samples(), "validation": data(20), "loss": "cross_entropy"}
"""
SLOW_MODEL = """
class Slow(Net):
    calls = 0
    def forward(self, x):
        Slow.calls += 1
        if BLOCKS: block()
        return super().forward(x)
def build(config, context):
    return {"model": Slow(), "train": data(), "validation": data(20), "loss": "cross_entropy"}
"""
STAGES = {
    "importing": (f"block()\n{PLAIN}", RunState.STOPPED),
    "building": (PLAIN.replace("    return", "    block()\n    return"), RunState.STOPPED),
    "building, and it swallows what is raised": (
        PLAIN.replace("    return", "    block(deaf=True)\n    return"),
        RunState.INTERRUPTED,
    ),
    "fingerprinting": (SLOW_SAMPLES.replace("BLOCKS", "True"), RunState.STOPPED),
    "waiting for a loader's worker in training": (
        SLOW_SAMPLES.replace("BLOCKS", "self.served > 30"),
        RunState.INTERRUPTED,
    ),
    "validating": (SLOW_MODEL.replace("BLOCKS", "not self.training"), RunState.INTERRUPTED),
    "probing": (SLOW_MODEL.replace("BLOCKS", "Slow.calls > 4"), RunState.STOPPED),
    "exporting": (SLOW_MODEL.replace("BLOCKS", '(ROOT / "armed").exists()'), RunState.STOPPED),
}


@pytest.fixture
def at_work(tmp_path: Path, make_run: Any, begin: Any, work: Any, mine: str) -> Any:
    """`at_work(stage, code)` begins a run with this code, and returns it once the code blocks."""

    def begun(stage: str, code: str) -> tuple[RunDirectory, psutil.Process]:
        (tmp_path / "mine.py").write_text(mine + BLOCK + textwrap.dedent(code))
        values, more = dict(CONFIG), {}
        if "loader" in stage:
            values["loader"] = {"batch_size": 8, "num_workers": 1}
        if stage == "probing":
            more["kind"] = RunKind.PROBE
        if stage == "exporting":
            source = make_run(tmp_path / "source", values)
            assert work(source) == 0, source.log.read_text()
            (tmp_path / "armed").touch()
            more |= {"kind": RunKind.EXPORT, "source_run": str(source.path)}
        run = make_run(tmp_path / "run", values, **more)
        process = psutil.Process(begin(run, before=os.setsid))
        while not (tmp_path / "here").exists():
            assert process.status() != psutil.STATUS_ZOMBIE, run.log.read_text()
            time.sleep(0.01)
        return run, process

    return begun


@pytest.mark.requirement("TRAIN-10")
@pytest.mark.parametrize("stage", variants(STAGES, quick=["building, and it swallows what is raised", "validating"]))
def test_a_stop_is_heard_at_every_stage_and_leaves_no_process(stage: str, at_work: Any) -> None:
    code, expected = STAGES[stage]
    run, process = at_work(stage, code)
    family = process.children(recursive=True)
    assert bool(family) is ("loader" in stage)
    (run.path / "stop_reason").write_text("requested")
    process.send_signal(signal.SIGTERM)
    os.waitpid(process.pid, 0)
    _, left = psutil.wait_procs(family, timeout=5)
    assert left == []
    seen = observe(run)
    assert (seen.state, seen.status.stop_reason, seen.is_settled) == (expected, "requested", True), run.log.read_text()
    if expected is RunState.INTERRUPTED:
        assert seen.failure is not None
        assert "it was asked to stop (requested) and could not do so in order" in seen.failure.message


@pytest.mark.long
@pytest.mark.requirement("TRAIN-10", "REPRO-6", "CKPT-2")
def test_a_validation_that_was_left_is_made_whole_by_the_resumed_run_with_the_same_bits(
    tmp_path: Path, make_run: Any, begin: Any, work: Any, mine: str
) -> None:
    """The stop leaves a checkpoint of all steps before the validation."""
    code = """
    class Slow(Net):
        def forward(self, x):
            if not self.training and (ROOT / "slow").exists():
                (ROOT / "here").touch()
                time.sleep(0.05)
            return super().forward(x)
    def build(config, context):
        return {"model": Slow(), "train": data(), "validation": data(800), "loss": "cross_entropy"}
    """
    (tmp_path / "mine.py").write_text(mine + BLOCK + textwrap.dedent(code))
    whole = make_run(tmp_path / "whole", CONFIG)
    assert work(whole) == 0, whole.log.read_text()

    (tmp_path / "slow").touch()
    left = make_run(tmp_path / "left", CONFIG)
    process = psutil.Process(begin(left, before=os.setsid))
    while not (tmp_path / "here").exists():
        assert process.status() != psutil.STATUS_ZOMBIE, left.log.read_text()
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    os.waitpid(process.pid, 0)
    assert (left.status().state, left.status().step) == (RunState.STOPPED, 5), left.log.read_text()
    (kept,) = list_checkpoints(left)
    assert (kept.step, kept.tags, verify_checkpoint(kept.path)) == (5, ["last"], [])
    assert not left.metrics().series("validation/loss")

    (tmp_path / "slow").unlink()
    assert work(left) == 0, left.log.read_text()
    assert left.evidence("summary")["weights_digest"] == whole.evidence("summary")["weights_digest"]
    assert left.evidence("summary")["final"] == whole.evidence("summary")["final"]


@pytest.mark.requirement("TRAIN-10", "GATE-3")
def test_code_that_writes_records_is_never_left_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = StopRequest(tmp_path / "stop_reason")
    kept = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    stop.listen()
    try:
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", lambda _descriptor: signal.raise_signal(signal.SIGTERM))
            write_atomically(tmp_path / "record", b"whole")
        assert (stop.asked, (tmp_path / "record").read_bytes()) == (True, b"whole")
        with pytest.raises(Abandoned):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)  # once is enough: what follows is the end
    finally:
        for number, handler in zip((signal.SIGTERM, signal.SIGINT), kept, strict=True):
            signal.signal(number, handler)
