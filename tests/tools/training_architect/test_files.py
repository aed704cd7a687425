"""Files of a plan that train outside Trainwright: the installed libraries take them; and where there are none."""

from __future__ import annotations

import json
import runpy
from dataclasses import replace

import pytest
import torch
from tests.tools.training_architect.test_planning import planned

from trainwright.tools.documents.rendering import render_plain
from trainwright.tools.training_architect import PlanRequest, plan_training
from trainwright.tools.training_architect.facts import TASKS
from trainwright.tools.training_architect.files import TASKS as WITH_SCRIPT
from trainwright.tools.training_architect.files import (
    accelerate_config,
    deepspeed_config,
    training_arguments,
    write_files,
)
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.jobs.generation import _constructed


@pytest.mark.requirement("ARCH-3")
def test_the_installed_library_constructs_the_planned_arguments():
    for hardware in ("24 GB card", "8x A100 80GB", "T4"):
        plan = planned(hardware)
        arguments = training_arguments(plan)
        assert _constructed({**arguments, "warmup_steps": 10}) == {**arguments, "warmup_steps": 10}
        assert arguments["per_device_train_batch_size"] * plan.facts["gpus"] == plan.config["loader"]["batch_size"]
    with pytest.raises(ConfigurationError, match="does not take the planned arguments"):
        _constructed({**arguments, "learning_rat": 1.0})


@pytest.mark.requirement("ARCH-3")
def test_several_devices_get_a_configuration_of_accelerate_and_of_deepspeed():
    plan = planned("8x A100 80GB")
    found = accelerate_config(plan)
    assert (found["distributed_type"], found["num_processes"], found["mixed_precision"]) == ("MULTI_GPU", 8, "bf16")
    assert deepspeed_config(plan)["zero_optimization"]["stage"] == 2
    plan.config["distributed"] = {"processes": 8, "strategy": "fsdp2"}
    assert accelerate_config(plan)["fsdp_config"]["fsdp_version"] == 2
    assert deepspeed_config(plan)["zero_optimization"]["stage"] == 3


@pytest.mark.requirement("ARCH-3")
def test_tasks_without_a_script_are_named(tmp_path):
    plan = replace(planned("24 GB card"), first=[])
    workspace = Workspace.open(tmp_path / "workspace")
    for task in sorted(set(TASKS) - set(WITH_SCRIPT)):
        with pytest.raises(ConfigurationError, match=f"{task} has no script; create_project trains it"):
            write_files(workspace, replace(plan, task=task), tmp_path, "x")
    plan.config["data"]["args"]["target"] = ["billing", "login"]
    with pytest.raises(ConfigurationError, match="a plan with several targets has no script"):
        write_files(workspace, plan, tmp_path, "x")
    (tmp_path / "rows.csv").write_text("size,price,place\n" + "".join(f"{n},{n * 2.5},p{n % 3}\n" for n in range(90)))
    (workspace.path / "settings.yaml").write_text("code_roots: ['..']\n")
    request = PlanRequest(
        intent="The price of a house", data={"use": "csv", "args": {"path": "rows.csv"}}, code_root=str(tmp_path)
    )
    assert plan_training(workspace.refreshed(), request).state == "questions"
    with pytest.raises(ConfigurationError, match="table_regression has no script"):  # before they are asked
        plan_training(workspace, request, with_files=True)
    workspace.close()
    assert not (tmp_path / "workspace" / "plans").exists()


@pytest.mark.requirement("ARCH-3", "ARCH-2")
def test_the_script_says_where_it_cannot_hold_a_base_as_planned(tmp_path):
    (tmp_path / "train.py").write_text(render_plain("training_architect/train.py.j2"))
    (tmp_path / "splits.json").write_text("{}")

    def weights(dtype, quantize):
        (tmp_path / "plan.json").write_text(json.dumps({"dtype": dtype, "quantize": quantize}))
        return runpy.run_path(str(tmp_path / "train.py"), run_name="imported")["weights"]()

    assert weights("bfloat16", None) == {"dtype": torch.float32}
    with pytest.raises(SystemExit, match="needs a CUDA device"):
        weights("float32", "4bit")
