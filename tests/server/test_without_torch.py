"""A server without torch: it serves, shows and decides all the same, and says in words what it cannot do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.function_text import body_of
from tests.server.conftest import OpenAgent

from trainwright.server import cli
from trainwright.server.commands import doctor, doctor_probe

pytestmark = pytest.mark.slow

ABSENT = (
    "accelerate", "cleanlab", "datasketch", "onnxscript", "pandas", "peft", "polars", "pyarrow", "pytorch_optimizer",
    "safetensors", "tensorboard", "tokenizers", "torch", "transformers",
)  # fmt: skip
"""What `pip install trainwright` alone does not bring."""
INSTALL = "pip install 'trainwright[train]'"


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away the environment that the shell has activated: a server would name it."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)


def start() -> None:
    import runpy
    import sys
    from importlib.machinery import PathFinder

    absent = set(sys.argv.pop(1).split(","))

    class Finder(PathFinder):
        @classmethod
        def find_spec(cls, fullname, path=None, target=None):  # type: ignore[no-untyped-def]
            return None if fullname.partition(".")[0] in absent else super().find_spec(fullname, path, target)

    sys.meta_path[sys.meta_path.index(PathFinder)] = Finder
    runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)


def without_torch(module: str, *arguments: str | Path) -> list[str]:
    """Return the command that runs a module in an interpreter that finds none of what is absent."""
    return [sys.executable, "-P", "-c", body_of(start), ",".join(ABSENT), module, *map(str, arguments)]


@pytest.mark.requirement("MCP-5")
async def test_a_server_without_torch_has_all_tools_and_tells_what_it_lacks(
    in_memory: OpenAgent, over_stdio: OpenAgent, workspace: Path
) -> None:
    async with in_memory() as agent:
        await agent.project()
        tools = (await agent.client.list_tools()).tools
    async with over_stdio(without_torch(cli.__name__, "serve", "--workspace", workspace)) as agent:
        assert (await agent.client.list_tools()).tools == tools
        assert (await agent.get("project_status", project="iris"))["phase"] == "planning"
        message, remedy, _ = (await agent.refusal("start_training", project="iris", kind="smoke")).splitlines()
    assert (
        message == f"The server's own Python ({sys.prefix}) has no torch, and the configuration names no `environment`."
    )
    assert "environment.python" in remedy
    assert INSTALL in remedy


@pytest.mark.long
async def test_a_server_without_torch_shows_and_verifies_what_another_trained(
    in_memory: OpenAgent, over_stdio: OpenAgent, workspace: Path
) -> None:
    async with in_memory() as agent:
        await agent.project()
        run = await agent.get("start_training", project="iris", kind="smoke", wait_seconds=50)
        await agent.ended(run["run_id"])
        await agent.get("pass_gate", project="iris", phase="planning")
    async with over_stdio(without_torch(cli.__name__, "serve", "--workspace", workspace)) as agent:
        assert (await agent.get("project_status", project="iris"))["phase"] == "baseline"
        assert (await agent.get("run_status", run_id=run["run_id"]))["state"] == "completed"
        picture = await agent.call("plot_metrics", run_ids=[run["run_id"]])
        assert "image" in [block.type for block in picture.content]
    verified = subprocess.run(
        without_torch(cli.__name__, "verify", workspace), capture_output=True, text=True, check=False
    )
    assert (verified.returncode, verified.stderr) == (0, "")
    assert ": 0 problems" in verified.stdout


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("validate_data", {"project": "iris"}),
        ("start_training", {"project": "iris", "kind": "smoke"}),
        ("advance", {"project": "iris"}),
        ("plan_training", {"intent": "Tell flowers", "data": {"use": "iris"}}),
    ],
)
async def test_what_needs_torch_is_refused_with_what_to_install(
    in_memory: OpenAgent, monkeypatch: pytest.MonkeyPatch, tool: str, arguments: dict[str, Any]
) -> None:
    async with in_memory() as agent:
        await agent.project()
        monkeypatch.setitem(sys.modules, "torch", None)
        said = await agent.refusal(tool, **arguments)
    assert "has no torch" in said
    assert INSTALL in said


async def test_a_gaussian_process_is_refused_where_it_cannot_be_computed(
    in_memory: OpenAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = {"optimizer.learning_rate": {"type": "float", "low": 0.001, "high": 0.1, "log": True}}
    async with in_memory() as agent:
        await agent.project()
        monkeypatch.setitem(sys.modules, "torch", None)
        said = await agent.refusal(
            "start_tuning", project="iris", search={"method": "gaussian_process", "space": space}
        )
    assert "gaussian_process computes with torch" in said
    assert "tpe needs none" in said


@pytest.mark.long
def test_the_doctor_calls_a_missing_torch_no_failure() -> None:
    packages, training = doctor.examine_packages(without_torch(doctor_probe.__name__))
    assert packages.status == "ok"
    assert "onnxruntime" in packages.found
    assert (training.name, training.status) == ("training", "warn")
    assert INSTALL in training.remedy


async def test_a_page_whose_program_is_missing_is_refused_with_what_to_install(
    in_memory: OpenAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with in_memory() as agent:
        await agent.project()
        monkeypatch.setitem(sys.modules, "tensorboard", None)
        said = await agent.refusal("open_dashboard", page="tensorboard")
    assert "pip install tensorboard beside the server" in said
