"""The call that a failed check names changes what failed; where no call would, none is named."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.checklist import load_checklist
from trainwright.tools.gates.checks import finalization
from trainwright.tools.gates.checks.baseline import losses_finite, within_budget
from trainwright.tools.gates.checks.finalization import export_verified
from trainwright.tools.gates.phases import Phase
from trainwright.tools.workspace.settings import ProjectLimits
from trainwright.trainer.config import parse_config
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.evidence import Summary
from trainwright.trainer.run.metrics import MetricStore
from trainwright.trainer.run.results import Export


def evidence_of(**parts: Any) -> Any:
    def call(tool: str, why: str, **arguments: Any) -> NextCall:
        return NextCall(tool=tool, why=why, arguments=arguments)

    return SimpleNamespace(call=call, **parts)


def line_of(phase: Phase, name: str) -> Any:
    return next(line for line in load_checklist(phase).checks if line.id == name)


@pytest.mark.requirement("GATE-2", "PHASE-3")
@pytest.mark.parametrize(
    ("recorded", "changes"),
    [
        ({"train/loss": [1.0], "validation/loss": [float("nan")]}, {"optimizer.learning_rate": 0.001}),
        ({"train/loss": [1.0]}, None),
    ],
)
def test_losses_that_are_not_finite_ask_for_a_lower_rate_and_missing_ones_for_code(
    recorded: dict[str, list[float]], changes: dict[str, float] | None, tmp_path: Path
) -> None:
    config = parse_config({"model": {"use": "mlp"}, "data": {"use": "iris"}, "optimizer": {"learning_rate": 0.01}})
    with MetricStore(tmp_path / "metrics.sqlite", writer=True) as store:
        store.write((key, step, value, 0.0) for key, values in recorded.items() for step, value in enumerate(values))
    directory = SimpleNamespace(
        metrics=lambda: MetricStore(tmp_path / "metrics.sqlite"), specification=lambda: SimpleNamespace(config=config)
    )
    run: Any = SimpleNamespace(directory=directory, summary=Summary(), is_complete=True)
    found = losses_finite(evidence_of(), run, RunKind.BASELINE)
    assert found.status == "failed"
    assert (found.next.arguments["changes"] if found.next else None) == changes
    assert changes is not None or "the code of the task must give both losses" in found.measured


@pytest.mark.requirement("GATE-2", "PHASE-3")
@pytest.mark.parametrize(
    ("seconds", "epochs", "changes"),
    [
        (3600, 5, None),
        (2 * 3600, 5, {"training.epochs": 2}),
        (40 * 3600, 20, {"training.max_steps": 22}),
        (9000 * 3600, 1, {"training.max_steps": 1}),
    ],
)
def test_a_baseline_that_took_too_long_is_made_as_short_as_it_must_be(
    seconds: float, epochs: int, changes: dict[str, int] | None
) -> None:
    line = line_of(Phase.BASELINE, "baseline.within_budget")
    assert line.threshold == 60
    run = SimpleNamespace(summary=Summary(train_seconds=seconds, epochs=epochs, steps=1000))
    found = within_budget(evidence_of(baseline=run, name="p", limits=ProjectLimits()), line)
    assert (found.next.arguments["changes"] if found.next else None) == changes
    longer = ProjectLimits(baseline_minutes=seconds / 60)
    assert within_budget(evidence_of(baseline=run, name="p", limits=longer), line).status == "passed"
    if found.next is not None:
        assert f"'baseline_minutes': {seconds // 60:.0f}" in found.next.why, "the owner's way out has its number"


@pytest.mark.requirement("GATE-2", "PHASE-6")
@pytest.mark.parametrize(("onnx_passed", "tool"), [(False, "configure"), (True, "export_model")])
def test_an_export_whose_onnx_differs_is_not_simply_repeated(
    onnx_passed: bool, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx = {"passed": onnx_passed, "max_abs_difference": 0.5, "rows_compared": 8}
    record = {"checkpoint_digest": "best", "safetensors": {"reloaded_identical": True}, "onnx": onnx}
    export = SimpleNamespace(
        is_complete=True,
        exported=Export.model_validate(record),
        differences=["edited"] if onnx_passed else [],
    )
    best = [SimpleNamespace(tags=["best"], digest="best")]
    monkeypatch.setattr(finalization, "list_checkpoints", lambda directory: best)
    final = SimpleNamespace(directory=None)
    evidence = evidence_of(export=export, final=final, served_changes=lambda run: [])
    found = export_verified(evidence, line_of(Phase.FINALIZATION, "finalization.export_verified"))
    assert found.status == "failed"
    assert found.next is not None
    assert found.next.tool == tool
    weights = {"deployment.formats": ["safetensors"]}
    assert found.next.arguments.get("changes") == weights if tool == "configure" else "another look" in found.next.why
