"""Two processes train what one would: to the bit where the order of sums is the same, and repeatably always."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from trainwright.trainer.run import RunDirectory, RunKind, RunState

PROJECTS = Path(__file__).parent.parent / "projects"
STEPS = ("train/loss", "train/gradient_norm", "train/learning_rate")
KEYS = (*STEPS, "train/epoch_loss", "train/accuracy", "validation/loss", "validation/accuracy", "epoch")
ENDS = ("weights_digest", "best", "final", "stop_reason", "epochs", "steps", "early_stopping")


def last_weights(run: RunDirectory) -> dict[str, torch.Tensor]:
    weights: dict[str, torch.Tensor] = load_file(max(run.checkpoints.glob("step-*")) / "model.safetensors")
    return weights


def assert_same_end(run: RunDirectory, whole: RunDirectory, recorded: Any) -> None:
    assert recorded(run, *KEYS) == recorded(whole, *KEYS)
    ours, theirs = run.evidence("summary"), whole.evidence("summary")
    assert ours is not None
    assert theirs is not None
    assert {key: ours[key] for key in ENDS} == {key: theirs[key] for key in ENDS}
    names = sorted(path.name for path in whole.checkpoints.glob("step-*"))
    assert sorted(path.name for path in run.checkpoints.glob("step-*")) == names
    for name in names:  # every process's generators, carried state and gathered outputs among them
        for file in ("model.safetensors", "optimizer.safetensors"):
            assert (run.checkpoints / name / file).read_bytes() == (whole.checkpoints / name / file).read_bytes()


@pytest.fixture(scope="module")
def noisy_whole(tmp_path_factory: Any, noisy: Any, make_run: Any, group_work: Any) -> RunDirectory:
    run: RunDirectory = make_run(tmp_path_factory.mktemp("whole") / "whole", noisy, code_root=str(PROJECTS))
    assert group_work(run) == 0, run.log.read_text()
    return run


@pytest.mark.requirement("TRAIN-6")
def test_the_summed_gradients_of_two_processes_are_those_that_one_process_accumulates_bit_for_bit(
    tmp_path: Path, iris: Any, make_run: Any, group_work: Any, recorded: Any
) -> None:
    """The last batch of each epoch has one row: the second process takes part in it without one."""
    two = make_run(tmp_path / "two", {**iris, "training": {"epochs": 3, "clip_norm": 0.5}})
    training = {"epochs": 3, "clip_norm": 0.5, "accumulation_steps": 2}
    one = make_run(tmp_path / "one", {**iris, "loader": {"batch_size": 4}, "training": training, "distributed": {}})
    for run in (two, one):
        assert group_work(run) == 0, run.log.read_text()
    assert recorded(two, *STEPS, "train/accuracy", "validation/accuracy") == recorded(
        one, *STEPS, "train/accuracy", "validation/accuracy"
    )
    assert two.evidence("summary")["weights_digest"] == one.evidence("summary")["weights_digest"]
    worlds = [run.evidence("environment")["fingerprint_basis"]["world_size"] for run in (two, one)]
    assert worlds == [2, 1]
    ours, theirs = (run.evidence("summary")["final"]["loss"] for run in (two, one))
    assert ours == pytest.approx(theirs, rel=1e-6)  # the last validation batch is divided otherwise


@pytest.mark.long
@pytest.mark.requirement("TRAIN-6", "REPRO-6")
@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.long), 1])
def test_a_killed_process_restarts_the_group_which_ends_with_the_same_bits(  # noqa: PLR0917 - fixtures
    rank: int, tmp_path: Path, noisy: Any, noisy_whole: RunDirectory, make_run: Any, group_work: Any, at_step: Any,
    recorded: Any,
) -> None:  # fmt: skip
    run = make_run(tmp_path / "killed", noisy, code_root=str(PROJECTS))
    kill = at_step(14, lambda: os.kill(os.getpid(), signal.SIGKILL), rank, tmp_path / "done")
    assert group_work(run, before=kill) == 0, run.log.read_text()
    (event,) = run.events("restarted")
    assert (event.data["lost"][str(rank)], event.data["attempt"], run.status().attempt) == (-signal.SIGKILL, 2, 2)
    assert run.events("resumed")[0].data["step"] < 14
    assert_same_end(run, noisy_whole, recorded)


@pytest.mark.long
@pytest.mark.requirement("TRAIN-6", "REPRO-6")
def test_averages_of_the_weights_are_resumed_beside_buffers_that_each_process_has_of_its_own(  # noqa: PLR0917 - fixtures
    tmp_path: Path, noisy: Any, make_run: Any, group_work: Any, at_step: Any, recorded: Any
) -> None:
    values = {**noisy, "weight_averaging": {"name": "ema", "decay": 0.9}}
    whole, run = (make_run(tmp_path / name, values, code_root=str(PROJECTS)) for name in ("whole", "killed"))
    assert group_work(whole) == 0, whole.log.read_text()
    kill = at_step(14, lambda: os.kill(os.getpid(), signal.SIGKILL), 1, tmp_path / "done")
    assert group_work(run, before=kill) == 0, run.log.read_text()
    assert 0 < run.events("resumed")[0].data["step"] < 14
    assert_same_end(run, whole, recorded)


@pytest.mark.long
@pytest.mark.requirement("TRAIN-6", "REPRO-6")
def test_a_request_to_stop_is_agreed_at_a_step_and_the_run_goes_on_from_it(  # noqa: PLR0917 - fixtures
    tmp_path: Path, noisy: Any, noisy_whole: RunDirectory, make_run: Any, group_work: Any, at_step: Any, recorded: Any
) -> None:
    run = make_run(tmp_path / "stopped", noisy, code_root=str(PROJECTS))
    ask = at_step(13, lambda: os.kill(os.getpid(), signal.SIGTERM), 1, tmp_path / "done")  # only one process hears it
    assert group_work(run, before=ask) == 0, run.log.read_text()
    status = run.status()
    assert (status.state, status.stop_reason) == (RunState.STOPPED, "requested")
    assert status.step == 14  # agreed with the next step
    assert group_work(run) == 0, run.log.read_text()
    assert run.events("resumed")[0].data["step"] == 14
    assert_same_end(run, noisy_whole, recorded)


@pytest.mark.long
@pytest.mark.requirement("TRAIN-6")
def test_synchronized_batch_normalisation_measures_whole_batches_as_one_process_does(
    tmp_path: Path, iris: Any, make_run: Any, group_work: Any
) -> None:
    model = {"use": "mlp", "args": {"hidden": [16, 12], "norm": "batch"}}
    # Plain descent: under Adam a bias before a normalisation, whose gradient is zero but for rounding, goes anywhere.
    few = {"loader": {"batch_size": 11}, "training": {"epochs": 1}}
    values = {**iris, **few, "model": model, "optimizer": {"name": "sgd", "learning_rate": 0.1}}
    group = {"processes": 2, "batch_norm": "synchronized"}
    two = make_run(tmp_path / "two", {**values, "distributed": group})
    one = make_run(tmp_path / "one", {**values, "distributed": {}})
    first = make_run(tmp_path / "first", values)
    for run in (two, one, first):
        assert group_work(run) == 0, run.log.read_text()
    ours, theirs = last_weights(two), last_weights(one)
    for name, value in ours.items():
        torch.testing.assert_close(value, theirs[name], rtol=1e-3, atol=1e-5)
    assert any("running_var" in name for name in ours)
    synchronized, alone, apart = (run.metrics().series("train/loss")[3].value for run in (two, one, first))
    assert synchronized == pytest.approx(alone, rel=1e-5)
    assert apart != pytest.approx(alone, rel=1e-4), "by the rows of each process it is another network"


@pytest.mark.long
@pytest.mark.requirement("TRAIN-6", "REPRO-5")
def test_a_replay_of_a_groups_run_is_made_by_such_a_group_and_finds_the_same_weights(
    tmp_path: Path, iris: Any, noisy_whole: RunDirectory, make_run: Any, group_work: Any
) -> None:
    order = {"kind": RunKind.REPLAY, "source_run": str(noisy_whole.path), "code_root": str(PROJECTS)}
    replay = make_run(tmp_path / "replay", {**iris, "distributed": {}}, **order)  # what counts is the source's order
    assert group_work(replay) == 0, replay.log.read_text()
    compared = replay.evidence("comparison")
    assert (compared["identical"], compared["metrics_identical"]) == (True, True)
    assert replay.evidence("environment")["fingerprint_basis"]["world_size"] == 2
