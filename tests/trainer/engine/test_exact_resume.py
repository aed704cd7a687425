"""A run that was killed anywhere ends like one that was not, bit for bit."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save_file
from tests.trainer.killing import kill_at_call
from tests.trainer.whole_runs import Halted, train_here
from tests.variants import variants

from trainwright.trainer.checkpoints import store
from trainwright.trainer.checkpoints.index import list_checkpoints, manifest_digest, verify_checkpoint, write_index
from trainwright.trainer.checkpoints.store import DirectoryStore, _fsync, newest_whole
from trainwright.trainer.engine import totals
from trainwright.trainer.engine.evaluation import evaluate_split
from trainwright.trainer.engine.observers.checkpointing import Checkpointing, Selection
from trainwright.trainer.engine.observers.recorder import Recorder
from trainwright.trainer.run import RunDirectory, RunState

PROJECTS = Path(__file__).parent.parent / "projects"
KEYS = (
    "train/loss", "train/gradient_norm", "train/learning_rate", "train/moving", "train/epoch_loss", "train/accuracy",
    "validation/loss", "validation/accuracy", "epoch",
)  # fmt: skip
NOISY: dict[str, Any] = {
    "task": {"use": "noisy.py:build"},
    "metrics": ["accuracy"],
    "loader": {"batch_size": 8},
    "training": {"epochs": 4, "accumulation_steps": 2, "clip_norm": 1.0},
    "checkpoints": {"checkpoint_every_n_epochs": 2},
    "logging": {"every_n_steps": 3, "tensorboard": False},
    "early_stopping": {"patience_epochs": 2},
}


def stop_at_step(number: int, reason: Path) -> None:
    """Let the process be stopped as a study stops a trial: the reason in its file, then the signal."""
    real, calls = Recorder.step, iter(range(1, 10_000))

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == number:
            reason.write_text("pruned")
            os.kill(os.getpid(), signal.SIGTERM)
        return real(*args, **kwargs)

    Recorder.step = wrapped  # type: ignore[method-assign]


KILLS = {
    "in the first epoch": kill_at_call(Recorder.step, 4),
    "in the middle of an epoch": kill_at_call(Recorder.step, 15),
    "at the last step of an epoch": kill_at_call(Recorder.step, 20),
    "while validating": kill_at_call(evaluate_split, 2),
    "while judging": kill_at_call(Selection.epoch, 3),
    "while writing a checkpoint's files": kill_at_call(save_file, 4),
    "before a checkpoint's manifest": kill_at_call(manifest_digest, 2, called_in=store),
    "before a checkpoint's fsync": kill_at_call(_fsync, 8),
    "between checkpoint and its tags": kill_at_call(write_index, 3),
    "while removing old checkpoints": kill_at_call(DirectoryStore.delete, 1),
}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory, make_run: Any, work: Any) -> RunDirectory:
    run: RunDirectory = make_run(tmp_path_factory.mktemp("whole") / "whole", NOISY, code_root=str(PROJECTS))
    assert work(run) == 0, run.log.read_text()
    return run


def assert_same_end(run: RunDirectory, whole: RunDirectory, recorded: Any) -> None:
    assert recorded(run, *KEYS) == recorded(whole, *KEYS)
    ours, theirs = run.evidence("summary"), whole.evidence("summary")
    assert ours is not None
    assert theirs is not None
    for key in ("weights_digest", "best", "final", "stop_reason", "epochs", "steps", "early_stopping"):
        assert ours[key] == theirs[key]
    names = [(record.name, record.tags) for record in list_checkpoints(run)]
    assert names == [(record.name, record.tags) for record in list_checkpoints(whole)]
    assert all(verify_checkpoint(record.path) == [] for record in list_checkpoints(run))


@pytest.mark.requirement("REPRO-6", "CKPT-1", "CKPT-2")
@pytest.mark.parametrize("place", variants(KILLS, quick=["while judging", "between checkpoint and its tags"]))
def test_a_run_killed_anywhere_ends_with_the_same_bits(  # noqa: PLR0917 - fixtures
    place: str, tmp_path: Path, uninterrupted: RunDirectory, make_run: Any, work: Any, recorded: Any
) -> None:
    run = make_run(tmp_path / "killed", NOISY, code_root=str(PROJECTS))
    assert work(run, before=KILLS[place]) == -signal.SIGKILL
    assert run.status().state is RunState.INTERRUPTED
    assert not run.is_locked()
    assert work(run) == 0, run.log.read_text()
    assert run.status().attempt == 2
    assert_same_end(run, uninterrupted, recorded)


@pytest.mark.requirement("REPRO-6", "GATE-5")
def test_epochs_that_were_edited_while_the_run_was_dead_are_recorded_again_from_the_checkpoint(
    tmp_path: Path, uninterrupted: RunDirectory, make_run: Any, work: Any, recorded: Any
) -> None:
    run = make_run(tmp_path / "edited", NOISY, code_root=str(PROJECTS))
    assert work(run, before=KILLS["in the middle of an epoch"]) == -signal.SIGKILL
    with closing(sqlite3.connect(run.path / "metrics.sqlite")) as connection, connection:
        edited = connection.execute("UPDATE metrics SET value = 0.001 WHERE key LIKE 'validation/%'").rowcount
        edited += connection.execute("DELETE FROM metrics WHERE key = 'train/epoch_loss'").rowcount
    assert edited > 1
    assert work(run) == 0, run.log.read_text()
    assert_same_end(run, uninterrupted, recorded)


@pytest.mark.requirement("REPRO-6", "MCP-3")
def test_a_stopped_run_goes_on_from_the_middle_of_its_epoch(
    tmp_path: Path, uninterrupted: RunDirectory, make_run: Any, work: Any, recorded: Any
) -> None:
    run = make_run(tmp_path / "stopped", NOISY, code_root=str(PROJECTS))
    reason = run.path / "stop_reason"
    assert work(run, before=lambda: stop_at_step(14, reason)) == 0, run.log.read_text()
    assert (run.status().state, run.status().stop_reason, run.status().step) == (RunState.STOPPED, "pruned", 14)
    assert [record.step for record in list_checkpoints(run) if "last" in record.tags] == [14]
    reason.unlink()  # as whoever resumes it does
    assert work(run) == 0, run.log.read_text()
    assert run.events("resumed")[0].data["step"] == 14
    assert_same_end(run, uninterrupted, recorded)


@pytest.mark.requirement("REPRO-6", "CKPT-1")
def test_checkpoints_within_epochs_are_taken_up_and_change_nothing(
    tmp_path: Path, uninterrupted: RunDirectory, make_run: Any, recorded: Any
) -> None:
    values = {**NOISY, "checkpoints": {**NOISY["checkpoints"], "checkpoint_every_n_steps": 3}}
    run = make_run(tmp_path / "steps", values, code_root=str(PROJECTS))
    for step in (14, 21, 26):
        with pytest.raises(Halted):
            train_here(run, step)
    train_here(run)
    assert [event.data["step"] for event in run.events("resumed")] == [12, 20, 24], "two within an epoch"
    assert_same_end(run, uninterrupted, recorded)


@pytest.mark.requirement("REPRO-6", "TRAIN-11")
def test_outputs_folded_within_epochs_give_the_same_metrics_after_a_halt_too(
    tmp_path: Path, uninterrupted: RunDirectory, make_run: Any, recorded: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(totals, "FOLD_AT_BYTES", 200)
    values = {**NOISY, "checkpoints": {**NOISY["checkpoints"], "checkpoint_every_n_steps": 3}}
    run = make_run(tmp_path / "folded", values, code_root=str(PROJECTS))
    with pytest.raises(Halted):
        train_here(run, 8)
    newest, _ = newest_whole(DirectoryStore(run), config_digest=run.specification().config_digest)
    assert newest is not None
    assert newest.state["totals"]["sums"].keys() == {"classes"}
    train_here(run)
    assert_same_end(run, uninterrupted, recorded)


@pytest.mark.requirement("REPRO-6")
@pytest.mark.parametrize("sign", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_a_run_that_ended_at_its_last_permitted_step_makes_no_further_one(
    sign: int, tmp_path: Path, make_run: Any, work: Any, recorded: Any
) -> None:
    values = {**NOISY, "checkpoints": {"checkpoint_every_n_steps": 1}}
    whole = make_run(tmp_path / "whole", values, code_root=str(PROJECTS), max_steps=14)
    assert work(whole) == 0, whole.log.read_text()
    run = make_run(tmp_path / "ended", values, code_root=str(PROJECTS), max_steps=14)
    function, number = (evaluate_split, 2) if sign == signal.SIGKILL else (Recorder.step, 14)
    work(run, before=kill_at_call(function, number, sign))
    assert work(run) == 0, run.log.read_text()
    assert run.events("resumed")[0].data["step"] == 14
    assert_same_end(run, whole, recorded)


BOUND_KILLS = {
    "validated, not recorded": kill_at_call(Recorder.epoch, 2),
    "recorded, not judged": kill_at_call(Selection.epoch, 2),
    "judged, not saved": kill_at_call(Checkpointing.epoch, 2),
    "saved, not in the place of the step's own": kill_at_call(_fsync, 6 * 15 - 1),
    "between moving the step's own away and the new one in": kill_at_call(Path.rename, 16),
    "saved, not tagged": kill_at_call(write_index, 15),
}
"""At step 14, in the middle of the second epoch, where the run is over; each step has a checkpoint of its own."""


@pytest.fixture(scope="module")
def bounded(tmp_path_factory: pytest.TempPathFactory, make_run: Any, work: Any) -> RunDirectory:
    run: RunDirectory = make_run(
        tmp_path_factory.mktemp("bounded") / "whole", BOUNDED, code_root=str(PROJECTS), max_steps=14
    )
    assert work(run) == 0, run.log.read_text()
    return run


BOUNDED: dict[str, Any] = {
    **NOISY,
    "checkpoints": {"checkpoint_every_n_steps": 1, "save_best": False},
    "weight_averaging": {"name": "swa", "after_epochs": 1},
}


@pytest.mark.requirement("REPRO-6", "CKPT-1", "CKPT-2")
@pytest.mark.parametrize("place", variants(BOUND_KILLS, quick=["recorded, not judged"]))
def test_a_run_killed_between_its_last_steps_records_and_checkpoints_has_each_value_once(  # noqa: PLR0917 - fixtures
    place: str, tmp_path: Path, bounded: RunDirectory, make_run: Any, work: Any, recorded: Any
) -> None:
    run = make_run(tmp_path / "killed", BOUNDED, code_root=str(PROJECTS), max_steps=14)
    assert work(run, before=BOUND_KILLS[place]) == -signal.SIGKILL, run.log.read_text()
    assert work(run) == 0, run.log.read_text()
    assert run.events("resumed")[0].data["step"] == 14
    assert_same_end(run, bounded, recorded)
    assert [step for step, _ in recorded(run, "validation/loss")["validation/loss"]] == [10, 14]
    assert [entry["step"] for entry in saved_history(run)] == [10, 14]


def saved_history(run: RunDirectory) -> list[dict[str, Any]]:
    import json

    state = json.loads((max(run.checkpoints.glob("step-*")) / "state.json").read_text())
    history: list[dict[str, Any]] = state["progress"]["history"]
    return history


OWN_WAYS = {
    "a buffer outside the state_dict": """
class Shifted(Net):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4), persistent=False)
    def forward(self, x):
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(dim=0)
        return self.layers(x - 0.5 * self.mean)
def build(config, context):
    return {"model": Shifted(), "train": data(), "validation": data(20), "loss": "cross_entropy"}
""",
    "collate draws": """
def build(config, context):
    def collate(items):
        x, y = torch.stack([x for x, _ in items]), torch.tensor([int(y) for _, y in items])
        return x + 0.3 * torch.randn(len(x), 4), y
    return {"model": Net(), "train": data(), "validation": data(20), "loss": "cross_entropy", "collate": collate}
""",
    "gradients gathered over calls": """
def build(config, context):
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    def validation_step(model, batch, context):
        return {"loss": nn.functional.cross_entropy(model(batch[0]), batch[1])}
    def train_step(model, batch, context):
        loss = validation_step(model, batch, context)["loss"]
        loss.backward()
        if context.step % 3 == 2:
            optimizer.step()
            optimizer.zero_grad()
        return {"loss": loss.detach()}
    return {"model": net, "train": data(), "validation": data(20), "train_step": train_step,
            "validation_step": validation_step, "optimizers": [optimizer]}
""",
}


@pytest.mark.requirement("REPRO-6", "TRAIN-1")
@pytest.mark.parametrize("way", variants(OWN_WAYS, quick=["gradients gathered over calls"]))
def test_what_user_code_does_in_its_own_way_is_resumed(
    way: str, tmp_path: Path, mine: str, assert_halted_ends_the_same: Any
) -> None:
    (tmp_path / "mine.py").write_text(mine + OWN_WAYS[way])
    values = {
        "task": {"use": "mine.py:build"},
        "loader": {"batch_size": 8, "num_workers": 2 if way == "collate draws" else 0},
        "training": {"epochs": 3},
        "checkpoints": {"checkpoint_every_n_steps": 2},
        "logging": {"tensorboard": False},
    }
    assert_halted_ends_the_same(values, 9)


@pytest.mark.long
@pytest.mark.requirement("REPRO-6")
def test_loader_workers_change_nothing(
    tmp_path: Path, uninterrupted: RunDirectory, make_run: Any, work: Any, recorded: Any
) -> None:
    values = {**NOISY, "loader": {"batch_size": 8, "num_workers": 2}}
    run = make_run(tmp_path / "workers", values, code_root=str(PROJECTS))
    assert work(run) == 0, run.log.read_text()
    assert recorded(run, *KEYS) == recorded(uninterrupted, *KEYS)


@pytest.mark.long
@pytest.mark.requirement("CKPT-2", "REPRO-6")
def test_a_run_whose_newest_checkpoint_is_damaged_falls_back_and_ends_the_same(
    tmp_path: Path, uninterrupted: RunDirectory, make_run: Any, work: Any, recorded: Any
) -> None:
    run = make_run(tmp_path / "damaged", NOISY, code_root=str(PROJECTS))
    work(run, before=kill_at_call(Recorder.step, 35))
    newest = max(run.checkpoints.glob("step-*"))
    (newest / "optimizer.safetensors").write_bytes(b"\0" * 100)
    assert work(run) == 0, run.log.read_text()
    assert run.events("resumed")[0].data["skipped"][0]["name"] == newest.name
    assert_same_end(run, uninterrupted, recorded)


@pytest.mark.requirement("MCP-3")
def test_a_completed_run_is_refused_and_left_as_it_is(uninterrupted: RunDirectory, work: Any) -> None:
    before = (uninterrupted.path / "status.json").read_bytes()
    assert work(uninterrupted) == 2
    assert (uninterrupted.path / "status.json").read_bytes() == before


@pytest.mark.requirement("MCP-3")
def test_a_second_worker_on_the_same_run_is_refused(tmp_path: Path, make_run: Any, work: Any) -> None:
    run = make_run(tmp_path / "held", NOISY, code_root=str(PROJECTS))
    with run.lock():
        assert work(run) == 2
    assert run.status().state is RunState.CREATED
    assert "Another worker holds run held" in run.log.read_text()
