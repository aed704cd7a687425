"""Orders of walls: what each opens and keeps closed, what user code is told of it, and what a wall costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.tools.launchers.walled import SECRET, walled_attempts

from trainwright.tools.launchers import closed, worker_wall
from trainwright.tools.launchers.environment import activated
from trainwright.trainer.base.failures import known_failure
from trainwright.trainer.config import parse_config
from trainwright.trainer.run.runtime import Runtime
from trainwright.trainer.run.specification import Wall
from trainwright.trainer.starting import wall

pytestmark = [
    pytest.mark.requirement("GATE-5"),
    pytest.mark.skipif(wall.landlock_abi() < wall.MIN_ABI, reason="this kernel has no Landlock for workers"),
]


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder that is not in shared memory, where the tests' own are: every worker has access to that."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


TOLD = """
import json, sys
from pathlib import Path
from MODULE import known_failure
told = []
for one in json.loads(Path(__file__).with_name("told.json").read_text()):
    try:
        if one["path"].endswith(".module"):
            sys.path.append(one["path"].rpartition("/")[0])
            __import__(Path(one["path"]).stem)
        open(one["path"], one["mode"])
    except (OSError, ImportError) as error:
        told.append(known_failure(error).as_dict())
print(json.dumps(told))
"""


def told_of(order: dict[str, Any], tried: list[tuple[str, Path]], folder: Path) -> list[str]:
    """Return what user code behind the wall of an order is told of files that it opens, or modules that it imports."""
    (folder / "told.json").write_text(json.dumps([{"mode": mode, "path": str(path)} for mode, path in tried]))
    (folder / "told.py").write_text(TOLD.replace("MODULE", known_failure.__module__))
    command = [sys.executable, "-I", "-S", "-B", wall.__file__, json.dumps(order), sys.executable, "-P"]
    done = subprocess.run([*command, str(folder / "told.py")], capture_output=True, text=True, check=True)
    return [f"{one['message']} {one['remedy']}" for one in json.loads(done.stdout)]


def test_what_user_code_is_told_opens_no_secret_and_names_where_a_link_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, job, home, other = (tmp_path / one for one in ("code", "job", "home", "other"))
    for file in (code / ".git" / "config", code / ".trainwright" / "x", home / ".netrc", other / "net.py", job / "x"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(SECRET)
    (code / "link").symlink_to(other)
    by, env = worker_wall.Walled(code / ".trainwright", Wall(writes=[str(code)])), {"HOME": str(home)}
    order = worker_wall.order_for_job(by, job, {"code_root": str(code)}, env, None)
    hidden = [("w", code / ".git" / "config"), ("w", code / ".env")]
    hidden += [("r", code / ".trainwright" / "x"), ("r", home / ".netrc")]
    opened = [("r", code / "link" / "net.py"), ("r", other / "net.module"), ("w", code / "link" / "new")]
    told = told_of(order, [*hidden, *opened], job)
    assert ["never opened" in one for one in told] == [True] * 4 + [False] * 3
    assert ["walls: {" in one for one in told] == [False] * 4 + [True] * 3
    assert f"{other}/net.py ({code}/link/net.py leads there)" in told[4]
    assert [f"[{other}]" in one for one in told[4:]] == [True] * 3
    monkeypatch.syspath_prepend(str(code))
    closed_root = worker_wall.Walled(job, Wall())
    order = worker_wall.order_for_job(closed_root, job, {"code_root": str(code)}, env, None)
    assert f"The server imports from {code}" in told_of(order, [("w", code / "new")], job)[0]


@pytest.mark.parametrize("code", [".", "project"])
def test_of_a_home_in_a_root_no_hidden_name_is_read_nor_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    for name in (".bashrc", ".ssh/id", ".cache/huggingface/token", ".config/gh/hosts.yml", "bin/ls", "project/net.py"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(SECRET)
    workspace.mkdir()
    for name, key in (("CLOUD_KEY_FILE", home / "cloud.json"), ("MY_TOKEN_PATH", home / "project" / "its_own.txt")):
        key.write_text(SECRET)
        monkeypatch.setenv(name, str(key))
    by = worker_wall.Walled(workspace, Wall())
    order = {"code_root": str(home / code), "linked_roots": [str(home)]}
    env = {"HOME": str(home), "PATH": os.environ["PATH"]}
    built = worker_wall.order_for_job(by, tmp_path / "job", order, env, None)
    (tmp_path / "job").mkdir()
    wanted: dict[str, tuple[str, Any]] = {
        "read code": ("read", str(home / "project" / "net.py")),
        "read its key": ("read", str(home / "project" / "its_own.txt")),
        "write code": ("write", str(home / "project" / ("new" if code == "project" else "net.py"))),
        "write profile": ("write", str(home / ".bashrc")),
        "write a program": ("write", str(home / "bin" / "ls")),
        "write keys": ("write", str(home / ".ssh" / "new")),
        "read token": ("read", str(home / ".cache" / "huggingface" / "token")),
        "read a login": ("read", str(home / ".config" / "gh" / "hosts.yml")),
        "write a cache": ("write", str(home / ".cache" / "huggingface" / "hub" / "new")),
        "read a named key": ("read", str(home / "cloud.json")),
    }
    done = {name for name, came in walled_attempts(built, wanted, tmp_path / "job").items() if came == "done"}
    assert done - {"read its key"} == {"read code", "write code", "write a cache", "own temporary file"}
    assert ("read its key" in done) is (code == "project")
    assert built["environment"] == {"HF_TOKEN_PATH": os.devnull}
    listed = worker_wall.Walled(workspace, Wall(reads=[str(home / ".cache/huggingface/token")]))
    built = worker_wall.order_for_job(listed, tmp_path / "job", order, env, None)
    assert walled_attempts(built, {"read token": wanted["read token"]}, tmp_path / "job")["read token"] == "done"


HUB = "hf://datasets/org/name/rows.parquet"


@pytest.mark.parametrize(
    ("data", "model", "reads"),
    [
        ({"use": "parquet", "args": {"path": HUB, "target": "y"}}, {}, True),
        ({"use": "rows.py:make", "args": {"path": HUB}}, {}, True),
        ({"use": "rows.py:make", "args": {"note": HUB, "more": {"path": HUB}}}, {}, False),
        ({"use": "iris"}, {"note": HUB}, False),
    ],
)
def test_a_login_is_open_where_data_are_read_from_its_store_and_for_no_text_of_the_configuration(
    tmp_path: Path, data: dict[str, Any], model: dict[str, Any], reads: bool
) -> None:
    values = {"model": {"use": "net.py:make", "args": model}, "data": data}
    order, env = {"code_root": str(tmp_path), "config": values}, {"HOME": str(tmp_path / "home")}
    token = str(tmp_path / "home" / ".cache" / "huggingface" / "token")
    assert closed.logins_of(parse_config(values), env) == ([token] if reads else [])
    for more in ({"connections": {}}, {}):  # without any, nobody has asked which places the owner admits
        built = worker_wall.order_for_job(worker_wall.Walled(tmp_path, Wall()), tmp_path, order | more, env, None)
        assert (token in built["own_reads"]) is (reads and bool(more))
        assert (built["environment"] == {}) is (reads and bool(more))


def test_of_another_environment_its_own_folders_are_read_and_no_home_that_it_or_the_servers_path_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, job = tmp_path / "home", tmp_path / "job"
    prefix, site = home / "project" / ".venv", home / "base" / "lib" / "python3.12" / "site-packages"
    for file in (home / "notes.txt", home / "papers" / "draft.txt", prefix / "pyvenv.cfg", site / "net.py", job / "x"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(SECRET)
    (prefix / "bin").mkdir()
    (prefix / "bin" / "python").symlink_to(os.path.realpath(sys.executable))
    edited = prefix / "lib" / "python3.12" / "site-packages" / "one.dist-info" / "direct_url.json"
    edited.parent.mkdir(parents=True)
    edited.write_text(json.dumps({"url": f"file://{home}/papers", "dir_info": {"editable": True}}))
    said = [str(home), str(home / "papers"), str(site), str(edited.parents[1])]
    runtime = Runtime(
        python=str(prefix / "bin" / "python"), prefix=str(home / "papers"), ours=str(job), overlay=str(job), path=said
    )  # fmt: skip
    by, code = worker_wall.Walled(tmp_path / "workspace", Wall()), {"code_root": str(job)}
    wanted: dict[str, tuple[str, Any]] = {
        "a note": ("read", str(home / "notes.txt")),
        "a paper": ("read", str(home / "papers" / "draft.txt")),
        "packages": ("read", str(site / "net.py")),
        "its own": ("read", str(edited)),
    }
    monkeypatch.syspath_prepend(str(home))
    for one, read in ((runtime, {"packages", "its own"}), (None, set())):
        env = activated({"HOME": str(home), "PATH": os.environ["PATH"]}, one)
        outcomes = walled_attempts(worker_wall.order_for_job(by, job, code, env, one), wanted, job)
        assert {name for name, came in outcomes.items() if came == "done"} == {*read, "own temporary file"}


@pytest.mark.parametrize("imported", ["src", "."])
def test_code_that_the_server_imports_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, imported: str
) -> None:
    code, job = tmp_path / "code", tmp_path / "job"
    for folder in (code / "src", code / "outputs", job):
        folder.mkdir(parents=True)
    monkeypatch.syspath_prepend(str(code / imported))
    by = worker_wall.Walled(tmp_path / "workspace", Wall())
    env = {"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
    wanted: dict[str, tuple[str, Any]] = {
        "a module": ("write", str(code / imported / "yaml.py")),
        "at the top": ("write", str(code / "yaml.py")),
        "outputs": ("write", str(code / "outputs" / "one.txt")),
    }
    order = worker_wall.order_for_job(by, job, {"code_root": str(code)}, env, None)
    outcomes = walled_attempts(order, wanted, job)
    done = {"outputs"} if imported == "src" else set()
    assert {name for name, came in outcomes.items() if came == "done"} == {*done, "own temporary file"}


@pytest.mark.parametrize("is_there", [True, False])
def test_no_program_of_the_search_path_runs_before_a_wall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    for name in ("planted", "drivers"):
        program = tmp_path / name / "nvidia-modprobe"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\necho $1 $TOLD >{tmp_path}/{name}.txt\n")
        program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}/planted:{os.environ['PATH']}")
    monkeypatch.setenv("TOLD", SECRET)
    monkeypatch.setattr(wall, "CARD", str(tmp_path))
    monkeypatch.setattr(wall, "ITS_MEMORY", str(tmp_path / "memory"))
    monkeypatch.setattr(wall, "MODPROBE", str(tmp_path / ("drivers" if is_there else "nowhere") / "nvidia-modprobe"))
    wall._load_driver()
    assert {one.name: one.read_text() for one in tmp_path.glob("*.txt")} == (
        {"drivers.txt": "-u\n"} if is_there else {}
    )


def test_the_servers_python_is_not_written_where_it_lies_in_the_code(tmp_path: Path) -> None:
    order = worker_wall.order_for_job(
        worker_wall.Walled(tmp_path, Wall()), tmp_path, {"code_root": str(Path(sys.prefix).parent)}, os.environ, None
    )
    outcomes = walled_attempts(order, {"python": ("write", f"{sys.prefix}/pyvenv.cfg")}, tmp_path)
    assert outcomes["python"] == "refused"


def test_a_wall_stands_before_anything_that_takes_long_to_import(tmp_path: Path) -> None:
    order = {
        "reads": [str(tmp_path), sys.prefix, sys.base_prefix, *worker_wall.OF_THE_SYSTEM], "writes": [], "hidden": [],
        "own_reads": [], "own_writes": [], "rows": [], "ports": None, "filter": "", "roots": [], "unread": [],
        "code": [], "unwritten": [], "environment": {},
        "temporary": str(tmp_path / "one" / "two"), "closed": str(tmp_path / "absent"),
    }  # fmt: skip
    command = [sys.executable, "-X", "importtime", "-I", "-S", "-B", wall.__file__, json.dumps(order), "/bin/true"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    imported = {line.rpartition("|")[2].strip() for line in told.splitlines()}
    assert "ctypes" in imported
    assert not imported & {"typing", "pathlib", "subprocess", "logging", "inspect", "dataclasses", "trainwright"}
