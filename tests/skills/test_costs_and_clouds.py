"""The skills on costs and clouds: their files are what the tools take, and the guide is what the architect computes."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from tests.tools.clouds.programs import PROGRAMS

from trainwright.tools.clouds import PLATFORMS, gpu_table
from trainwright.tools.costs.estimating import EXAMPLE, TEMPLATE
from trainwright.tools.documents import SKILL
from trainwright.tools.training_architect.hardware import named_device
from trainwright.trainer.estimation.prices import load_prices

CLOUDS = (SKILL.parent / "cloud-gpu-configs").resolve()


@pytest.mark.requirement("COST-2", "SKILL-3")
def test_the_gpu_guide_is_what_its_script_writes_from_the_architects_estimates() -> None:
    spec = importlib.util.spec_from_file_location("write_gpu_guide", CLOUDS / "write_gpu_guide.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (CLOUDS / "gpu_guide.md").read_text(encoding="utf-8")
    assert module.page(text) == text, "run `python skills/cloud-gpu-configs/write_gpu_guide.py`"
    rows = re.findall(r"^\| ([\d.]+ [MB]) \|", text, flags=re.MULTILINE)
    assert rows == list(module.MODELS)
    named = set(re.findall(r"GiB, ([^|]+) \|", text)) - {"divided"}
    assert named
    assert named <= {name for own in gpu_table().platforms.values() for name in own.names.values()}


@pytest.mark.requirement("COST-1", "SKILL-3")
def test_the_template_has_the_platforms_with_empty_prices_and_the_example_invents_all_of_its_own() -> None:
    template, example = load_prices(TEMPLATE), load_prices(EXAMPLE)
    assert template.rows == ()
    assert template.storage == ()
    assert {row.platform for row in template.empty} == {"Modal", "Lambda Labs", "RunPod"}
    assert all(row.source.startswith("https://") and row.date is None for row in template.empty)
    assert example.is_example
    assert all("example" in row.platform and row.source == "invented" for row in (*example.rows, *example.storage))
    for row in (*template.empty, *example.rows):
        assert row.accelerator == "CPU" or named_device(row.accelerator).name == row.accelerator


@pytest.mark.requirement("COST-2", "SKILL-3")
def test_the_skill_says_of_each_platforms_file_what_validates_it() -> None:
    text = (CLOUDS / "SKILL.md").read_text(encoding="utf-8")
    table = text.partition("## Which file is validated by what")[2]
    for file in ("modal_job.py", "skypilot.yaml", "slurm.sh", "kubernetes.yaml", "trainjob.yaml", "entry.sh"):
        assert f"`{file}`" in table
    assert set(PROGRAMS) == set(PLATFORMS)
    makefile = (Path(__file__).parents[2] / "Makefile").read_text(encoding="utf-8")
    installed = makefile.partition("for program in modal")[2].partition(";")[0]
    assert {program[0] for programs in PROGRAMS.values() for program in programs} - {"modal"} == set(installed.split())
