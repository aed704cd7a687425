"""DeepSpeed: its configuration held to ours everywhere, its engine (ZeRO stages 1 and 2) where it is installed."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import parse_config
from trainwright.trainer.config.distributed import deepspeed_configuration
from trainwright.trainer.run import RunDirectory, RunState

pytestmark = pytest.mark.slow

PROJECTS = Path(__file__).parent.parent / "projects"
STEPS = ("train/loss", "train/gradient_norm", "train/learning_rate")
KEYS = (*STEPS, "validation/loss", "validation/accuracy", "train/accuracy")
FILES = ("model.safetensors", "optimizer.safetensors")
ALL_AUTO = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "bf16": {"enabled": "auto"},
    "fp16": {"enabled": "auto", "loss_scale": 0, "initial_scale_power": 16},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
    "zero_optimization": {
        "stage": 2, "overlap_comm": False, "reduce_bucket_size": "auto", "allgather_bucket_size": 2e8,
        "offload_optimizer": {"device": "none"}, "stage3_prefetch_bucket_size": "auto", "sub_group_size": 1e9,
    },
    "steps_per_print": 2000,
    "wall_clock_breakdown": False,
    "flops_profiler": {"enabled": False},
}  # fmt: skip


def deepspeed(**given: Any) -> dict[str, Any]:
    return {"processes": 2, "strategy": "deepspeed", "restarts": 1, "deepspeed": given}


@pytest.fixture(scope="module")
def engine() -> None:
    """Skip without DeepSpeed; else import it once for all forks."""
    if importlib.util.find_spec("deepspeed") is None:
        pytest.skip("the package deepspeed is not installed")
    from trainwright.trainer.strategies.group import load_deepspeed

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        load_deepspeed("cpu")


@pytest.fixture(scope="module")
def accumulated(iris: Any) -> dict[str, Any]:
    """Two micro-batches for each update, of which the last has one row: too few for two processes."""
    return {**iris, "training": {"epochs": 3, "clip_norm": 0.5, "accumulation_steps": 2}}


@pytest.mark.requirement("TRAIN-6", "CONF-1")
def test_auto_is_filled_in_from_the_configuration(iris: Any) -> None:
    training = {"accumulation_steps": 3, "clip_norm": 0.5, "precision": "bf16"}
    config = parse_config({**iris, "training": training, "distributed": deepspeed(**ALL_AUTO)})
    filled = deepspeed_configuration(config, parameters=1000)
    assert filled == {
        "train_batch_size": 24,
        "train_micro_batch_size_per_gpu": 4,
        "gradient_accumulation_steps": 3,
        "gradient_clipping": 0.5,
        "gradient_allreduce_op": "sum",
        "zero_allow_untested_optimizer": True,
        "steps_per_print": 2000,
        "wall_clock_breakdown": False,
        "zero_optimization": {
            "stage": 2, "overlap_comm": False, "reduce_bucket_size": 1000, "allgather_bucket_size": 2e8,
        },
    }  # fmt: skip


@pytest.mark.requirement("TRAIN-6", "CONF-1")
def test_values_that_say_the_same_are_accepted(iris: Any) -> None:
    given = {
        **ALL_AUTO, "train_batch_size": 8, "train_micro_batch_size_per_gpu": 4, "gradient_clipping": 1,
        "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "betas": [0.9, 0.999], "torch_adam": True}},
    }  # fmt: skip
    config = parse_config({**iris, "training": {"clip_norm": 1.0}, "distributed": deepspeed(**given)})
    assert deepspeed_configuration(config, parameters=10)["train_batch_size"] == 8


@pytest.mark.requirement("TRAIN-6", "CONF-1")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"train_batch_size": 64}, r"train_batch_size 64 contradicts loader.batch_size \* .* \(8\): set it to auto"),
        ({"train_micro_batch_size_per_gpu": 8}, r"loader.batch_size / distributed.processes \(4\)"),
        ({"gradient_accumulation_steps": 4}, r"steps 4 contradicts training.accumulation_steps \(1\)"),
        ({"gradient_clipping": 2.0}, r"clipping 2.0 contradicts training.clip_norm \(0.0\)"),
        ({"gradient_allreduce_op": "mean"}, r"'mean' contradicts losses"),
        ({"bf16": {"enabled": True}}, "set training.precision bf16, and bf16.enabled auto"),
        ({"fp16": {"enabled": True}}, "set training.precision bf16, and fp16.enabled auto"),
        ({"gradient_clipping": {"norm": 1.0}}, "contradicts training.clip_norm"),
        ({"optimizer": {"type": "Lion", "params": {}}}, r"type lion contradicts optimizer.name \(adamw\)"),
        ({"optimizer": ["AdamW"]}, "contradicts optimizer.name"),
        ({"optimizer": {"type": "Adam", "params": {"adam_w_mode": False}}}, "type adam contradicts optimizer.name"),
        ({"optimizer": {"type": "AdamW", "params": {"lr": 0.1}}}, r"lr 0.1 contradicts optimizer.learning_rate"),
        ({"optimizer": {"type": "AdamW", "params": {"bias_correction": True}}}, "optimizer.params.bias_correction"),
        ({"scheduler": {"type": "WarmupDecayLR", "params": {}}}, "set schedule.name linear"),
        ({"activation_checkpointing": {"partition_activations": True}}, "set training.gradient_checkpointing"),
        ({"flops_profiler": {"enabled": True}}, "start a run of kind probe"),
        ({"compression_training": {"weight_quantization": {}}}, "take it out"),
        ({"zero_optimization": {"stage": 0}}, "set distributed.strategy ddp"),
        ({"zero_optimization": {"stage": 3}}, "set distributed.strategy fsdp2"),
        ({"zero_optimization": {"stage": "2"}}, "stage must be 1 or 2"),
        ({"zero_optimization": {"overlap_comm": True}}, "stage must be 1 or 2"),
        ({"zero_optimization": {"stage": 1, "reduce_bucket_size": "5e8"}}, "is no number of entries: set it to auto"),
        ({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "nvme"}}}, "stores offloaded state"),
        ({"zero_optimization": {"stage": 2, "cpu_offload": True}}, "stores offloaded state"),
        ({"zero_optimization": {"stage": 2, "zero_quantized_gradients": True}}, "quantized_gradients True"),
    ],
)
def test_a_key_that_contradicts_ours_or_breaks_a_promise_is_refused(given: Any, said: str, iris: Any) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        parse_config({**iris, "distributed": deepspeed(**{"zero_optimization": {"stage": 2}, **given})})
    assert f"deepspeed.{next(iter(given))}" in caught.value.message
    assert "configure(" in caught.value.remedy


@pytest.mark.requirement("TRAIN-6", "CONF-1")
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"distributed": {"processes": 2, "strategy": "deepspeed"}}, "needs distributed.deepspeed, for example"),
        ({"distributed": {"deepspeed": {}}}, "only with distributed.strategy deepspeed"),
        ({"distributed": {"strategy": "deepspeed", "deepspeed": "ds_config.json"}}, "the content of the file"),
        ({"loader": {"batch_size": 9}}, "set loader.batch_size 8"),
        ({"training": {"clip_value": 1.0}}, "set training.clip_norm"),
        ({"training": {"precision": "fp16"}}, "set training.precision bf16"),
        ({"training": {"channels_last": True}}, "set training.channels_last false"),
        ({"optimizer": {"name": "muon"}}, "set optimizer.name adamw, sgd, adam, lion"),
        ({"freezing": {"patterns": ["a"], "unfreeze": [{"after_epochs": 1, "patterns": ["a"]}]}}, "strategy ddp"),
    ],
)
def test_what_the_engine_cannot_do_is_refused(changes: dict[str, Any], said: str, iris: Any) -> None:
    with pytest.raises(ConfigurationError, match=said):
        parse_config({**iris, "distributed": deepspeed(zero_optimization={"stage": 1}), **changes})


def hide_deepspeed() -> None:
    sys.modules["deepspeed"] = None  # type: ignore[assignment]  # what Python takes for a package that is not there


@pytest.mark.requirement("TRAIN-6")
def test_without_the_package_the_run_fails_at_its_start_and_says_what_to_install(
    tmp_path: Path, iris: Any, make_run: Any, group_work: Any
) -> None:
    run = make_run(tmp_path / "run", {**iris, "distributed": deepspeed(**ALL_AUTO)})
    assert group_work(run, before=hide_deepspeed) == 1
    failure = run.status().failure
    assert (run.status().state, failure.category) == (RunState.FAILED, "configuration")
    assert "needs the package deepspeed" in failure.message
    assert "pip install 'trainwright[deepspeed]'" in failure.remedy
    assert run.evidence("data") is None  # before the user's code


@pytest.mark.long
@pytest.mark.requirement("TRAIN-6")
def test_other_strategies_do_without_the_package(tmp_path: Path, iris: Any, make_run: Any, group_work: Any) -> None:
    run = make_run(tmp_path / "run", {**iris, "training": {"epochs": 1}})
    assert group_work(run, before=hide_deepspeed) == 0, run.log.read_text()
    assert "deepspeed" not in run.evidence("resolved")


def last(run: RunDirectory, file: str) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = load_file(max(run.checkpoints.glob("step-*")) / file)
    return tensors


@pytest.mark.requirement("TRAIN-6")
@pytest.mark.parametrize("stage", [1, 2])
def test_two_processes_under_zero_make_the_updates_of_one(  # noqa: PLR0917 - fixtures
    stage: int, tmp_path: Path, accumulated: Any, make_run: Any, group_work: Any, recorded: Any, engine: None
) -> None:
    groups = [{"patterns": ["*.bias"], "learning_rate_factor": 0.5}]  # two partitions in each process
    values = {**accumulated, "optimizer": {"name": "adamw", "groups": groups}}
    two = make_run(tmp_path / "two", {**values, "distributed": deepspeed(zero_optimization={"stage": stage})})
    one = make_run(tmp_path / "one", {**values, "distributed": {}})
    for run in (two, one):
        assert group_work(run) == 0, run.log.read_text()
    for name, value in last(one, "model.safetensors").items():
        torch.testing.assert_close(last(two, "model.safetensors")[name], value, rtol=1e-3, atol=1e-5)
    for key in STEPS:
        ours, theirs = ([float(value) for _, value in recorded(run, key)[key]] for run in (two, one))
        assert ours == pytest.approx(theirs, rel=1e-4)
    assert two.evidence("summary")["final"]["accuracy"] == one.evidence("summary")["final"]["accuracy"]
    assert two.evidence("resolved")["deepspeed"]["zero_optimization"]["stage"] == stage
    moments = [name for name in last(two, "optimizer.safetensors") if name.endswith("exp_avg")]
    sizes = [last(two, "optimizer.safetensors")[name].numel() for name in moments if name.startswith("ranks/")]
    assert sum(sizes) == pytest.approx(one.evidence("resolved")["parameters"], abs=8)  # each entry once, and padding


@pytest.mark.requirement("TRAIN-6")
def test_what_deepspeed_itself_refuses_is_told_as_a_configuration(
    tmp_path: Path, iris: Any, make_run: Any, group_work: Any, engine: None
) -> None:
    zero = {"stage": 2, "allgather_bucket_size": -4}
    run = make_run(tmp_path / "run", {**iris, "distributed": deepspeed(zero_optimization=zero)})
    assert group_work(run) == 1
    failure = run.status().failure
    assert (failure.category, "allgather_bucket_size" in failure.message) == ("configuration", True), failure


@pytest.fixture(scope="module")
def hard(noisy: Any) -> dict[str, Any]:
    """Dropout, batch normalisation, augmentation, carried state, and averages of the weights, in bf16."""
    training = {**noisy["training"], "precision": "bf16"}
    zero = deepspeed(zero_optimization={"stage": 2, "overlap_comm": True, "round_robin_gradients": True})
    return {**noisy, "training": training, "weight_averaging": {"name": "ema", "decay": 0.9}, "distributed": zero}


@pytest.mark.requirement("TRAIN-6", "REPRO-6")
@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_process_restarts_the_group_which_ends_with_the_same_bits(  # noqa: PLR0917 - fixtures
    rank: int, tmp_path: Path, hard: Any, make_run: Any, group_work: Any, at_step: Any, recorded: Any, engine: None
) -> None:
    whole, run = (make_run(tmp_path / name, hard, code_root=str(PROJECTS)) for name in ("whole", "killed"))
    assert group_work(whole) == 0, whole.log.read_text()
    kill = at_step(14, lambda: os.kill(os.getpid(), signal.SIGKILL), rank, tmp_path / "done")
    assert group_work(run, before=kill) == 0, run.log.read_text()
    assert len(run.events("restarted")) == 1
    assert 0 < run.events("resumed")[0].data["step"] < 14
    assert recorded(run, *KEYS) == recorded(whole, *KEYS)
    for folder in whole.checkpoints.glob("step-*"):
        for file in FILES:
            assert (run.checkpoints / folder.name / file).read_bytes() == (folder / file).read_bytes()
        assert sorted(path.suffix for path in folder.iterdir() if path.suffix not in {".safetensors", ".json"}) == []
    assert not {path.name for path in run.path.iterdir()} - {path.name for path in whole.path.iterdir()} - {"ranks"}


@pytest.mark.requirement("TRAIN-6")
@pytest.mark.parametrize("stage", [1, 2])
def test_processes_may_use_different_parameters(
    stage: int, tmp_path: Path, make_run: Any, group_work: Any, engine: None
) -> None:
    (tmp_path / "branches.py").write_text(BRANCHES)
    values = {
        "task": {"use": "branches.py:build"},
        "optimizer": {"name": "sgd", "momentum": 0.0, "weight_decay": 0.0, "learning_rate": 0.1},
        "training": {"epochs": 1, "accumulation_steps": 2},
        "logging": {"tensorboard": False},
    }
    group = {**deepspeed(zero_optimization={"stage": stage})}
    two = {**values, "loader": {"batch_size": 8}, "training": {"epochs": 1}, "distributed": group}
    runs = [
        make_run(tmp_path / name, given, code_root=str(tmp_path))
        for name, given in (("one", {**values, "loader": {"batch_size": 4}}), ("two", two))
    ]
    for run in runs:
        assert group_work(run) == 0, run.log.read_text()
    theirs, ours = (last(run, "model.safetensors") for run in runs)
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=1e-5, atol=1e-7)
    assert not torch.equal(ours["low.weight"], ours["high.weight"])


@pytest.mark.requirement("TRAIN-6", "TRAIN-2")
def test_a_gradient_that_is_not_finite_ends_the_run_at_its_step(
    tmp_path: Path, make_run: Any, group_work: Any, engine: None
) -> None:
    (tmp_path / "spoilt.py").write_text(SPOILT)
    values = {
        "task": {"use": "spoilt.py:build"},
        "loader": {"batch_size": 4},
        "training": {"epochs": 2},
        "checkpoints": {"checkpoint_every_n_steps": 1},
        "logging": {"tensorboard": False},
        "distributed": deepspeed(zero_optimization={"stage": 2}),
    }
    run = make_run(tmp_path / "run", values, code_root=str(tmp_path))
    assert group_work(run) == 1
    failure = run.status().failure
    assert failure.category == "divergence", run.log.read_text()
    assert failure.details["step"] == 4
    assert "second.weight" in failure.details["parameters"]
    manifests = [json.loads(path.read_text()) for path in run.checkpoints.glob("step-*/manifest.json")]
    assert max(manifest["step"] for manifest in manifests) == 3
    assert all(bool(torch.isfinite(value).all()) for value in last(run, "model.safetensors").values())


BRANCHES = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.low, self.high, self.last = nn.Linear(4, 8), nn.Linear(4, 8), nn.Linear(8, 2)
    def forward(self, x):
        return self.last((self.high if x[0, 0] > 0 else self.low)(x))
def build(config, context):
    x = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
    x[:, 0] = torch.arange(32) // 4 % 2 - 0.5
    y = (x[:, 1] > 0).long()
    data = torch.utils.data.TensorDataset(x, y)
    return {"model": Net(), "train": data, "validation": data, "shuffle": False, "loss": "cross_entropy"}
"""
"""Rows whose first value is positive take one way through the model, the others another of the same size."""
SPOILT = """
import torch
from torch import nn
class Spoil(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bad):
        ctx.bad = bad
        return x.clone()
    @staticmethod
    def backward(ctx, gradient):
        return gradient * (float("inf") if ctx.bad else 1.0), None
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 2)
    def forward(self, x):
        bad = bool((x[:, 0] > 90).any())
        return self.third(Spoil.apply(self.second(self.first(x)), bad))
def build(config, context):
    x = torch.randn(16, 4, generator=torch.Generator().manual_seed(0))
    y = (x[:, 1] > 0).long()
    x[15, 0] = 99.0
    data = torch.utils.data.TensorDataset(x, y)
    return {"model": Net(), "train": data, "validation": data, "shuffle": False}
"""
"""The gradient of the fourth step is not finite, in the second process alone; the loss is."""
