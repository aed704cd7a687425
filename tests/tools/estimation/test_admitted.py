"""An estimate reads data as a run does: from places, and by variables, that the owner's settings give to data."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from trainwright.tools.training_architect.estimates import Tracer
from trainwright.tools.training_architect.hardware import Device
from trainwright.tools.workspace import Workspace

pytestmark = pytest.mark.requirement("GATE-4")


def test_a_plan_traces_no_data_from_where_the_owner_lets_none_come(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "workspace")
    tracer = Tracer(workspace, tmp_path, Device("CPU", "cpu", 1, 2**34), time.monotonic() + 300, lambda: False)
    storage = {"key_env": "THE_SERVERS_OWN"}
    data = {"use": "csv", "args": {"path": "s3://ours/rows.csv", "target": "y", "storage": storage}}
    assert tracer({"model": {"use": "mlp"}, "data": data}) is None
    assert "give the variable THE_SERVERS_OWN to no data" in str(tracer.problem)
    workspace.close()
