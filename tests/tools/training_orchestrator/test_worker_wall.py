"""The wall round a worker: what user code tries past its own run is refused by the kernel, and named."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.tools.launchers.walled import ATTEMPTS, SECRET
from tests.tools.launchers.warm_starts import until
from tests.worlds.flowers import CONFIG, GOAL, MODEL, finish, write_code

from trainwright.tools import ledger
from trainwright.tools.launchers import LAUNCHERS, read_launch, worker_wall
from trainwright.tools.projects import create_project
from trainwright.tools.training_orchestrator import start_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.run import RunDirectory, RunKind
from trainwright.trainer.starting import wall

pytestmark = [
    pytest.mark.requirement("GATE-5"),
    pytest.mark.skipif(wall.landlock_abi() < wall.MIN_ABI, reason="this kernel has no Landlock for workers"),
]


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


@pytest.mark.slow
def test_user_code_reaches_no_other_run_no_held_out_rows_no_database_no_key_and_no_server(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.usefixtures("warm_start")
def test_where_the_workspace_lies_in_the_code_user_code_writes_what_is_there_but_for_what_others_run(
    tmp_path: Path,
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
@pytest.mark.usefixtures("warm_start")
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
@pytest.mark.usefixtures("warm_start")
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


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.usefixtures("warm_start")
def test_code_that_writes_elsewhere_is_told_of_the_wall_and_the_setting_and_a_setting_lets_it(
    place: Place, tmp_path: Path
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
@pytest.mark.usefixtures("warm_start")
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
@pytest.mark.usefixtures("warm_start")
def test_the_network_is_open_as_far_as_the_owner_says(place: Place) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as allowed, socket.create_server(("127.0.0.1", 0)) as other:
        ports = [one.getsockname()[1] for one in (allowed, other)]
        place.settings(f"walls: {{network: [{ports[0]}]}}")
        outcomes = place.outcomes({"allowed": ("connect", ports[0]), "other": ("connect", ports[1])})
    assert (outcomes["allowed"], outcomes["other"]) == ("done", "refused")
