"""A project's own Python environment: named, found, allowed, completed by an overlay, and worked in."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing, nullcontext
from pathlib import Path

import pytest
from tests.worlds.environments import digest_of, link_package, make_environment, pretend, site_of
from tests.worlds.flowers import finish

from trainwright.server.commands.doctor_project import examine_project
from trainwright.tools.environments import (
    found_environment,
    interpreters,
    require_environment,
    require_kept,
    runtime_of,
)
from trainwright.tools.environments.interpreters import interpreter
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.launchers.environment import worker_environment
from trainwright.tools.projects import configure, create_project, pass_gate, project_status
from trainwright.tools.training_orchestrator import start_run
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, StorageError
from trainwright.trainer.config import parse_config
from trainwright.trainer.run import RunKind
from trainwright.trainer.starting import wall

GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.5}
CONFIG = {
    "model": {"use": "mlp", "args": {"hidden": [8]}},
    "data": {"use": "csv", "args": {"path": "flowers.csv", "target": "kind"}},
    "metrics": ["accuracy"],
    "training": {"epochs": 1},
    "logging": {"tensorboard": False},
}
pytestmark = pytest.mark.requirement("ENV-1")


def config_with(**environment):
    return parse_config(CONFIG | {"environment": environment})


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An environment with torch and numpy, as a project has it."""
    folder = tmp_path_factory.mktemp("environment") / ".venv"
    make_environment(folder, "torch", "numpy")
    return folder


@pytest.fixture
def workspace(tmp_path, monkeypatch, made):
    """Its owner allows the environment."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path(sys.prefix) / "cache"))  # of one device with what is linked there
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    folder = tmp_path / "code" / ".trainwright"
    folder.mkdir(parents=True)
    (folder / "settings.yaml").write_text(f"code_roots: ['..']\nenvironments: ['{made}']\n")
    opened = Workspace.open(folder)
    yield opened
    opened.close()


@pytest.fixture
def code(workspace, made):
    """A project's folder with its environment in it."""
    root = workspace.path.parent
    (root / ".venv").symlink_to(made)
    rows = [f"{n},{n % 7},{'abc'[n % 3]}" for n in range(600)]
    (root / "flowers.csv").write_text("\n".join(["length,width,kind", *rows]))
    return root


@pytest.mark.long
def test_an_overlay_holds_what_the_environment_lacks_and_is_made_once(workspace, code, made):
    before = digest_of(made)
    runtime = runtime_of(workspace, config_with(python=".venv"), code)
    assert runtime is not None
    held = json.loads((Path(runtime.overlay) / "trainwright-overlay.json").read_text())
    assert {"pydantic", "polars", "blake3"} <= held["packages"].keys()
    assert {"torch", "numpy"}.isdisjoint(held["packages"])
    assert "numpy" in held["beside"]
    inode = Path(runtime.overlay).stat().st_ino
    assert runtime_of(workspace, config_with(python=".venv/bin/python"), code) == runtime
    assert Path(runtime.overlay).stat().st_ino == inode
    assert digest_of(made) == before


def test_our_modules_run_there_behind_its_packages(workspace, code, tmp_path):
    runtime = runtime_of(workspace, config_with(python=".venv"), code)
    assert runtime is not None
    asks = (
        "import sys, json, numpy, pydantic, trainwright; print(json.dumps([sys.prefix, numpy.__file__, "
        "pydantic.__file__, sys.path[0], sys.argv[1:]]))"
    )
    module = tmp_path / "ours"
    module.mkdir()
    (module / "asked.py").write_text(asks)
    command = runtime.model_copy(update={"ours": runtime.ours}).command("asked", "one", "two")
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(module)})
    prefix, numpy, pydantic, first, arguments = json.loads(done.stdout)
    assert Path(prefix).resolve() == (code / ".venv").resolve()
    assert numpy.startswith(prefix)
    assert pydantic.startswith(runtime.overlay)
    assert first == runtime.ours
    assert [one.name for one in Path(runtime.ours).iterdir()] == ["trainwright"]
    assert arguments == ["one", "two"]


@pytest.mark.slow
def test_two_projects_run_in_two_environments_and_a_changed_package_closes_the_gate(workspace, code, made):
    create_project(workspace, "p", intent="test", goal=GOAL, config=CONFIG | {"environment": {"python": ".venv"}})
    create_project(workspace, "servers", intent="test", goal=GOAL, config=CONFIG)
    before = digest_of(made)
    runs = {name: start_run(workspace, name, RunKind.SMOKE).run_id for name in ("p", "servers")}
    ended = [finish(workspace, run_id) for run_id in runs.values()]
    assert [run.state for run in ended] == ["completed", "completed"], ended
    with workspace.session() as session:
        environment, servers = (Evidence(session, workspace, name).run(run).environment for name, run in runs.items())
    assert servers.path == []
    assert any(place.startswith(str(code / ".venv")) for place in environment.path)
    assert "pydantic" in environment.overlay
    assert "numpy" not in environment.overlay
    assert not environment.import_failures
    assert digest_of(made) == before
    assert pass_gate(workspace, "p", "planning").outcome == "passed"
    customize = site_of(made) / "sitecustomize.py"
    customize.write_text("print = None\n")
    assert "sitecustomize.py, run as Python starts, changed" in project_status(workspace, "p").model_dump_json()
    customize.unlink()
    site = site_of(made)
    linked = next(site.glob("numpy-*.dist-info"))
    kept = linked.readlink()
    pretend(site, "numpy", "9.9.9")
    try:
        reasons = project_status(workspace, "p").model_dump_json()
        assert "environment: numpy" in reasons
        assert "-> 9.9.9" in reasons
    finally:
        fake = site / "numpy-9.9.9.dist-info"
        (fake / "METADATA").unlink()
        fake.rmdir()
        linked.symlink_to(kept)


def test_an_environment_beside_the_code_is_found_and_named_with_its_torch(workspace, code):
    found = found_environment(workspace, code)
    assert found is not None
    assert found.section.named == {"python": ".venv/bin/python"}
    assert "torch 2." in found.told


def test_an_environment_without_torch_and_the_servers_own_are_not_proposed(workspace, tmp_path, monkeypatch):
    root = workspace.path.parent
    make_environment(root / "venv", "numpy")
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    assert found_environment(workspace, root) is None


def test_a_uv_project_is_found_by_its_lock_file_and_needs_its_environment_made(workspace, code):
    (code / "pyproject.toml").write_text("[project]\nname = 'p'\nversion = '1'\n")
    (code / "uv.lock").write_text("version = 1\n")
    found = found_environment(workspace, code)
    assert found is not None
    assert found.section.named == {"uv": "."}
    (code / ".venv").unlink()
    with pytest.raises(ConfigurationError, match="has not been made") as refused:
        require_environment(workspace, config_with(uv="."), code)
    assert "uv sync" in refused.value.remedy


def test_an_environment_outside_of_the_code_roots_needs_the_owner(workspace, made, tmp_path):
    elsewhere = tmp_path / "elsewhere" / "workspace"
    with (
        closing(Workspace.open(elsewhere)) as other,
        pytest.raises(ConfigurationError, match="outside of the code roots") as refused,
    ):
        require_environment(other, config_with(python=str(made)), elsewhere.parent)
    assert f"environments: [{made}]" in refused.value.remedy
    require_environment(workspace, config_with(python=str(made)), workspace.path.parent)


def test_a_conda_environment_is_named_by_its_name(workspace, made, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    prefix = tmp_path / "miniforge3" / "envs" / "vision"
    (prefix / "conda-meta").mkdir(parents=True)
    (prefix / "bin").symlink_to(made / "bin")
    (prefix / "lib").symlink_to(made / "lib")
    (prefix / "pyvenv.cfg").write_text((made / "pyvenv.cfg").read_text())
    require_environment(workspace, config_with(conda="vision"), workspace.path.parent)
    with pytest.raises(ConfigurationError, match="known are: vision"):
        require_environment(workspace, config_with(conda="visoin"), workspace.path.parent)


def test_what_is_no_usable_environment_is_refused_with_the_way_out(workspace, code, tmp_path):
    def refused(**environment):
        with pytest.raises(ConfigurationError) as error:
            runtime_of(workspace, config_with(**environment), code)
        return f"{error.value.message} {error.value.remedy}"

    assert "Set environment.python .venv/bin/python" in refused(python="nowhere/bin/python")
    broken = code / "broken"
    broken.write_text("#!/bin/sh\necho it is broken >&2; exit 3\n")
    broken.chmod(0o755)
    assert "it is broken" in refused(python="broken")
    old = code / "old"
    told = {"version": [3, 8, 1], "prefix": "/", "path": [], "platform": "", "abi": ""}
    old.write_text(f"#!/bin/sh\necho '{json.dumps(told)}'\n")
    old.chmod(0o755)
    assert "has Python 3.8.1, and runs need Python 3.10 or newer" in refused(python="old")
    wrapper = code / "wrapper"
    wrapper.write_text(f'#!/bin/sh\nexec {code}/.venv/bin/python "$@"\n')
    wrapper.chmod(0o755)
    assert f"Name the interpreter itself: it says that its environment is {code}/.venv" in refused(python="wrapper")
    make_environment(code / "bare", "numpy")
    assert "has no torch" in refused(python="bare")
    make_environment(code / "aged", "torch", "numpy")
    pretend(site_of(code / "aged"), "pydantic", "1.10.2")
    assert "has pydantic 1.10.2, and a worker needs pydantic" in refused(python="aged")


@pytest.mark.skipif(wall.landlock_abi() < wall.MIN_ABI, reason="this kernel has no Landlock for workers")
def test_what_user_code_has_put_into_an_environment_writes_nothing_when_the_server_asks_it(tmp_path):
    folder, planted = tmp_path / ".venv", tmp_path / "planted"
    make_environment(folder)
    (site_of(folder) / "later.pth").write_text(f"import pathlib; pathlib.Path({str(planted)!r}).touch()\n")
    assert interpreter(folder / "bin" / "python", "later", tmp_path / "workspace").prefix == str(folder)
    assert not planted.exists()


@pytest.mark.skipif(wall.landlock_abi() < wall.MIN_ABI, reason="this kernel has no Landlock for workers")
def test_what_user_code_has_put_into_an_environment_reads_no_workspace_and_no_secret_when_asked(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    folder, free = tmp_path / ".venv", tmp_path / "free.txt"
    make_environment(folder)
    for file in (kept := tmp_path / "workspace" / "settings.yaml", secret := tmp_path / ".netrc", free):
        file.parent.mkdir(exist_ok=True)
        file.write_text("the owner's own")
    for file, is_read in ((kept, False), (secret, False), (free, True)):
        (site_of(folder) / "later.pth").write_text(f"import os; open({str(file)!r}).close(); os._exit(3)\n")
        with (
            pytest.raises(ConfigurationError, match="as a Python: returned non-zero exit status 3")
            if is_read
            else nullcontext()
        ):
            interpreter(folder / "bin" / "python", file.name, tmp_path / "workspace")


def test_one_environment_is_named_in_one_way():
    with pytest.raises(ConfigurationError, match="not python and conda"):
        parse_config(CONFIG | {"environment": {"python": ".venv", "conda": "base"}})
    with pytest.raises(ConfigurationError, match="names one of python, conda, uv, docker or apptainer"):
        parse_config(CONFIG | {"environment": {}})


def test_variables_reach_a_run_by_their_names_and_no_credential_does(workspace, monkeypatch):
    monkeypatch.setenv("FLOWERS_DIR", "/data/flowers")
    monkeypatch.setenv("FLOWERS_TOKEN", "x")
    root = workspace.path.parent
    config = config_with(variables=["FLOWERS_DIR"])
    require_environment(workspace, config, root)
    assert worker_environment(config)["FLOWERS_DIR"] == "/data/flowers"
    assert "FLOWERS_DIR" not in worker_environment(parse_config(CONFIG))
    assert runtime_of(workspace, config, root) is None
    for name, why in (("FLOWERS_TOKEN", "credential"), ("FLOWERS", "is not set"), ("PATH", "by the server itself")):
        with pytest.raises(ConfigurationError, match=why):
            require_environment(workspace, config_with(variables=[name]), root)


def test_another_environment_is_another_configuration(workspace, code):
    create_project(workspace, "p", intent="test", goal=GOAL, config=CONFIG)
    changed = configure(workspace, "p", changes={"environment": {"python": ".venv"}}, reason="its packages").changed
    assert "environment.python" in changed


@pytest.mark.long
def test_a_package_that_the_environment_gains_gives_it_another_overlay(workspace, code, tmp_path):
    folder = code / "growing"
    make_environment(folder, "torch", "numpy")
    first = runtime_of(workspace, config_with(python="growing"), code)
    link_package(site_of(folder), "pyyaml")
    second = runtime_of(workspace, config_with(python="growing"), code)
    assert first is not None
    assert second is not None
    assert first.overlay != second.overlay
    assert "pyyaml" not in json.loads((Path(second.overlay) / "trainwright-overlay.json").read_text())["packages"]


def test_an_index_that_does_not_answer_leaves_no_lesser_overlay_behind(workspace, code, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("UV_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    make_environment(code / "new", "torch", "numpy")
    pretend(site_of(code / "new"), "contourpy", "0.9")  # matplotlib takes none so old: the server's packages do not do
    with pytest.raises(ConfigurationError, match="could not be made ready") as refused:
        runtime_of(workspace, config_with(python="new"), code)
    assert "Call again once the package index answers" in refused.value.remedy
    assert not list((tmp_path / "cache").rglob("trainwright-overlay.json"))


def test_a_cache_that_cannot_be_written_is_named_with_the_way_out(workspace, code, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(StorageError, match="could not be kept in") as refused:
        runtime_of(workspace, config_with(python=".venv"), code)
    assert "XDG_CACHE_HOME" in refused.value.remedy


def test_the_way_out_of_a_refusal_is_one_that_the_server_has(workspace, code, monkeypatch):
    make_environment(code / "bare", "numpy")
    for has in (True, False):
        monkeypatch.setattr(interpreters, "has_torch", lambda has=has: has)
        with pytest.raises(ConfigurationError, match="has no torch") as refused:
            runtime_of(workspace, config_with(python="bare"), code)
        assert ("server's own Python" in refused.value.remedy) is has
        assert f"uv pip install --python {code}/bare/bin/python 'torch'" in refused.value.remedy


def test_a_run_is_resumed_only_where_it_worked(workspace, code):
    runtime = runtime_of(workspace, config_with(python=".venv"), code)
    require_kept(runtime)
    require_kept(None)
    with pytest.raises(ConflictError, match="nowhere is gone"):
        require_kept(runtime.model_copy(update={"overlay": "/nowhere"}))


def test_a_broken_environment_does_not_keep_the_rest_from_being_configured(workspace, code):
    create_project(workspace, "p", intent="test", goal=GOAL, config=CONFIG | {"environment": {"python": ".venv"}})
    (code / ".venv").unlink()
    assert configure(workspace, "p", changes={"training.epochs": 2}, reason="longer").changed
    with pytest.raises(ConfigurationError, match="no interpreter is at"):
        start_run(workspace, "p", RunKind.SMOKE)
    assert "environment.python" in configure(workspace, "p", changes={"environment": None}, reason="own").changed


def test_a_variable_that_is_gone_is_told_at_the_start(workspace, monkeypatch):
    monkeypatch.setenv("FLOWERS_DIR", "/data/flowers")
    config = config_with(variables=["FLOWERS_DIR"])
    assert runtime_of(workspace, config, workspace.path.parent) is None
    monkeypatch.delenv("FLOWERS_DIR")
    with pytest.raises(ConfigurationError, match="is not set in the server's environment"):
        runtime_of(workspace, config, workspace.path.parent)


def test_an_environment_that_is_active_may_be_used_wherever_it_lies(made, tmp_path, monkeypatch):
    with closing(Workspace.open(tmp_path / "elsewhere" / "workspace")) as other:
        monkeypatch.setenv("VIRTUAL_ENV", str(made))
        require_environment(other, config_with(python=str(made)), tmp_path / "elsewhere")
        found = found_environment(other, tmp_path / "elsewhere")
    assert found is not None
    assert found.section.named == {"python": f"{made}/bin/python"}


@pytest.mark.long
@pytest.mark.slow
def test_doctor_tells_what_a_folders_environment_has_and_gets(workspace, code, made):
    found = {one.name: one for one in examine_project(code, workspace.path)}
    assert {name: one.status for name, one in found.items() if one.status == "fail"} == {}
    assert "config={'environment': {'python': '.venv/bin/python'}}" in found["environment"].found
    assert "pydantic" in found["overlay"].found
    assert "torch 2." in found["packages"].found
    assert json.loads(found[".mcp.json"].found)["mcpServers"]["trainwright"]["args"] == ["serve"]
    pretend(site_of(made), "pydantic", "1.10.2")
    try:
        refused = {one.name: one for one in examine_project(code, workspace.path)}["environment"]
    finally:
        fake = site_of(made) / "pydantic-1.10.2.dist-info"
        (fake / "METADATA").unlink()
        fake.rmdir()
    assert (refused.status, "has pydantic 1.10.2" in refused.found) == ("fail", True)
