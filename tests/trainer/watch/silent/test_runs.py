"""Runs of user code with silent errors: findings, worst samples, rows behind a spike, and bits as unwatched."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.variants import variants

from trainwright.tools.training_monitor.diagnosis import diagnose
from trainwright.trainer.run import RunDirectory, RunKind

SUITE = Path(__file__).parents[4] / "benchmarks" / "monitor_faults"
_spec = importlib.util.spec_from_file_location("silent_faults", SUITE / "silent_faults.py")
assert _spec is not None
assert _spec.loader is not None
silent_faults = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = silent_faults  # its data classes look for it there
_spec.loader.exec_module(silent_faults)
FAULTS = {fault.kind: fault for fault in silent_faults.FAULTS}
QUICK = ("validated_in_training",)


@pytest.mark.requirement("DIAG-7", "DIAG-11")
@pytest.mark.parametrize("kind", variants(FAULTS, quick=QUICK))
def test_a_silent_error_of_the_suite_is_found_within_one_step(
    tmp_path: Path, make_run: Any, work: Any, kind: str
) -> None:
    fault = FAULTS[kind]
    run = make_run(tmp_path / "run", fault.values(0), code_root=str(SUITE / "code"))
    code = work(run)
    if fault.first_effect is None:
        assert code == 1
        assert run.status().failure.category in {"configuration", "user_code"}, "refused before training"
        return
    assert code == 0, run.log.read_text()
    steps = [event.data["step"] for event in run.events("finding") if event.data["id"] in fault.names]
    assert steps, [event.data for event in run.events("finding")]
    assert min(steps) <= fault.first_effect + 1
    assert not [event for event in run.events("unjudged") if "failed" in event.data["text"]]


TASKS = '''
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset

def data(rows, wild=None):
    g = torch.Generator().manual_seed(rows)
    x, y = torch.randn(rows, 4, 8, generator=g), torch.randint(0, 3, (rows,), generator=g)
    if wild is not None:
        x[wild] = 400.0
    return TensorDataset(x, y)

class Attentive(nn.Module):
    """Its layers compute otherwise in evaluation under a mode of torch's functions."""
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 1), nn.Linear(8, 3)
    def forward(self, x):
        return self.head(self.encoder(x).mean(1))

def build(config, context):
    model = Attentive()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    def train_step(model, batch, context):
        x, y = batch
        model.eval()
        with torch.no_grad():
            guessed = model(x).argmax(1)  # by the fast path
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y) + 0.1 * F.cross_entropy(model(F.dropout(x, 0.1)), guessed)
        loss.backward()
        optimizer.step()
        return loss
    def validation_step(model, batch, context):
        logits = model(batch[0])
        return {"loss": F.cross_entropy(logits, batch[1]), "output": logits, "target": batch[1]}
    return {"model": model, "train": data(128), "validation": data(64), "batch_size": 16, "metrics": ["accuracy"],
            "optimizers": optimizer, "train_step": train_step, "validation_step": validation_step}

def spiked(config, context):
    def step(model, batch, context):
        return {"loss": F.cross_entropy(model(batch[0].flatten(1)), batch[1])}
    return {"model": nn.Linear(32, 3), "train": data(400, wild=7), "validation": data(64), "batch_size": 8, "step": step}
'''  # noqa: E501


def run_of(
    folder: Path, make_run: Any, work: Any, task: str, kind: RunKind = RunKind.BASELINE, **sections: Any
) -> RunDirectory:
    folder.parent.mkdir(exist_ok=True)
    (folder.parent / "mine.py").write_text(TASKS)
    sections = {"training": {"epochs": 2}, "logging": {"every_n_steps": 1}, **sections}
    run: RunDirectory = make_run(folder, {"task": {"use": f"mine.py:{task}"}, **sections}, kind=kind)
    assert work(run) == 0, run.log.read_text()
    return run


@pytest.mark.long
@pytest.mark.requirement("DIAG-11")
def test_checks_change_no_bit_of_a_users_steps_or_of_validation(
    tmp_path: Path, make_run: Any, work: Any, recorded: Any
) -> None:
    runs = [
        run_of(tmp_path / name, make_run, work, "build", RunKind.TRIAL, monitoring={"inspect": inspect})
        for name, inspect in (("watched", "auto"), ("unwatched", "off"))
    ]
    keys = ("train/loss", "train/gradient_norm", "validation/loss", "validation/accuracy")
    assert recorded(runs[0], *keys) == recorded(runs[1], *keys)
    assert [event.data["id"] for event in runs[0].events("finding")] == []
    [first, _] = runs[0].events("worst_samples")
    assert (len(first.data["rows"]), first.data["of"], first.data["split"]) == (20, 48, "train")
    assert first.data["losses"] == sorted(first.data["losses"], reverse=True)


@pytest.mark.long
@pytest.mark.requirement("DIAG-7")
def test_the_rows_behind_a_spike_are_named(tmp_path: Path, make_run: Any, work: Any) -> None:
    run = run_of(tmp_path / "run", make_run, work, "spiked", optimizer={"name": "sgd", "learning_rate": 1e-6})
    spikes = [event.data for event in run.events("finding") if event.data["id"] == "loss_spike"]
    assert spikes
    assert all(7 in spike["rows"] for spike in spikes)
    assert spikes[0]["measured"] > 2


@pytest.mark.requirement("DIAG-7", "DIAG-8")
def test_a_finding_is_an_alert_with_its_document(tmp_path: Path, make_run: Any, work: Any) -> None:
    shutil.copytree(SUITE / "code", tmp_path / "code")
    values = FAULTS["only_the_head"].values(0)
    run = make_run(tmp_path / "run", {**values, "training": {"epochs": 1}}, code_root=str(tmp_path / "code"))
    assert work(run) == 0, run.log.read_text()
    alert = next(alert for alert in diagnose(run) if alert.id == "optimizer_without_parameters")
    assert alert.layers[:2] == ["encoder.0.bias", "encoder.0.weight"]
    assert "no optimizer holds them" in alert.message
    assert alert.document == "diagnostics/optimizer_without_parameters.md"


@pytest.mark.requirement("DIAG-7", "DIAG-10")
@pytest.mark.parametrize(
    ("split", "is_told"), [({"by": "time", "time": "year"}, False), ({"by": "given", "column": "side"}, True)]
)
def test_later_rows_are_beyond_earlier_ones_and_were_not_prepared_otherwise(
    tmp_path: Path, make_run: Any, work: Any, split: dict[str, str], *, is_told: bool
) -> None:
    sides = ["train"] * 140 + ["validation"] * 30 + ["test"] * 30
    rows = [f"{1800 + n},{side},{n // 60 * 90 + n % 7},{n // 60 * 70 + n % 5},{n % 11}" for n, side in enumerate(sides)]
    (tmp_path / "rows.csv").write_text("\n".join(["year,side,a,b,y", *rows]) + "\n")
    args = {"path": "rows.csv", "target": "y", "features": ["a", "b"], "task": "regression"}
    values = {
        "model": {"use": "mlp", "args": {"hidden": [4]}}, "data": {"use": "csv", "args": args, "split": split},
        "loss": "mse", "metrics": ["mae"], "training": {"epochs": 2}, "logging": {"tensorboard": False},
        "selection": {"metric": "mae", "direction": "minimize"},
    }  # fmt: skip
    run = make_run(tmp_path / "run", values, code_root=str(tmp_path))
    assert work(run) == 0, run.log.read_text()
    told = [event.data["id"] for event in run.events("finding")]
    assert ("preprocessing_mismatch" in told) is is_told
