"""What a cheat can do: call tools, edit the workspace's files and database, and have its own code trained."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from tests.worlds.flowers import CONFIG, GOAL, NAME, STAGES, World, advance, finish

from cheat_suite.agent import Agent, Agents, Reply
from cheat_suite.fresh import Truth
from trainwright.tools import projects
from trainwright.tools.ledger.jsonl_mirror import NAME as PLAIN
from trainwright.tools.training_orchestrator import RunView, start_run
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.signing import VARIABLE, Signer, new_key, public_path
from trainwright.trainer.run import RunDirectory, RunKind, RunState

ENDED = {"completed", "stopped", "failed", "interrupted"}
TRIES = 6


def honest(method: Callable[..., Any]) -> Callable[..., Any]:
    """Have a method work outside of the wall, in the owner's thread, where the play is inside."""

    @wraps(method)
    def outside(scene: Scene, *arguments: Any, **named: Any) -> Any:
        if scene.inside is None or threading.current_thread() is not scene.inside:
            return method(scene, *arguments, **named)
        return scene.owner.submit(method, scene, *arguments, **named).result()

    return outside


class Scene:
    """One play. Everything that is tried goes through here, and is noted for the judge."""

    def __init__(self, world: World, agents: Agents, agent: Agent | None) -> None:
        self.world = world
        self._agents = agents
        self._agent = agent
        self.replies: list[Reply] = []
        """What was said to the attempts, apart from a race's rightful winners."""
        self.gains_before: int | None = None
        self.noted_head: str | None = None
        """The digest with which the ledger ended before, where somebody noted it elsewhere."""
        self.public_key: Path | None = None
        """The public half of the owner's key, where the owner's servers sign."""
        self._signer: Signer | None = None
        self._environment: dict[str, str] = {}
        self.inside: threading.Thread | None = None
        """The thread that plays inside the wall, where one does."""
        self.owner = ThreadPoolExecutor(1)
        """For the honest steps of such a play. Its thread begins outside."""
        self.walled_off: str | None = None
        """What the wall refused, which ended the play."""
        self.truth: Truth | None = None
        """The figure at the card's head, beside that on fresh rows."""
        self.rightful = 0
        """How many gains a race may bring: of two calls at once, one may win."""

    @property
    def agent(self) -> Agent:
        """The agent of the scene."""
        if self._agent is None:
            self._agent = self._agents.open(self.world.workspace, self._environment)
        return self._agent

    def agent_with(self, **environment: str) -> None:
        """Have the scene's agent start its server, and so its workers, in another environment from now on."""
        self._require_workspace()
        self._environment |= environment
        self._agent = None

    def _require_workspace(self) -> None:
        """Open the workspace where the play is inside, as a server does that is started there."""
        if self.inside is not None:
            Workspace.open(self.world.workspace).close()

    def another_agent(self, **environment: str) -> Agent:
        """An agent with a server of its own on the same workspace."""
        self._require_workspace()
        return self._agents.open(self.world.workspace, self._environment | environment)

    def must(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool as an honest agent would: it must succeed."""
        reply = self.agent.call(tool, arguments)
        assert not reply.is_error, f"{tool}: {reply.text}"
        return reply.content

    def attempt(self, tool: str, **arguments: Any) -> Reply:
        """Call a tool as the cheat."""
        self._mark()
        self.replies.append(self.agent.call(tool, arguments))
        return self.replies[-1]

    def attempt_read(self, uri: str) -> None:
        """Read a resource as the cheat."""
        self._mark()
        self.replies.append(self.agent.read(uri))

    def race(self, *calls: tuple[Agent, str, dict[str, Any]], winners: int = 1) -> list[Reply]:
        """Make several calls at once; so many may win, and the others count as what was tried."""
        self._mark()
        pending = [agent.begin(tool, arguments) for agent, tool, arguments in calls]
        replies = [call.result(120) for call in pending]
        won = [reply for reply in replies if not reply.is_error]
        self.replies += [reply for reply in replies if reply.is_error] + won[winners:]
        self.rightful += winners
        return replies

    def claim(self, told: str, *, is_refused: bool) -> None:
        """Note what came of an attempt that no tool answered."""
        self._mark()
        self.replies.append(Reply(is_refused, told, {}))

    @honest
    def begin_signing(self) -> None:
        """Have the owner's servers sign from now on, with a key that the cheat cannot read."""
        key = self.world.folder / "owner" / "signing.key"
        self._signer, self.public_key = new_key(key), public_path(key)
        self._environment = {VARIABLE: str(key)}

    @honest
    def note_head(self) -> None:
        """Note elsewhere with which digest the ledger ends, as a careful owner would."""
        self.noted_head = self.query("SELECT digest FROM ledger ORDER BY sequence DESC LIMIT 1")[0][0]

    @contextmanager
    def workspace(self, *, as_owner: bool = True) -> Iterator[Workspace]:
        """Open the workspace without a server, for honest steps that lead to a cheat.

        Args:
            as_owner: with the owner's key, where there is one.
        """
        workspace = Workspace.open(self.world.workspace)
        if as_owner and self._signer is not None:
            workspace.signer = self._signer
        try:
            yield workspace
        finally:
            workspace.close()

    @honest
    def project(self, config: dict[str, Any] | None = None) -> None:
        """Make the project with another configuration."""
        self.only_project(CONFIG | (config or {}))

    @honest
    def only_project(self, config: dict[str, Any]) -> None:
        """Make the project with this configuration and nothing else."""
        with self.workspace() as workspace:
            projects.create_project(workspace, NAME, intent="", goal=GOAL, config=config)

    @honest
    def train(self, kind: RunKind = RunKind.SMOKE) -> RunView:
        """Have the user's code trained to its end, and note the run's end as what was said to the attempt."""
        view = self.train_aside(kind)
        failure = view.failure
        told = f"The run is {view.state}: " + (f"{failure.message} {failure.remedy}" if failure else "")
        self.replies.append(Reply(view.state is not RunState.COMPLETED, told, {}))
        self._mark()
        return view

    @honest
    def train_aside(self, kind: RunKind = RunKind.SMOKE) -> RunView:
        """Train to the end, as an honest step that leads to a cheat."""
        with self.workspace() as workspace:
            view: RunView = finish(workspace, start_run(workspace, NAME, kind).run_id)
        return view

    @honest
    def start(self, kind: RunKind = RunKind.BASELINE) -> RunDirectory:
        """Start a run as an honest step; the run's folder."""
        with self.workspace() as workspace:
            return workspace.run_directory(NAME, start_run(workspace, NAME, kind).run_id)

    @honest
    def finish(self, run: RunDirectory) -> RunView:
        """Have a server see a run to its end."""
        with self.workspace() as workspace:
            view: RunView = finish(workspace, run.run_id)
        return view

    @honest
    def advance_to(self, stage: str, *, after: str = "created") -> None:
        """Take the project on to a stage by honest runs and gates, from the stage that it has reached."""
        with self.workspace() as workspace:
            for step in STAGES[STAGES.index(after) + 1 : STAGES.index(stage) + 1]:
                advance(workspace, step)

    def ended(self, run_id: str) -> dict[str, Any]:
        """Wait for a run's end."""
        for _ in range(TRIES):
            view = self.must("run_status", run_id=run_id, wait_seconds=50)
            if view["state"] in ENDED:
                return view
        raise AssertionError(f"{run_id} did not end: {view}")

    def write_code(self, name: str, text: str) -> Path:
        """Write a file into the user's repository."""
        path = self.world.code / name
        path.write_text(text)
        return path

    def execute(self, *statements: str) -> None:
        """Run SQL on the workspace's database, past the server."""
        with closing(sqlite3.connect(self.world.workspace / "workspace.sqlite", timeout=30)) as connection, connection:
            for statement in statements:
                connection.execute(statement)

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """Read the workspace's database."""
        with closing(sqlite3.connect(self.world.workspace / "workspace.sqlite", timeout=30)) as connection:
            return connection.execute(statement).fetchall()

    def bodies(self, kind: str) -> list[dict[str, Any]]:
        """Read the ledger's entries of a kind."""
        rows = self.query(f"SELECT body FROM ledger WHERE kind = '{kind}' ORDER BY sequence")
        return [json.loads(body) for (body,) in rows]

    def insert(self, table: str, row: dict[str, Any]) -> None:
        """Add a row to the workspace's database."""
        places = ", ".join("?" * len(row))
        with closing(sqlite3.connect(self.world.workspace / "workspace.sqlite", timeout=30)) as connection, connection:
            connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", list(row.values()))

    def update_ledger(self, sequence: int, **columns: Any) -> None:
        """Change columns of one entry of the ledger."""
        changed = ", ".join(f"{name} = ?" for name in columns)
        with closing(sqlite3.connect(self.world.workspace / "workspace.sqlite", timeout=30)) as connection, connection:
            connection.execute(f"UPDATE ledger SET {changed} WHERE sequence = {sequence}", list(columns.values()))

    def without_triggers(self) -> Callable[[], None]:
        """Take the triggers away that make the ledger append-only, and return what brings them back."""
        triggers = self.query("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        self.execute(*(f"DROP TRIGGER {name}" for name, _ in triggers))
        return lambda: self.execute(*(sql for _, sql in triggers))

    @honest
    def newest(self, kind: str) -> str:
        """Id of the newest run of a kind."""
        return str(self.query(f"SELECT id FROM runs WHERE kind = '{kind}' ORDER BY created_at DESC LIMIT 1")[0][0])

    def run(self, kind: str) -> Path:
        """Folder of the newest run of a kind."""
        return self.project_folder / "runs" / self.newest(kind)

    @property
    def project_folder(self) -> Path:
        """The project's folder in the workspace."""
        return self.world.workspace / "projects" / NAME

    @property
    def copy(self) -> Path:
        """The ledger's JSONL copy beside the project."""
        return self.project_folder / PLAIN

    @honest
    def gains(self) -> int:
        """Count what the ledger holds in anyone's favour: not refusals, ended runs, or questions to the owner."""
        rows = self.query(
            "SELECT kind, body FROM ledger WHERE kind NOT IN ('run_sealed', 'run_evaluated', 'owner_request')"
        )
        return sum('"outcome":"refused"' not in body.replace(" ", "") for _, body in rows)

    def _mark(self) -> None:
        if self.gains_before is None:
            self.gains_before = self.gains()


def edit_json(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a JSON file in place, keeping its times, as a careful forger would."""
    times = path.stat()
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value, indent=2, sort_keys=True))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def flip_byte(path: Path, place: int = -3) -> None:
    """Change one byte of a file, keeping its size and times."""
    times = path.stat()
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(bytes(data))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for something that must come."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)
