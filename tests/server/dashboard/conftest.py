"""A page that is really served, over a workspace with a trained run and one that grows under the test's hands."""

from __future__ import annotations

import http.client
import json
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.worlds.flowers import CONFIG, GOAL, train, write_code

from trainwright.server.dashboard.serving import Dashboard
from trainwright.tools import projects
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import Run, Study, Trial
from trainwright.trainer.config import config_digest, parse_config
from trainwright.trainer.run import RunDirectory, RunKind, RunSpecification, RunState, RunStatus

PROJECT = "flowers"
GROWING = "ablation-flowers-20261123-120000-0a0b0c"
HOSTILE = '<script>window.broken = 1</script><img src=x onerror="window.broken = 1"> tell irises apart'


def chromium_of(module: str) -> tuple[str, Any]:
    """Return the path of a browser and the module that drives it; skip where one is missing."""
    playwright = pytest.importorskip(module, reason="playwright is not installed: no browser to drive")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    return program or pytest.skip("there is no chromium here to show the page"), playwright


class Answered(NamedTuple):
    """An answer of the page's server."""

    status: int
    headers: Message
    body: bytes


class Growing:
    """A run that no worker trains: its directory is written as a worker writes it, step by step."""

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory
        self.step = 0
        self.attempt = 1

    def grow(self, steps: int, loss: float = 1.0) -> None:
        """Record some steps, the loss going down a little in each."""
        rows = []
        for _ in range(steps):
            self.step += 1
            rows.append(("train/loss", self.step, loss / self.step, time.time()))
        with self.directory.metrics(writer=True) as store:
            store.write(rows)
        self.tell()

    def tell(self, state: RunState = RunState.RUNNING, **more: Any) -> None:
        """Write the run's status."""
        now = time.time()
        fields = {"attempt": self.attempt, "step": self.step, "total_steps": 1000, "stage": "training"}
        self.directory.write_status(RunStatus(state=state, started_at=now - 60, heartbeat_at=now, **{**fields, **more}))


@dataclass
class Served:
    """The page, and what is behind it."""

    page: Dashboard
    workspace: Workspace
    smoke: str
    growing: Growing

    @property
    def address(self) -> str:
        """The address with its token."""
        return self.page.access.address

    def ask(self, path: str, method: str = "GET", *, token: bool = True, **headers: str) -> Answered:
        """Send one request, with the cookie of who has the token, and return the whole answer."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.page.access.port, timeout=20)) as connection:
            answer = self._sent(connection, path, method, token=token, **headers)
            return Answered(answer.status, answer.headers, answer.read())

    def read(self, path: str) -> Any:
        """Return what an address answers."""
        answer = self.ask(path)
        assert answer.status == 200, answer.body
        return json.loads(answer.body)

    @contextmanager
    def stream(self, path: str, last: str = "") -> Iterator[Iterator[tuple[str, dict[str, Any]]]]:
        """Give the events of a stream as (id, data), from the id `last` on as a browser that reconnects asks."""
        headers = {"Last_Event_ID": last} if last else {}
        with (
            closing(http.client.HTTPConnection("127.0.0.1", self.page.access.port, timeout=20)) as connection,
            closing(self._sent(connection, path, "GET", token=True, **headers)) as answer,
        ):
            assert answer.status == 200
            yield _events(answer)

    def _sent(
        self, connection: http.client.HTTPConnection, path: str, method: str, *, token: bool, **headers: str
    ) -> http.client.HTTPResponse:
        cookie = {"Cookie": f"{self.page.access.cookie}={self.page.access.token}"} if token else {}
        connection.request(method, path, headers={**cookie, **{k.replace("_", "-"): v for k, v in headers.items()}})
        return connection.getresponse()


def _events(answer: http.client.HTTPResponse) -> Iterator[tuple[str, dict[str, Any]]]:
    place = ""
    for line in iter(answer.readline, b""):
        name, _, value = line.decode().strip().partition(": ")
        if name == "id":
            place = value
        elif name == "data":
            yield place, json.loads(value)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The page over a project with a smoke run that was trained, and a run that grows."""
    base: Path = tmp_path_factory.mktemp("page")
    write_code(base / "code")
    workspace = Workspace.open(base / "workspace")
    projects.create_project(workspace, PROJECT, intent=HOSTILE, goal=GOAL, config=CONFIG)
    smoke = train(workspace, RunKind.SMOKE, PROJECT).run_id
    growing = Growing(add_run(workspace, GROWING))
    growing.grow(20)
    page = Dashboard(workspace.path)
    page.start()
    yield Served(page, workspace, smoke, growing)
    page.stop()
    workspace.close()


def add_run(workspace: Workspace, run_id: str, **columns: Any) -> RunDirectory:
    """Add a run whose directory the test writes."""
    config = parse_config(CONFIG)
    digest = config_digest(config)
    kind = RunKind(run_id.partition("-")[0])
    with workspace.session() as session:
        identity = {"config_digest": digest, "base_config_digest": digest, "seed": 42}
        session.add(Run(id=run_id, project=PROJECT, kind=kind, **{**identity, "state": "running", **columns}))
    code = str(workspace.path.parent / "code")
    plan = RunSpecification(
        run_id=run_id, project=PROJECT, kind=kind, config=config, config_digest=digest, code_root=code
    )
    return RunDirectory.create(workspace.run_directory(PROJECT, run_id).path, plan)


def add_study(workspace: Workspace, objectives: Sequence[dict[str, Any]] = (), mark: str = "0a0b0c") -> str:
    """Add a completed study whose learning rate decides, and return its id; its further objectives vary in rounds."""
    name = f"study-{PROJECT}-20261125-120000-{mark}"
    ranges = {"type": "float", "low": 0.0, "high": 1.0}
    space = {"optimizer.learning_rate": ranges, "model.args.dropout": ranges}
    objective = {"metric": "accuracy", "direction": "maximize"}
    search = {"trials": 20, "space": space, "objectives": list(objectives)}
    with workspace.session() as session:
        row = {"search": search, "objective": objective, "base_values": {}, "base_config_digest": ""}
        session.add(Study(id=name, project=PROJECT, state="completed", **row))
        session.flush()
        for number in range(12):
            given = {"optimizer.learning_rate": number / 12, "model.args.dropout": (number * 0.37) % 1.0}
            further = {one["metric"]: float((number * 5) % 12) for one in objectives}
            row = {"parameters": given, "value": float(number), "further": further}
            session.add(Trial(study=name, number=number, state="completed", **row))
    return name
