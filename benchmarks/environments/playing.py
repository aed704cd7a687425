"""Plays a project in an environment over a real server: smoke, a baseline, one killed and resumed, a release."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from making import CONDA
from mcp import Client, StdioServerParameters
from rows import KILLED, Row

from trainwright.server import cli
from trainwright.trainer.base.overlay import MARKER
from trainwright.trainer.run import RunDirectory

sys.path.insert(1, str(Path(__file__).parents[1] / "resume"))  # how two runs are compared
from comparing import differences

ENDED = frozenset({"completed", "failed", "stopped", "interrupted"})
MAX_CALLS, LONGEST_WAIT = 60, 50
PREDICT = """
import runpy, sys
overlay, script, rows = sys.argv[1:]
sys.path.append(overlay)
sys.argv = [script, rows]
runpy.run_path(script, run_name="__main__")
"""


@dataclass
class Played:
    """What came of a row."""

    figures: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    released: bool = False
    bit_equal: bool = False
    verified: bool = False
    predicted: bool = False
    overlay_mb: float = 0.0
    added: list[str] = field(default_factory=list)
    """Packages of the overlay that the runs used."""

    @property
    def is_released(self) -> bool:
        """Whether there is a release, which everything agrees with and which answers."""
        return self.released and self.verified and self.predicted


class Game:
    """One project on one server."""

    def __init__(self, client: Client, row: Row, folder: Path, environment: dict[str, Any]) -> None:
        self.client, self.row, self.folder, self.played = client, row, folder, Played()
        own = KILLED if "trainer" not in row.config else {}
        self.config = {**row.config, **own, "environment": environment, "code_root": str(folder / "project")}
        self.runs = folder / "workspace" / "projects" / row.name / "runs"

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return the structured content of a call. Raises RuntimeError where it was refused."""
        result = await self.client.call_tool(tool, arguments)
        if result.is_error or result.structured_content is None:
            text = "\n".join(block.text for block in result.content if block.type == "text")
            raise RuntimeError(f"{tool}: {text}")
        return result.structured_content

    async def play(self) -> Played:
        """Play it all; what does not succeed is among the problems."""
        try:
            await self.call(
                "create_project", name=self.row.name, intent="measure", goal=self.row.goal, config=self.config
            )
            await self.run("smoke")
            await self.call("pass_gate", project=self.row.name, phase="planning")
            whole = await self.run("baseline")
            await self.killed(whole)
            await self.release()
            self.verify()
            self.predict(whole)
        except RuntimeError as error:
            self.played.problems.append(str(error)[-1500:])
        return self.played

    async def run(self, kind: str) -> str:
        """Start a run, and wait for its end; return its id. Raises RuntimeError where it does not complete."""
        view = await self.call("start_training", project=self.row.name, kind=kind, wait_seconds=LONGEST_WAIT)
        return await self.ended(view)

    async def ended(self, view: dict[str, Any]) -> str:
        """Wait for a run's end."""
        while view["state"] not in ENDED:
            view = await self.call("run_status", run_id=view["run_id"], wait_seconds=LONGEST_WAIT)
        if view["state"] != "completed":
            log = self.directory(view["run_id"]).log
            raise RuntimeError(f"{view['run_id']} {view['state']}: {view.get('failure')}\n{log.read_text()[-800:]}")
        return str(view["run_id"])

    async def killed(self, whole: str) -> None:
        """Kill a second baseline in mid-training, resume it, and compare it with the first, bit for bit."""
        steps = self.directory(whole).status().step
        view = await self.call("start_training", project=self.row.name, kind="baseline", idempotency_key="killed")
        run = view["run_id"]
        view = await self.call("run_status", run_id=run, wait_seconds=LONGEST_WAIT, after_step=steps // 3)
        process = self.directory(run).status().process
        if view["state"] in ENDED or process is None:
            raise RuntimeError(f"{run} had ended before it was killed: {view['state']}, {view.get('failure')}")
        os.kill(process.pid, signal.SIGKILL)
        at = self.directory(run).status().step
        while (view := await self.call("run_status", run_id=run))["state"] not in ENDED:
            pass
        view = await self.call("resume_training", project=self.row.name, run_id=run, wait_seconds=LONGEST_WAIT)
        await self.ended(view)
        found = differences(self.directory(run), self.directory(whole))
        self.played.bit_equal = not found
        self.played.problems += [f"resumed after step {at} of {steps}: {each}" for each in found[:5]]

    async def release(self) -> None:
        """Follow the server to the final model. Raises RuntimeError where it stops before."""
        for _ in range(MAX_CALLS):
            answer = await self.call("advance", project=self.row.name, wait_seconds=LONGEST_WAIT)
            if answer["ended"] == "finished":
                self.played.released = True
                return
            if answer["ended"] in {"failure", "refusal"}:
                raise RuntimeError(json.dumps(answer)[:1500])
            if answer["ended"] == "decision":
                following = answer["next"]
                await self.call(following["tool"], **following["arguments"])
        raise RuntimeError(f"no release after {MAX_CALLS} calls: {json.dumps(answer)[:800]}")

    def directory(self, run: str) -> RunDirectory:
        """Return a run's directory."""
        kind, _, number = run.rpartition("/")[2].partition("-")
        return RunDirectory(sorted(self.runs.glob(f"{kind}-*"))[int(number) - 1])

    def verify(self) -> None:
        """Let `trainwright verify` compare everything."""
        done = subprocess.run(
            [sys.executable, "-P", "-m", cli.__name__, "verify", "--workspace", str(self.folder / "workspace")],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.played.verified = done.returncode == 0
        if done.returncode:
            self.played.problems.append(f"verify: {(done.stdout + done.stderr)[-800:]}")

    def predict(self, run: str) -> None:
        """Let predict.py answer in the environment, whose worker's overlay has the runtime that it may lack."""
        specification = self.directory(run).specification()
        runtime, model = specification.runtime, self.runs.parent / "final_model"
        if runtime is None:
            raise RuntimeError(f"{run} ran in the server's own environment")
        overlay = Path(runtime.overlay)
        self.played.overlay_mb = sum(path.stat().st_size for path in overlay.rglob("*") if path.is_file()) / 1e6
        self.played.added = list(json.loads((overlay / MARKER).read_text())["packages"])
        rows = next((path for path in (self.folder / "project" / "rows.csv",) if path.is_file()), None)
        given = rows or _stored_rows(self.runs)
        done = subprocess.run(
            [runtime.python, "-c", PREDICT, str(overlay), str(model / "predict.py"), str(given)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.played.predicted = done.returncode == 0 and bool(done.stdout.strip())
        if not self.played.predicted:
            self.played.problems.append(f"predict.py: {(done.stderr or done.stdout)[-800:]}")


def _stored_rows(runs: Path) -> Path:
    """Return inputs as an array, which planning kept of the validation split."""
    found = sorted(runs.glob("smoke-*/artifacts/**/*.npy"))
    return next((path for path in found if "validation" in str(path) and "target" not in path.name), found[0])


async def play(row: Row, folder: Path, environment: dict[str, Any]) -> Played:
    """Return what came of a row whose environment and project stand in a folder."""
    workspace = folder / "workspace"
    workspace.mkdir()
    (workspace / "settings.yaml").write_text(f"code_roots: [{folder / 'project'}]\n", encoding="utf-8")
    arguments = ["-P", "-m", cli.__name__, "serve", "--workspace", str(workspace)]
    variables = dict(os.environ) | {"MAMBA_ROOT_PREFIX": str(folder / CONDA)}
    server = StdioServerParameters(command=sys.executable, args=arguments, env=variables)
    async with Client(server) as client:
        return await Game(client, row, folder, environment).play()
