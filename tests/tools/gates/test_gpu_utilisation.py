"""How much the GPUs were used: told of all of a run's devices, a warning with its reason, a gate only by the limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.worlds.records import Script
from tests.worlds.scripted import scripted

from trainwright.tools.gates.decide import evaluate
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.outcomes import CheckResult
from trainwright.tools.gates.phases import Phase
from trainwright.tools.ledger import append
from trainwright.tools.projects import create_project
from trainwright.tools.training_orchestrator import start_run, wait_for_run
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import latest_config
from trainwright.trainer.config import config_digest, parse_config
from trainwright.trainer.run import RunKind
from trainwright.trainer.supervision.sampling import by_gpu, of_gpus, visible_gpus

CONFIG: dict[str, Any] = {
    "model": {"use": "mlp", "args": {"hidden": [8]}}, "data": {"use": "iris"}, "training": {"epochs": 1},
    "logging": {"tensorboard": False},
}  # fmt: skip
GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.9}


@pytest.fixture(scope="module")
def based(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., CheckResult]]:
    """Judge a baseline whose own evidence tells of GPUs, under these limits of the project."""
    workspace = Workspace.open(tmp_path_factory.mktemp("gpu") / "workspace")

    def judge(name: str, limits: dict[str, Any], resolved: dict[str, Any], **summary: Any) -> CheckResult:
        create_project(workspace, name, intent="", goal=GOAL, config=CONFIG, limits=limits)
        with workspace.session() as session:
            values = latest_config(session, name).values
            rested_on = {"configuration": config_digest(parse_config(values)), "values": values, "smoke_run": "",
                         "runs": []}  # fmt: skip
            body = {"phase": "planning", "outcome": "passed", "checks": [], "rested_on": rested_on, "artifacts": {}}
            append(session, name, "gate", body)
        with scripted(Script(parts={"resolved": resolved, "summary": summary})):
            wait_for_run(workspace, start_run(workspace, name, RunKind.BASELINE).run_id)
        with workspace.session() as session:
            report = evaluate(Evidence(session, workspace, name), Phase.BASELINE)
        return next(check for check in report.checks if check.id == "baseline.gpu_utilisation")

    yield judge
    workspace.close()


@pytest.mark.requirement("PHASE-3", "DIAG-5", "PHASE-10")
def test_little_use_is_a_warning_with_its_reason_and_a_gate_only_by_the_limits(
    based: Callable[..., CheckResult],
) -> None:
    used = {"gpu_percent_mean": 20.0, "gpus_sampled": 2, "train_seconds": 600.0, "data_wait_fraction": 0.0}
    cuda = {"device": "cuda"}
    warned = based("small", {}, cuda, **used)
    assert warned.status == "passed"
    assert warned.measured.startswith("20 % over 2 GPU(s): a warning, the model is small (")
    asked = based("asked", {"gpu_utilisation_percent": 50.0}, cuda, **used)
    assert (asked.status, asked.measured) == ("failed", "20 % over 2 GPU(s)")
    assert (asked.required, asked.next.tool) == ("at least 50 %, by the project's limits", "diagnose_run")
    cpu = based("cpu", {"gpu_utilisation_percent": 50.0}, {}, gpu_percent_mean=1.0)
    assert cpu.status == "not_applicable", "another program's GPU on this machine says nothing of a run on the CPU"


@pytest.mark.requirement("PHASE-3", "DIAG-5", "MON-1")
def test_the_sample_is_of_all_devices_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = [{"gpu_percent": 90.0, "gpu_memory_bytes": 5.0}, {"gpu_percent": 10.0, "gpu_memory_bytes": 7.0}]
    assert of_gpus(readings) == {"gpu_percent": 50.0, "gpu_percent_lowest": 10.0, "gpu_memory_bytes": 12.0}
    assert of_gpus([]) == {}
    assert by_gpu(readings)["gpu1_percent"] == 10.0
    assert by_gpu([{"power_watts": 300.0, "throttled": 1.0}]) == {"gpu0_power_watts": 300.0, "gpu0_throttled": 1.0}
    for named, expected in ((None, ["0", "1", "2"]), ("2,0", ["2", "0"]), ("1,-1,0", ["1"]), ("", []),
                            ("GPU-1a, GPU-2b", ["GPU-1a", "GPU-2b"])):  # fmt: skip
        if named is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
        assert visible_gpus(3) == expected
