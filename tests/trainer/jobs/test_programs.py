"""Programs that runs leave for the independent evaluation: what the model gives, from rows as the data holds them."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.releases import needs
from tests.variants import variants
from torch import Tensor

from trainwright.trainer.base import releases
from trainwright.trainer.checkpoints.store import DirectoryStore
from trainwright.trainer.engine.session import DEPLOYED
from trainwright.trainer.jobs.export.program import best_checkpoint
from trainwright.trainer.run import RunDirectory, RunKind

pytestmark = pytest.mark.slow

SHORT: dict[str, Any] = {"training": {"epochs": 2}, "logging": {"tensorboard": False}, "loader": {"batch_size": 16}}
START = """
import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset
def draws(*shape, seed=0): return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
def whole(low, high, *shape): return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(1))
"""
TASKS = {
    "lstm": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.embedding, self.head = nn.Embedding(20, 8), nn.Linear(8, 2)
                self.lstm = nn.LSTM(8, 8, batch_first=True)
            def forward(self, x):
                return self.head(self.lstm(self.embedding(x))[0][:, -1])
        def data(): return TensorDataset(whole(0, 20, 90, 6), whole(0, 2, 90))
    """,
    "transformer": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
                self.embedding, self.head = nn.Embedding(20, 8), nn.Linear(8, 2)
                self.layers = nn.TransformerEncoder(layer, 1)
            def forward(self, x):
                return self.head(self.layers(self.embedding(x)).mean(1))
        def data(): return TensorDataset(whole(0, 20, 90, 6), whole(0, 2, 90))
    """,
    "pixels of bytes": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(48, 3)
            def forward(self, x):
                return self.layer(x.float().div(255).flatten(1))
        def data(): return TensorDataset(whole(0, 256, 90, 3, 4, 4).to(torch.uint8), whole(0, 3, 90))
    """,
    "several inputs by name": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.kinds, self.layer = nn.Embedding(5, 4), nn.Linear(8, 2)
            def forward(self, x, kind):
                return self.layer(torch.cat([x, self.kinds(kind)], 1))
        class Rows(Dataset):
            def __len__(self): return 90
            def __getitem__(self, i): return {"kind": i % 5, "x": draws(4, seed=i), "label": i % 2}
        def data(): return Rows()
    """,
    "several inputs in order": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 2)
            def forward(self, x, weight):
                return self.layer(x * weight)
        def data(): return TensorDataset(draws(90, 4), draws(90, 1, seed=2), whole(0, 2, 90))
    """,
    "rows of several lengths": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.embedding, self.head = nn.Embedding(20, 8, padding_idx=0), nn.Linear(8, 2)
            def forward(self, x):
                return self.head(self.embedding(x).sum(1) / (x > 0).sum(1, keepdim=True))
        class Rows(Dataset):
            def __len__(self): return 90
            def __getitem__(self, i): return whole(1, 20, 3 + i % 4) + i % 1, i % 2
        def data(): return Rows()
        def build(config):
            from torch.nn.utils.rnn import pad_sequence
            def collate(items):
                return pad_sequence([x for x, _ in items], batch_first=True), torch.tensor([y for _, y in items])
            rows = Rows()
            return {"model": Net(), "train": rows, "validation": [rows[i] for i in range(30)], "collate": collate}
    """,
}
PARTS = {"model": {"use": "mine:Net"}, "data": {"use": "mine:data"}, "metrics": ["accuracy"]}


@pytest.fixture
def left(tmp_path: Path, make_run: Any, work: Any) -> Callable[..., RunDirectory]:
    """`left(code, values)` trains what mine.py holds and returns the run, which leaves a program."""

    def trained(code: str, values: dict[str, Any] | None = None, name: str = "first", **fields: Any) -> RunDirectory:
        (tmp_path / "mine.py").write_text(START + textwrap.dedent(code))
        fields = {"exports_program": True, "code_root": str(tmp_path), **fields}
        run: RunDirectory = make_run(tmp_path / name, {**SHORT, **(values or PARTS)}, **fields)
        assert work(run) == 0, run.log.read_text()
        return run

    return trained


def opened(run: RunDirectory, open_session: Any) -> Any:
    """Return the run's session with its best checkpoint's weights."""
    values = run.specification().config.model_dump(mode="json", exclude_unset=True)
    session = open_session(values, "again")
    session.load_components(DirectoryStore(run).open(best_checkpoint(run)), DEPLOYED)
    session.model.eval()
    return session


def of_the_model(session: Any) -> Tensor:
    """Return the validation outputs as the metrics compare them, (rows, ...)."""
    with torch.no_grad():
        found = [session.validation_objective(session.model, batch) for batch in session.validation_loader.batches(0)]
    return torch.cat([outcome.output for outcome in found])


def of_the_program(run: RunDirectory, rows: list[dict[str, Any]]) -> list[np.ndarray[Any, Any]]:
    """Return each output of the program, the rows sent to it one by one."""
    import onnxruntime

    record = run.evidence("program")
    assert record is not None
    assert record.get("problem") is None, record
    assert record["form"] == "onnx"
    alone = onnxruntime.SessionOptions()
    alone.intra_op_num_threads = 1  # a pool of threads would not survive the next fork
    path = str(run.artifacts / record["path"])
    session = onnxruntime.InferenceSession(path, alone, providers=["CPUExecutionProvider"])
    assert [item.name for item in session.get_outputs()] == record["outputs"]
    given = [session.run(None, {name: np.asarray(value)[None] for name, value in row.items()}) for row in rows]
    return [np.concatenate(column) for column in zip(*given, strict=True)]


def rows_of(session: Any) -> list[dict[str, Any]]:
    """Return the inputs of the validation samples, before any collation."""
    samples = session.work.splits.samples["validation"]
    found = []
    for number in range(len(samples)):
        sample = samples[number]
        if isinstance(sample, dict):
            found.append({name: value for name, value in sample.items() if name != "label"})
            continue
        *inputs, _ = sample
        names = ["input"] if len(inputs) == 1 else [f"input_{place}" for place in range(len(inputs))]
        found.append(dict(zip(names, inputs, strict=True)))
    return found


@pytest.mark.requirement("GATE-6", "CKPT-5")
@pytest.mark.parametrize("kind", variants(TASKS, quick=["several inputs by name"]))
def test_a_program_gives_from_raw_rows_what_the_metrics_compared(kind: str, left: Any, open_session: Any) -> None:
    values = {"task": {"use": "mine:build"}, "loss": "cross_entropy"} if "def build" in TASKS[kind] else PARTS
    run = left(TASKS[kind], values)
    session = opened(run, open_session)
    (found,) = of_the_program(run, rows_of(session))
    np.testing.assert_allclose(found, of_the_model(session).numpy(), atol=1e-4)
    parity = run.evidence("program")["parity"]
    assert parity["rows_compared"] == len(found)
    assert parity["passed"]
    assert {1, 2, 7} <= set(parity["batch_sizes"])
    assert parity["random_compared"] > 0
    assert parity["extreme_compared"] > 0


BUILT_IN: dict[str, dict[str, Any]] = {
    "mlp on a standardised table": {"model": {"use": "mlp", "args": {"hidden": [8]}}, "data": {"use": "iris"}},
    "cnn": {"model": {"use": "cnn"}, "data": {"use": "digits"}},
    "numbers in deviations": {
        "model": {"use": "mlp"}, "data": {"use": "diabetes"}, "loss": "mse", "target_scaling": "standardize",
        "metrics": ["mae"],
    },
}  # fmt: skip


@pytest.mark.requirement("GATE-6")
@pytest.mark.parametrize("kind", variants(BUILT_IN, quick=["numbers in deviations"]))
def test_preprocessing_of_a_built_in_source_is_inside(kind: str, left: Any, open_session: Any) -> None:
    run = left("", BUILT_IN[kind])
    session = opened(run, open_session)
    inputs = session.work.splits.samples["validation"].raw.column(0)  # rows are stored in the units of the source
    (found,) = of_the_program(run, [{"input": row.numpy()} for row in inputs])
    np.testing.assert_allclose(found, of_the_model(session).numpy(), atol=1e-4)


@pytest.mark.long
@pytest.mark.requirement("GATE-6")
def test_several_outputs_are_named_and_the_compared_one_comes_first(left: Any, open_session: Any) -> None:
    code = """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.inside, self.layer = nn.Linear(4, 6), nn.Linear(6, 2)
            def forward(self, x):
                inside = self.inside(x)
                return {"features": inside, "scores": self.layer(inside.relu())}
        def step(model, batch, context):
            x, y = batch
            scores = model(x)["scores"]
            return {"loss": nn.functional.cross_entropy(scores, y), "output": scores, "target": y}
        def build(config):
            rows = TensorDataset(draws(90, 4), whole(0, 2, 90))
            return {"model": Net(), "train": rows, "validation": TensorDataset(*rows[:30]), "step": step}
    """
    run = left(code, {"task": {"use": "mine:build"}, "metrics": ["accuracy"]})
    session = opened(run, open_session)
    assert run.evidence("program")["outputs"] == ["output", "features"]
    found, inside = of_the_program(run, rows_of(session))
    np.testing.assert_allclose(found, of_the_model(session).numpy(), atol=1e-4)
    assert inside.shape == (30, 6)


@pytest.mark.requirement("GATE-6")
def test_each_of_several_tasks_has_its_output_behind_those_of_all(left: Any, open_session: Any) -> None:
    code = """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.kind, self.size = nn.Linear(4, 3), nn.Linear(4, 1)
            def forward(self, x):
                return {"size": self.size(x), "kind": self.kind(x)}
        class Rows(Dataset):
            def __len__(self): return 90
            def __getitem__(self, i): return {"x": draws(4, seed=i), "kind": i % 3, "size": float(i)}
        def data(): return Rows()
    """
    tasks = {"kind": {"loss": "cross_entropy", "outputs": 3}, "size": {"loss": "mse", "outputs": 1}}
    objective = {"name": "multi_task", "tasks": tasks, "weighting": "fixed"}
    run = left(code, {"model": {"use": "mine:Net"}, "data": {"use": "mine:data"}, "objective": objective})
    session = opened(run, open_session)
    assert run.evidence("program")["outputs"] == ["output", "kind", "size"]
    rows = [{"x": session.work.splits.samples["validation"][number]["x"]} for number in range(5)]
    columns, kind, size = of_the_program(run, rows)
    np.testing.assert_allclose(columns, of_the_model(session).numpy()[:5], atol=1e-4)
    np.testing.assert_allclose(columns, np.concatenate([kind, size], axis=1))


@pytest.mark.long
@pytest.mark.requirement("GATE-6")
def test_control_flow_that_the_first_exporter_bakes_in_falls_back_to_the_next(left: Any, open_session: Any) -> None:
    code = """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 2)
            def forward(self, x):
                parts = torch.zeros(len(x), 2) + 1.0 / int(x.shape[0] ** 0) if torch.jit.is_tracing() else 0.0
                return self.layer(x) + parts
        def data(): return TensorDataset(draws(90, 4), whole(0, 2, 90))
    """
    run = left(code)
    session = opened(run, open_session)
    (found,) = of_the_program(run, rows_of(session))
    np.testing.assert_allclose(found, of_the_model(session).numpy(), atol=1e-4)


PROBLEMS = {
    "branches on values": (
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 2)
            def forward(self, x):
                return self.layer(x) * (2.0 if x[0, 0] > 0 else 3.0)
        def data(): return TensorDataset(draws(90, 4), whole(0, 2, 90))
        """,
        PARTS,
        "torch.where",
    ),
    "draws in evaluation": (
        """
        class Net(nn.Linear):
            def __init__(self): super().__init__(4, 2)
            def forward(self, x): return super().forward(x + torch.randn_like(x))
        def data(): return TensorDataset(draws(90, 4), whole(0, 2, 90))
        """,
        PARTS,
        "self.training",
    ),
    "collate writes the label into the input": (
        """
        def collate(items):
            x, y = torch.stack([x for x, _ in items]), torch.stack([y for _, y in items])
            return torch.cat([x[:, :3], y[:, None].float()], 1), y
        def build(config):
            rows = TensorDataset(draws(90, 4), whole(0, 2, 90))
            parts = {"train": rows, "validation": TensorDataset(*rows[:30])}
            return {"model": nn.Linear(4, 2), **parts, "collate": collate, "batch_size": 16}
        """,
        {"task": {"use": "mine:build"}, "loss": "cross_entropy", "metrics": ["accuracy"]},
        "__getitem__",
    ),
    "a GAN": (
        """
        def train_step(model, batch, context):
            (x,) = batch
            fake = model["generator"](torch.randn(len(x), 2))
            loss = (fake.mean(0) - x.mean(0)).square().sum()
            context.state["optimizer"].zero_grad()
            loss.backward()
            context.state["optimizer"].step()
            return {"loss": loss}
        def validation_step(model, batch, context):
            return {"loss": batch[0].square().mean()}
        def build(config, context):
            model = nn.ModuleDict({"generator": nn.Linear(2, 4), "critic": nn.Linear(4, 1)})
            optimizer = torch.optim.SGD(model.parameters(), 0.01)
            context.state["optimizer"] = optimizer
            rows = draws(90, 4)
            return {"model": model, "train": TensorDataset(rows), "validation": TensorDataset(rows[:30]),
                    "train_step": train_step, "validation_step": validation_step, "optimizers": {"all": optimizer}}
        """,
        {"task": {"use": "mine:build"}},
        "output",
    ),
    "other columns without the target": (
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 2)
            def forward(self, x, labels=None):
                scores = self.layer(x)
                if labels is None: return scores[:, :1]
                return scores, nn.functional.cross_entropy(scores, labels)
        class Rows(Dataset):
            def __len__(self): return 90
            def __getitem__(self, i): return {"x": draws(4, seed=i), "labels": i % 2}
        def data(): return Rows()
        """,
        {**PARTS, "returns": "logits,loss"},
        "same prediction",
    ),
}


@pytest.mark.requirement("GATE-6")
@pytest.mark.parametrize("kind", variants(PROBLEMS, quick=["collate writes the label into the input"]))
def test_what_has_no_program_says_what_to_change_and_completes(kind: str, left: Any) -> None:
    code, values, remedy = PROBLEMS[kind]
    run = left(code, values)
    record = run.evidence("program")
    assert record["problem"]
    assert remedy in record["remedy"]
    assert run.evidence("summary")["stop_reason"] == "completed"
    is_caveat = "collate" in kind  # of rows that fit all the same: both figures are shown
    assert bool(record.get("path")) == is_caveat
    assert len(list(run.artifacts.glob("model/*"))) == is_caveat


@pytest.mark.long
@pytest.mark.requirement("GATE-6", "REPRO-1")
def test_leaving_a_program_changes_no_bit_of_the_run(left: Any) -> None:
    code, values = "", BUILT_IN["cnn"]
    with_program = left(code, values)
    without = left(code, values, "second", exports_program=False)
    assert without.evidence("program") is None
    changing = {"train_seconds", "data_wait_fraction", "samples_per_second", "peak_memory_bytes", "cpu_percent_mean"}
    ours, theirs = (
        {name: value for name, value in run.evidence("summary").items() if name not in changing}
        for run in (with_program, without)
    )
    assert ours == theirs
    assert ours["weights_digest"]


@needs(releases.PROGRAM)
@pytest.mark.requirement("GATE-6", "CKPT-5")
def test_an_export_without_onnx_leaves_a_program_of_torch_export(left: Any, make_run: Any, work: Any) -> None:
    values = {**SHORT, **BUILT_IN["mlp on a standardised table"], "deployment": {"formats": ["safetensors"]}}
    source = left("", values)
    folder = source.path.parent / "export"
    run = make_run(folder, values, kind=RunKind.EXPORT, source_run=str(source.path), code_root=str(folder.parent))
    assert work(run) == 0, run.log.read_text()
    record = run.evidence("program")
    assert record["form"] == "torch_export"
    assert record["path"] == "final_model/model.pt2"
    assert record["parity"]["passed"]
    assert run.evidence("export")["onnx"] is None
    assert torch.export.load(run.artifacts / record["path"]).module()(torch.zeros(3, 4)).shape == (3, 3)
