"""The wall round a worker: what user code tries past its own run is refused by the kernel, and named."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.tools.launchers.warm_starts import until
from tests.worlds.flowers import CONFIG, GOAL, MODEL, finish, write_code

from trainwright.tools import ledger
from trainwright.tools.launchers import LAUNCHERS, closed, read_launch, worker_wall
from trainwright.tools.launchers.environment import activated
from trainwright.tools.projects import create_project
from trainwright.tools.training_orchestrator import start_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.config import parse_config
from trainwright.trainer.run import RunDirectory, RunKind
from trainwright.trainer.run.runtime import Runtime
from trainwright.trainer.run.specification import Wall
from trainwright.trainer.starting import wall

pytestmark = [
    pytest.mark.requirement("GATE-5"),
    pytest.mark.skipif(wall.landlock_abi() < wall.LEAST_ABI, reason="this kernel has no Landlock for workers"),
]
SECRET = "the owner's own"
ATTEMPTS = """
import ctypes, json, os, signal, socket, subprocess, sys, tempfile
from pathlib import Path
WANTED = json.loads(Path(__file__).with_name("wanted.json").read_text())
libc = ctypes.CDLL(None, use_errno=True)


def read(path):
    return os.open(path, os.O_RDONLY)


def write(path):  # past the guard of Python's own calls
    if libc.open(path.encode(), os.O_WRONLY | os.O_CREAT, 0o600) == -1:
        raise PermissionError(ctypes.get_errno(), path)


def child(path):
    subprocess.run(["cat", path], check=True, capture_output=True)


def end(process):
    os.kill(process, signal.SIGTERM)


def connect(port):
    socket.create_connection(("127.0.0.1", port)).close()


outcomes = {}
for name, (act, target) in WANTED.items():
    try:
        globals()[act](target)
        outcomes[name] = "done"
    except (OSError, subprocess.CalledProcessError) as error:
        outcomes[name] = "refused"
with tempfile.NamedTemporaryFile() as own:
    outcomes["own temporary file"] = "done" if os.path.dirname(own.name) == os.environ["TMPDIR"] else own.name
print("OUTCOMES", json.dumps(outcomes), flush=True)
"""


class Place:
    """A workspace beside its user's code, and a project whose smoke run has ended."""

    def __init__(self, folder: Path, workspace: str = "workspace") -> None:
        self.folder, self.code = folder, folder / "code"
        write_code(self.code)
        self.workspace = Workspace.open(folder / workspace)
        create_project(self.workspace, "flowers", intent="", goal=GOAL, config=CONFIG | {"code_root": str(self.code)})

    def settings(self, text: str) -> None:
        """Add to the owner's settings, under which a server starts anew; the code's folder is the only root then."""
        path = self.workspace.path / "settings.yaml"
        self.workspace.close()
        path.write_text(path.read_text().replace("code_roots:\n- ..", "code_roots: [../code]") + text)
        self.workspace = Workspace.open(self.folder / "workspace")

    def train(self, before: str = "") -> RunDirectory:
        """Have the model trained, with more in front of it; the run's folder, which may have failed."""
        (self.code / "flower_model.py").write_text(before + MODEL)
        view = finish(self.workspace, start_run(self.workspace, "flowers", RunKind.SMOKE).run_id)
        return self.workspace.run_directory("flowers", view.run_id)

    def outcomes(self, wanted: dict[str, tuple[str, Any]]) -> dict[str, str]:
        """Have the model try such things when it is imported; what came of each."""
        (self.code / "wanted.json").write_text(json.dumps(wanted))
        log = self.train(ATTEMPTS).log.read_text()
        told = [line for line in log.splitlines() if line.startswith("OUTCOMES")]
        assert told, log
        return dict(json.loads(told[0].removeprefix("OUTCOMES")))

    def started(self, run: RunDirectory) -> dict[str, Any]:
        """Return what the ledger says of the wall of a run."""
        with self.workspace.session() as session:
            bodies = [body for _, body in ledger.entries(session, "flowers", "run_started")]
        return next(body["wall"] for body in bodies if body["run_id"] == run.run_id)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder that is not in shared memory, where the tests' own are: every worker has access to that."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.workspace.close()


@pytest.fixture(params=["cold", "warm"])
def started(request: pytest.FixtureRequest) -> str:
    """How workers start: as a process of their own, or forked off one that has made its imports."""
    if request.param == "warm":
        request.getfixturevalue("warm_start")
    return str(request.param)


@pytest.mark.slow
def test_user_code_reaches_no_other_run_no_held_out_rows_no_database_no_key_and_no_server(
    place: Place, started: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "owner" / "signing.key"
    key.parent.mkdir()
    key.write_text(SECRET)
    monkeypatch.setenv("TRAINWRIGHT_SIGNING_KEY", str(key))
    other, server = place.train(), subprocess.Popen(["sleep", "300"])
    workspace = place.workspace.path
    wanted: dict[str, tuple[str, Any]] = {
        "another run's record": ("read", str(other.artifacts / "summary.json")),
        "the held-out rows": ("read", str(next((other.artifacts / "rows" / "test").iterdir()))),
        "another run's folder, written": ("write", str(other.path / "status.json")),
        "the database": ("read", str(workspace / "workspace.sqlite")),
        "the database, written": ("write", str(workspace / "workspace.sqlite")),
        "the owner's settings, written": ("write", str(workspace / "settings.yaml")),
        "the owner's key": ("read", str(key)),
        "the owner's key, by a child": ("child", str(key)),
        "a new file beside the code": ("write", str(place.code / "log.txt")),
        "the interpreter's packages, written": ("write", f"{sys.prefix}/injected.pth"),
        "another's temporary file": ("write", f"/tmp/{tmp_path.name}"),
        "the server's environment": ("read", f"/proc/{server.pid}/environ"),
        "the server's life": ("end", server.pid),
        "its data": ("read", str(place.code / "iris.csv")),
        "shared memory": ("write", f"/dev/shm/{tmp_path.name}"),
    }
    outcomes = place.outcomes(wanted)
    assert server.poll() is None
    server.kill()
    server.wait()
    Path(f"/dev/shm/{tmp_path.name}").unlink()
    done = {name for name, came in outcomes.items() if came == "done"}
    assert done == {"its data", "a new file beside the code", "shared memory", "own temporary file"}, outcomes


@pytest.mark.slow
def test_where_the_workspace_lies_in_the_code_user_code_writes_what_is_there_but_for_what_others_run(
    tmp_path: Path, started: str
) -> None:
    place = Place(tmp_path, workspace="code/.trainwright")
    for folder in (".git/hooks", "outputs"):
        (place.code / folder).mkdir(parents=True)
    (place.code / "log.txt").touch()
    other = place.train()
    wanted: dict[str, tuple[str, Any]] = {
        "another run's record": ("read", str(other.artifacts / "summary.json")),
        "the database": ("read", str(place.workspace.path / "workspace.sqlite")),
        "the owner's settings, written": ("write", str(place.workspace.path / "settings.yaml")),
        "a hook of git": ("write", str(place.code / ".git" / "hooks" / "post-commit")),
        "outside": ("write", str(tmp_path / "outside.txt")),
        "a folder that is there": ("write", str(place.code / "outputs" / "one.txt")),
        "a file that is there": ("write", str(place.code / "log.txt")),
    }
    outcomes = place.outcomes(wanted)
    done = {name for name, came in outcomes.items() if came == "done"}
    assert done == {"a folder that is there", "a file that is there", "own temporary file"}, outcomes
    failure = (
        place.train("import os\nos.makedirs(os.path.join(os.path.dirname(__file__), 'new'))\n").last_status().failure
    )
    assert failure is not None
    assert "Make 'new' there beforehand" in failure.remedy
    assert place.started(other)["not_covered"] == worker_wall.not_covered(wall.landlock_abi(), is_open=True)
    place.workspace.close()


TOLD = """
import json, sys
from pathlib import Path
from trainwright.trainer.base.failures import known_failure
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
    (folder / "told.py").write_text(TOLD)
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


def walled_attempts(order: dict[str, Any], wanted: dict[str, tuple[str, Any]], folder: Path) -> dict[str, str]:
    """Have a process behind the wall of an order try such things; what came of each."""
    (folder / "wanted.json").write_text(json.dumps(wanted))
    (folder / "attempts.py").write_text(ATTEMPTS)
    command = [sys.executable, "-I", "-S", "-B", wall.__file__, json.dumps(order)]
    done = subprocess.run(
        [*command, sys.executable, str(folder / "attempts.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.removeprefix("OUTCOMES")))


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


@pytest.mark.slow
def test_a_worker_that_the_server_forks_off_its_own_warm_process_is_walled_in(place: Place) -> None:
    place.settings("warm_workers: {most: 1}")
    other, warm = place.train(), LAUNCHERS["own"].warm  # type: ignore[attr-defined]
    try:
        until(warm.processes, "no warm process became ready")
        outcomes = place.outcomes({"another run": ("read", str(other.artifacts / "summary.json"))})
    finally:
        warm.close()
    forked = [launch for one in other.path.parent.iterdir() if (launch := read_launch(one)) and launch.parent]
    assert len(forked) == 1
    assert outcomes == {"another run": "refused", "own temporary file": "done"}


@pytest.mark.slow
def test_a_ledger_that_is_silent_on_a_wall_is_named_and_temporary_files_go_with_the_run(place: Place) -> None:
    run = place.train("import tempfile\ntempfile.mkstemp()\n")
    path = place.workspace.path
    assert place.started(run)["landlock"] == wall.landlock_abi()
    assert verify_workspace(path).problems == []
    assert not worker_wall.temporary_of(run.path).exists()
    assert worker_wall.temporary_of(run.path).parent.is_dir()
    with closing(sqlite3.connect(path / "workspace.sqlite")) as database, database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {name}")
        changed = "UPDATE ledger SET body = json_remove(body, '$.wall') WHERE kind = 'run_started'"
        assert database.execute(changed).rowcount == 1
    told = "the ledger does not say which wall was round its worker"
    assert any(told in problem for problem in verify_workspace(path).problems)


@pytest.mark.slow
def test_without_the_wall_the_same_code_does_what_it_wants(place: Place) -> None:
    place.settings("walls: off")
    other = place.train()
    wanted: dict[str, tuple[str, Any]] = {
        "the held-out rows": ("read", str(next((other.artifacts / "rows" / "test").iterdir()))),
        "the database, written": ("write", str(place.workspace.path / "workspace.sqlite")),
    }
    (place.code / "wanted.json").write_text(json.dumps(wanted))
    run = place.train(ATTEMPTS.replace('os.environ["TMPDIR"]', "tempfile.gettempdir()"))
    assert '"the held-out rows": "done", "the database, written": "done"' in run.log.read_text()
    assert place.started(run) == {"none": "the owner's settings.yaml switches walls off"}
    assert verify_workspace(place.workspace.path).problems == []


@pytest.mark.slow
def test_code_that_writes_elsewhere_is_told_of_the_wall_and_the_setting_and_a_setting_lets_it(
    place: Place, started: str, tmp_path: Path
) -> None:
    out = tmp_path / "wandb"
    out.mkdir()
    code = f"from pathlib import Path\n(Path({str(out)!r}) / 'offline').mkdir()\n"
    failure = place.train(code).last_status().failure
    assert failure is not None
    assert (failure.category, failure.details["path"]) == ("user_code", str(out / "offline"))
    assert "tried to write" in failure.message
    assert "wall round the worker" in failure.message
    assert f"walls: {{writes: [{out}]}}" in failure.remedy
    place.settings(f"walls: {{writes: [{out}]}}")
    run = place.train(code)
    assert run.last_status().failure is None
    assert (out / "offline").is_dir()
    assert place.started(run)["writes"] == [str(out)]


@pytest.mark.slow
def test_code_that_reads_elsewhere_is_told_of_the_wall_and_the_setting(place: Place, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text(SECRET)
    place.settings("")
    code = f"TEXT = open({str(tmp_path / 'secret.txt')!r}).read()\n"
    failure = place.train(code).last_status().failure
    assert failure is not None
    assert "tried to read" in failure.message
    assert f"walls: {{reads: [{tmp_path}]}}" in failure.remedy


@pytest.mark.slow
@pytest.mark.skipif(wall.landlock_abi() < 4, reason="this kernel's Landlock knows no ports")
def test_the_network_is_open_as_far_as_the_owner_says(place: Place) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as allowed, socket.create_server(("127.0.0.1", 0)) as other:
        ports = [one.getsockname()[1] for one in (allowed, other)]
        place.settings(f"walls: {{network: [{ports[0]}]}}")
        outcomes = place.outcomes({"allowed": ("connect", ports[0]), "other": ("connect", ports[1])})
    assert (outcomes["allowed"], outcomes["other"]) == ("done", "refused")


def test_a_wall_takes_few_milliseconds_of_processor_time(tmp_path: Path) -> None:
    order = {
        "reads": [str(tmp_path), sys.prefix, sys.base_prefix, *worker_wall.OF_THE_SYSTEM], "writes": [], "hidden": [],
        "own_reads": [], "own_writes": [], "rows": [], "ports": None, "filter": "", "roots": [], "unread": [],
        "code": [], "unwritten": [], "environment": {},
        "temporary": str(tmp_path / "one" / "two"), "closed": str(tmp_path / "absent"),
    }  # fmt: skip
    command = [sys.executable, "-I", "-S", "-B", wall.__file__, json.dumps(order), "/bin/true"]
    seconds = []
    for _ in range(7):
        before = os.times()
        subprocess.run(command, check=True)
        after = os.times()
        seconds.append(sum(after[2:4]) - sum(before[2:4]))
    assert sorted(seconds)[3] <= 0.05, seconds
