"""What goes wrong in the middle: values that are not finite, data that breaks, workers that die, clocks that jump."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest
import torch

from trainwright.trainer.base.failures import known_failure
from trainwright.trainer.checkpoints.index import list_checkpoints
from trainwright.trainer.checkpoints.store import DirectoryStore, newest_whole
from trainwright.trainer.run import RunState

TASK: dict[str, Any] = {
    "task": {"use": "mine.py:build"},
    "loader": {"batch_size": 8},
    "training": {"epochs": 4},
    "logging": {"tensorboard": False},
}
BAD_GRADIENT = """
    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x): return x.clone()
        @staticmethod
        def backward(ctx, g): return g * float("inf")
    def build(config, context):
        def step(model, batch, context):
            x = model.layers[1](model.layers[0](batch[0]))
            x = Bad.apply(x) if context.step == 6 and context.training else x
            return {"loss": nn.functional.cross_entropy(model.layers[2](x), batch[1])}
        return {"model": Net(), "train": data(), "validation": data(20), "step": step}
"""
BAD_PARAMETER = """
    def build(config, context):
        def step(model, batch, context):
            if context.step == 6 and context.training:
                with torch.no_grad(): model.layers[2].bias[0] = float("inf")
            return {"loss": nn.functional.cross_entropy(model(batch[0]), batch[1])}
        return {"model": Net(), "train": data(), "validation": data(20), "step": step}
"""


@pytest.mark.requirement("DIAG-1", "REPRO-6")
@pytest.mark.parametrize(
    ("code", "what", "parameters"),
    [
        (BAD_GRADIENT, "The gradient is not finite at step 7", ["layers.0.weight", "layers.0.bias"]),
        (BAD_PARAMETER, "The loss is not finite at step 7", ["layers.2.bias"]),
    ],
)
def test_a_step_that_is_not_finite_is_told_with_its_samples_and_parameters(
    code: str, what: str, parameters: list[str], ended_here: Any
) -> None:
    run = ended_here(code, TASK)
    status = run.status()
    assert (status.state, status.failure.category, status.step) == (RunState.FAILED, "divergence", 6)
    assert what in status.failure.message
    details = status.failure.details
    assert details["step"] == 7
    assert len(set(details["batch_indices"])) == 8
    assert set(parameters) <= set(details["parameters"])
    kept = list_checkpoints(run)
    assert [record.step for record in kept] == [5]
    loaded, _ = newest_whole(DirectoryStore(run), config_digest=run.specification().config_digest)
    assert all(bool(torch.isfinite(value).all()) for value in loaded.model.values())


@pytest.mark.requirement("DIAG-1", "CKPT-2")
def test_no_best_ever_holds_a_weight_that_is_not_finite(ended_here: Any) -> None:
    """The last step of an epoch breaks a weight that the loss does not see: validation looks better than ever."""
    code = """
    class Blind(Net):
        def __init__(self):
            super().__init__()
            self.spare = nn.Parameter(torch.ones(2))
        def forward(self, x):
            return self.layers(x) + 0 * self.spare.nan_to_num(0, 0, 0).sum()
    def build(config, context):
        def step(model, batch, context):
            if context.step == 14 and context.training:
                with torch.no_grad(): model.spare[1] = float("nan")
            return {"loss": nn.functional.cross_entropy(model(batch[0]), batch[1])}
        return {"model": Blind(), "train": data(), "validation": data(20), "step": step}
    """
    run = ended_here(code, TASK)
    failure = run.status().failure
    assert failure.category == "divergence"
    assert "spare" in failure.message
    assert failure.details["step"] == 15
    assert [record.step for record in list_checkpoints(run)] == [10]


@pytest.mark.requirement("TRAIN-10", "TRAIN-1")
@pytest.mark.parametrize("workers", [pytest.param(0, marks=pytest.mark.long), 2])
def test_data_that_raises_in_the_middle_is_told_with_the_users_own_line(workers: int, ended: Any) -> None:
    code = """
    class Broken(torch.utils.data.Dataset):
        epoch = 0
        def set_epoch(self, epoch): self.epoch = epoch
        def __len__(self): return 40
        def __getitem__(self, i):
            if self.epoch == 2 and i == 13: raise ValueError("sample 13 cannot be decoded")
            return torch.full((4,), float(i)), i % 2
    def build(config, context):
        return {"model": Net(), "train": Broken(), "validation": data(20), "loss": "cross_entropy"}
    """
    run = ended(code, {**TASK, "loader": {"batch_size": 8, "num_workers": workers}})
    status = run.status()
    assert (status.state, status.failure.category) == (RunState.FAILED, "user_code")
    assert "sample 13 cannot be decoded" in status.failure.message + status.failure.traceback
    assert "mine.py" in status.failure.traceback
    assert 10 <= status.step < 15
    assert {record.step for record in list_checkpoints(run)} >= {10}


@pytest.mark.long
@pytest.mark.requirement("TRAIN-10")
def test_a_loader_worker_that_is_killed_ends_the_run_at_once_with_what_to_do(ended: Any) -> None:
    code = """
    import os, signal
    class Dying(torch.utils.data.Dataset):
        epoch = 0
        def set_epoch(self, epoch): self.epoch = epoch
        def __len__(self): return 40
        def __getitem__(self, i):
            if self.epoch == 2 and i == 13: os.kill(os.getpid(), signal.SIGKILL)
            return torch.full((4,), float(i)), i % 2
    def build(config, context):
        return {"model": Net(), "train": Dying(), "validation": data(20), "loss": "cross_entropy"}
    """
    run = ended(code, {**TASK, "loader": {"batch_size": 8, "num_workers": 2}})
    status = run.status()
    assert status.state is RunState.FAILED
    assert "loader worker" in status.failure.message.lower()
    assert "loader.num_workers" in status.failure.remedy
    assert {record.step for record in list_checkpoints(run)} >= {10}


@pytest.mark.requirement("TRAIN-10")
def test_a_batch_of_a_loader_worker_that_has_died_since_is_told_as_its_death() -> None:
    fork = torch.multiprocessing.get_context("fork")
    batches = fork.Queue()

    def work() -> None:
        batches.put(torch.ones(4))
        batches.close()
        batches.join_thread()
        os.kill(os.getpid(), signal.SIGKILL)

    process = fork.Process(target=work)
    process.start()
    process.join()
    with pytest.raises(OSError, match=r"refused|reset|No such file") as gone:
        batches.get(timeout=5)
    told = known_failure(gone.value)
    assert told is not None
    assert "A loader worker died" in str(told)
    assert known_failure(ConnectionResetError("reset by peer")) is None, "of another connection"


@pytest.mark.long
@pytest.mark.requirement("TRAIN-10", "REPRO-6")
def test_a_clock_that_goes_back_changes_neither_the_run_nor_its_life(
    tmp_path: Any, digits: Any, make_run: Any, work: Any, recorded: Any
) -> None:
    values = {**digits, "logging": {"tensorboard": False}}
    plain, back = make_run(tmp_path / "plain", values), make_run(tmp_path / "back", values)
    assert work(plain) == 0

    def set_back_after_a_while() -> None:
        real, calls = time.time, iter(range(10**9))
        time.time = lambda: real() - (86_400.0 if next(calls) > 30 else 0.0)

    assert work(back, before=set_back_after_a_while) == 0, back.log.read_text()
    assert back.status().state is RunState.COMPLETED
    assert recorded(back, "train/loss", "validation/loss") == recorded(plain, "train/loss", "validation/loss")
    assert back.evidence("summary")["weights_digest"] == plain.evidence("summary")["weights_digest"]
    assert back.evidence("summary")["train_seconds"] >= 0


CANNOT_WORK = {
    "a stream that ends before its length": (
        """
    class Short(torch.utils.data.IterableDataset):
        def __len__(self): return 40
        def __iter__(self): return iter(list(data())[:20])
    def build(config, context):
        return {"model": Net(), "train": Short(), "validation": data(20), "loss": "cross_entropy"}
    """,
        "data",
        "ends after 20 samples; its `__len__` says 40",
        "__len__",
    ),
    "optimizers over a network outside the model": (
        """
    def build(config, context):
        net, other = Net(), Net()
        optimizer = torch.optim.SGD([*net.parameters(), *other.parameters()], lr=0.1)
        def train_step(model, batch, context):
            return {"loss": 0.0}
        def validation_step(model, batch, context):
            return {"loss": nn.functional.cross_entropy(model(batch[0]), batch[1])}
        return {"model": net, "train": data(), "validation": data(20), "train_step": train_step,
                "validation_step": validation_step, "optimizers": [optimizer]}
    """,
        "configuration",
        "4 parameters that are not in `model`",
        "ModuleDict",
    ),
    "sparse gradients": (
        """
    class Sparse(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.out = nn.Embedding(9, 4, sparse=True), nn.Linear(4, 2)
        def forward(self, x): return self.out(self.words(x.long().clamp(0, 8)).mean(dim=1))
    def build(config, context):
        return {"model": Sparse(), "train": data(), "validation": data(20), "loss": "cross_entropy"}
    """,
        "configuration",
        "words.weight is sparse",
        "sparse=False",
    ),
    "batch norm and a last batch of one": (
        """
    def build(config, context):
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
        return {"model": model, "train": data(41), "validation": data(20), "loss": "cross_entropy"}
    """,
        "configuration",
        "one sample",
        "loader.drop_last",
    ),
}


@pytest.mark.requirement("TRAIN-1", "TRAIN-10")
@pytest.mark.parametrize("fault", CANNOT_WORK)
def test_what_cannot_work_is_told_with_what_to_do(fault: str, ended_here: Any) -> None:
    code, category, what, remedy = CANNOT_WORK[fault]
    failure = ended_here(code, TASK).status().failure
    assert failure is not None
    assert failure.category == category
    assert what in failure.message
    assert remedy in failure.remedy


@pytest.mark.requirement("TRAIN-5", "REPRO-6")
def test_a_schedule_that_user_code_keeps_in_its_state_drives_the_users_own_optimizer(ended_here: Any) -> None:
    code = """
    def build(config, context):
        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        context.state["schedule"] = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
        def train_step(model, batch, context):
            loss = validation_step(model, batch, context)["loss"]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            context.state["schedule"].step()
            return {"loss": loss.detach(), "rate_now": optimizer.param_groups[0]["lr"]}
        def validation_step(model, batch, context):
            return {"loss": nn.functional.cross_entropy(model(batch[0]), batch[1])}
        return {"model": net, "train": data(), "validation": data(20), "train_step": train_step,
                "validation_step": validation_step, "optimizers": [optimizer]}
    """
    run = ended_here(code, TASK)
    assert run.status().state is RunState.COMPLETED, run.log.read_text()
    rates = [point.value for point in run.metrics().series("train/rate_now")]
    assert rates[:4] == [0.05, 0.025, 0.0125, 0.00625]


def test_a_model_that_asks_for_a_login_behind_a_wall_is_named_with_the_setting(monkeypatch):
    error = OSError("You are trying to access a gated repo.\nMake sure to have access to it.")
    assert known_failure(error) is None
    monkeypatch.setenv("HF_TOKEN_PATH", os.devnull)
    found = known_failure(error)
    assert found is not None
    assert "walls: {reads: [~/.cache/huggingface/token]}" in found.remedy
