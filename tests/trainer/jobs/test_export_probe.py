"""The export probe of smoke runs: what cannot leave the house as ONNX is named in planning, with its cause."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.trainer.users import MINE, PARTS, TASK

from trainwright.trainer.jobs import export_probe
from trainwright.trainer.jobs.export_probe import probe_export
from trainwright.trainer.run import RunDirectory, RunKind
from trainwright.trainer.run.artifacts import ExportProbe

NAMED = """
class Rows(torch.utils.data.Dataset):
    def __len__(self): return 40
    def __getitem__(self, i):
        return {"ids": torch.full((3,), i % 5), "mask": torch.ones(3), "label": i % 2}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(5, 8), nn.Linear(8, 2)
    def forward(self, ids, mask=None):
        mask = torch.ones(ids.shape) if mask is None else mask
        return self.head((self.embedding(ids) * mask.unsqueeze(-1)).mean(1))
"""
"""A model that is called with dicts."""
TASKED = """
def build(config): return {"model": Net(), "train": DATA, "validation": DATA, "loss": nn.CrossEntropyLoss(), MORE}
"""


def probed(open_session: Any, folder: Path, code: str, values: dict[str, Any] = PARTS, **more: Any) -> ExportProbe:
    """Probe a session of a user's module, whose model has not trained."""
    name = f"own_{abs(hash((code, str(more)))):x}"
    (folder / f"{name}.py").write_text(MINE + code)
    section = {"task": {"use": f"{name}:build"}} if "def build" in code else {
        "model": {"use": f"{name}:Net"}, "data": {"use": f"{name}:data"}}  # fmt: skip
    return probe_export(open_session({**values, **section, **more}))


def task(more: str, code: str = NAMED, data: str = "Rows()") -> str:
    return code + TASKED.replace("DATA", data).replace("MORE", more)


@pytest.mark.requirement("GATE-1", "PHASE-6", "CKPT-5")
def test_a_smoke_run_records_the_export_that_it_tried(ended: Any) -> None:
    run: RunDirectory = ended("", PARTS, kind=RunKind.SMOKE, max_steps=4)
    found = run.part(ExportProbe)
    assert (found.problem, found.reason, found.parity.passed, found.parity.rows_compared) == ("", "", True, 4)
    assert not (run.artifacts / export_probe.FOLDER).exists(), "the program was for comparing alone"


BRANCHING = """
class Net(Net):
    def forward(self, x):
        return self.layers(x) * (1.05 if torch.compiler.is_compiling() or torch.jit.is_tracing() else 1.0)
"""
WITHOUT_FORWARD = task(
    '"step": step',
    """
class Net(nn.ModuleDict):
    def __init__(self): super().__init__({"head": nn.Linear(4, 2)})
def step(model, batch, context): return {"loss": model["head"](batch[0]).square().mean()}
""",
    "data()",
).replace('"loss": nn.CrossEntropyLoss(), ', "")


@pytest.mark.requirement("GATE-1", "PHASE-6", "CKPT-5")
@pytest.mark.parametrize(
    ("code", "cause", "cure"),
    [
        (BRANCHING, "differs from the model by", "torch.where"),
        (WITHOUT_FORWARD, "has no forward", "forward(inputs)"),
        (task('"example_input": (torch.zeros(1, 3).long(), torch.ones(1, 3), torch.ones(1))'),
         "tuple of 3, so by place, and Net.forward takes 2 (ids, mask)", "a dict by the names"),
        (task('"example_input": (torch.zeros(1, 3),)'), "does not take the task's `example_input` (ids a tensor",
         "a tuple in their order"),
    ],
    ids=["a program of other outputs", "no forward", "a tuple too long", "a tuple of another type"],
)  # fmt: skip
def test_what_has_no_onnx_is_named_with_its_cause_and_the_change(
    open_session: Any, tmp_path: Path, code: str, cause: str, cure: str
) -> None:
    values = TASK if "def build" in code else PARTS
    found = probed(open_session, tmp_path, code, values)
    assert cause in found.problem
    assert cure in found.remedy
    assert found.changes == {"deployment.formats": ["safetensors"]}
    assert (found.difference is not None) is (code is BRANCHING)


@pytest.mark.requirement("CKPT-5")
@pytest.mark.parametrize(
    ("example", "inputs"),
    [
        ("(torch.zeros(1, 3).long(), torch.ones(1, 3))", ["ids", "mask"]),
        ("(torch.zeros(1, 3).long(),)", ["ids", "mask"]),
        ("(torch.zeros(1, 5).long(), torch.ones(1, 5))", ["ids", "mask"]),
        ("{'ids': torch.zeros(1, 5).long()}", ["ids"]),
    ],
    ids=["as the samples", "fewer than they have", "longer than they are", "a dict"],
)
def test_an_example_in_a_tuple_is_by_place_though_samples_are_dicts(
    open_session: Any, tmp_path: Path, example: str, inputs: list[str]
) -> None:
    from trainwright.trainer.jobs.export.served import rows_to_call_with

    code = task(f'"example_input": {example}')
    assert probed(open_session, tmp_path, code, TASK).problem == ""
    (tmp_path / "again.py").write_text(MINE + code)
    session = open_session({**TASK, "task": {"use": "again:build"}})
    assert list(rows_to_call_with(session)[0]) == inputs


@pytest.mark.requirement("GATE-1")
def test_a_model_that_would_take_long_is_not_tried_and_the_rule_stated(
    open_session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(export_probe, "MAX_BYTES", 100)
        assert "MiB, and an export of more than" in probed(open_session, tmp_path, "# large").reason
    monkeypatch.setattr(export_probe, "SLOW_SECONDS", 0.0)
    assert "s on the CPU, and 0 s is the most" in probed(open_session, tmp_path, "# slow").reason


@pytest.mark.requirement("CKPT-5", "REPRO-6")
def test_probing_draws_nothing_and_keeps_the_weights(open_session: Any, tmp_path: Path) -> None:
    (tmp_path / "same.py").write_text(MINE)
    session = open_session({**PARTS, "model": {"use": "same:Net"}, "data": {"use": "same:data"}})
    before = {name: value.clone() for name, value in session.model.state_dict().items()}
    drawn = torch.get_rng_state()
    assert probe_export(session).parity.passed
    assert torch.equal(torch.get_rng_state(), drawn)
    assert all(torch.equal(value, before[name]) for name, value in session.model.state_dict().items())
