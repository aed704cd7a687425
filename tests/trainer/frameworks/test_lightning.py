"""A LightningModule runs as it is, by the page that explains it: killed anywhere it ends with the same bits."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from trainwright.tools.documents import SKILL
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.frameworks.lightning import settings
from trainwright.trainer.run import RunDirectory, RunState

pytestmark = [pytest.mark.requirement("TRAIN-7"), pytest.mark.slow, pytest.mark.forks]

VALUES: dict[str, Any] = {
    "trainer": {"use": "lit.py:make_trainer", "args": {"learning_rate": 0.01}},
    "selection": {"metric": "accuracy", "direction": "maximize"},
    "checkpoints": {"checkpoint_every_n_steps": 2},
    "logging": {"every_n_steps": 2, "tensorboard": False},
}


@pytest.fixture(scope="module")
def script() -> str:
    """The page's example."""
    page = (SKILL / "configs" / "own_lightning.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    return str(code)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, script: str) -> Path:
    import lightning.pytorch  # once, and not again in every fork

    assert lightning.pytorch
    folder = tmp_path_factory.mktemp("own_lightning")
    (folder / "lit.py").write_text(script)
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, root: Path, make_run: Any, work: Any) -> RunDirectory:
    run: RunDirectory = make_run(tmp_path_factory.mktemp("whole") / "whole", VALUES, code_root=str(root))
    assert work(run) == 0, run.log.read_text()
    return run


@pytest.mark.long
def test_its_steps_are_the_runs_records(whole: RunDirectory) -> None:
    summary, data = whole.evidence("summary"), whole.evidence("data")
    assert summary is not None
    assert data is not None
    assert (summary["stop_reason"], summary["steps"], summary["epochs"]) == ("completed", 12, 2)
    assert whole.metrics().count("train/loss") == 12
    assert {"loss", "accuracy"} <= summary["best"]["metrics"].keys()
    sizes = {name: split["size"] for name, split in data["splits"].items()}
    assert sizes == {"train": 192, "validation": 64, "test": 64}
    notes = " ".join(event.data["text"] for event in whole.events() if event.kind == "note")
    assert "ModelCheckpoint is left out" in notes


@pytest.mark.parametrize(
    ("instead", "by", "category", "told"),
    [
        ("        return loss\n", '        return loss * float("nan")\n', "divergence", "loss"),
        ('devices=1,', 'devices=1, overfit_batches=2,', "configuration", "its overfit_batches replaces the loaders"),
        ("torch.optim.AdamW", "torch.optim.LBFGS", "configuration", "LBFGS measures the loss many times"),
    ],
)  # fmt: skip
def test_what_no_run_can_give_ends_it_with_its_reason(  # noqa: PLR0917 - fixtures
    instead: str, by: str, category: str, told: str, tmp_path: Path, script: str, root: Path, make_run: Any, work: Any
) -> None:
    assert root
    assert instead in script
    (tmp_path / "lit.py").write_text(script.replace(instead, by, 1))
    run = make_run(tmp_path / "run", VALUES, code_root=str(tmp_path))
    assert work(run) != 0
    failure = run.status().failure
    assert failure is not None
    assert (run.status().state, failure.category) == (RunState.FAILED, category)
    assert told in failure.message
    assert failure.remedy


def test_a_training_step_may_be_a_partial_function() -> None:
    trainer = SimpleNamespace(optimizers=[torch.optim.SGD([torch.ones(1)])])
    settings.require_steps(trainer, SimpleNamespace(training_step=partial(_step, 2.0)))
    with pytest.raises(ConfigurationError, match="dataloader_iter"):
        settings.require_steps(trainer, SimpleNamespace(training_step=lambda dataloader_iter: dataloader_iter))


def _step(scale: float, batch: Any, _index: int) -> Any:
    return scale * batch


def test_a_bound_inside_an_epoch_leaves_early_stopping_its_validated_loss(
    tmp_path: Path, script: str, root: Path, make_run: Any, work: Any
) -> None:
    assert root
    watched = script.replace('EarlyStopping("train_loss_epoch"', 'EarlyStopping("val_loss"')
    assert watched != script
    (tmp_path / "lit.py").write_text(watched)
    run = make_run(tmp_path / "run", VALUES, code_root=str(tmp_path), max_steps=3)
    assert work(run) == 0, run.log.read_text()
    summary = run.evidence("summary")
    assert (summary["stop_reason"], summary["steps"]) == ("max_steps", 3)
    assert {"loss", "accuracy"} <= summary["best"]["metrics"].keys()
