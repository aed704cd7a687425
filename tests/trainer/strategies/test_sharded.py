"""FSDP2: the parameters divided among the processes, the run the same."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.releases import needs

from trainwright.trainer.base import releases
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import parse_config
from trainwright.trainer.run import RunDirectory

pytestmark = needs(releases.FSDP2)

FSDP2: dict[str, Any] = {"processes": 2, "strategy": "fsdp2", "restarts": 1}
KEYS = ("train/loss", "train/gradient_norm", "validation/loss", "validation/accuracy", "train/accuracy")


@pytest.fixture(scope="module")
def sharded(iris: Any) -> dict[str, Any]:
    training = {"epochs": 3, "clip_norm": 0.5, "accumulation_steps": 2}
    return {**iris, "training": training, "distributed": FSDP2}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: Any, sharded: Any, make_run: Any, group_work: Any) -> RunDirectory:

    run: RunDirectory = make_run(tmp_path_factory.mktemp("sharded") / "whole", sharded)
    assert group_work(run) == 0, run.log.read_text()
    return run


def checkpoint(run: RunDirectory, file: str) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = load_file(max(run.checkpoints.glob("step-*")) / file)
    return tensors


@pytest.mark.requirement("TRAIN-6", "CKPT-1")
def test_a_model_in_parts_trains_as_a_whole_one_and_is_saved_whole(
    tmp_path: Path, sharded: Any, whole: RunDirectory, make_run: Any, group_work: Any
) -> None:
    one = make_run(tmp_path / "one", {**sharded, "distributed": {}})
    assert group_work(one) == 0, one.log.read_text()
    for file in ("model.safetensors", "optimizer.safetensors"):
        ours, theirs = checkpoint(whole, file), checkpoint(one, file)
        for name, value in theirs.items():
            if not name.startswith("generators"):
                torch.testing.assert_close(ours[name], value, rtol=1e-3, atol=1e-5)
    assert whole.evidence("summary")["final"]["accuracy"] == one.evidence("summary")["final"]["accuracy"]
    assert whole.evidence("resolved")["parameters"] == one.evidence("resolved")["parameters"]


@pytest.mark.requirement("TRAIN-6", "REPRO-6")
def test_a_killed_process_of_a_divided_model_restarts_the_group_which_ends_with_the_same_bits(  # noqa: PLR0917 - fixtures
    tmp_path: Path, sharded: Any, whole: RunDirectory, make_run: Any, group_work: Any, at_step: Any, recorded: Any
) -> None:
    run = make_run(tmp_path / "killed", sharded)
    kill = at_step(11, lambda: os.kill(os.getpid(), signal.SIGKILL), 1, tmp_path / "done")
    assert group_work(run, before=kill) == 0, run.log.read_text()
    assert len(run.events("restarted")) == 1
    assert run.events("resumed")[0].data["step"] == 7
    assert recorded(run, *KEYS) == recorded(whole, *KEYS)
    names = sorted(path.name for path in whole.checkpoints.glob("step-*"))
    for name in names:
        for file in ("model.safetensors", "optimizer.safetensors"):
            assert (run.checkpoints / name / file).read_bytes() == (whole.checkpoints / name / file).read_bytes()


@pytest.mark.requirement("TRAIN-6", "CONF-1")
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"optimizer": {"name": "muon"}}, "set optimizer.name adamw, sgd, adam, lion"),
        ({"weight_averaging": {"name": "ema"}}, "take it out"),
        ({"training": {"precision": "fp16"}}, "set training.precision bf16"),
        ({"training": {"channels_last": True}}, "set training.channels_last false"),
        ({"training": {"compile": {}}}, "set it to null"),
        ({"freezing": {"patterns": ["a"], "unfreeze": [{"after_epochs": 1, "patterns": ["a"]}]}}, "strategy ddp"),
    ],
)
def test_what_needs_whole_tensors_is_refused(changes: dict[str, Any], said: str, iris: Any) -> None:
    with pytest.raises(ConfigurationError, match=said):
        parse_config({**iris, "distributed": FSDP2, **changes})
