"""What a new user sees of a search, played anew: `python docs/transcripts/a_search.py` (some minutes on a CPU)."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio
from mcp import StdioServerParameters
from mcp.client import Client

from trainwright.server.commands.driving import Transcript

HERE = Path(__file__).parent
README = (HERE.parents[1] / "README.md").read_text(encoding="utf-8")
SERVER = [sys.executable, "-P", "-m", "trainwright.server.cli"]
PROJECT: dict[str, Any] = {
    "name": "mine",
    "intent": "Read digits",
    "goal": {"metric": "accuracy", "direction": "maximize", "target": 0.995},
    "config": {
        "model": {"use": "net.py:Net", "args": {"width": 32}},
        "data": {"use": "digits"},
        "metrics": ["accuracy"],
    },
}
SEARCH: dict[str, Any] = {
    "trials": 12,
    "width": 2,
    "space": {
        "optimizer.learning_rate": {"type": "float", "low": 0.0003, "high": 0.03, "log": True},
        "model.args.width": {"type": "int", "low": 16, "high": 128, "log": True},
    },
}
MAX_LINES = 9
HEAD = """\
# What one sees while a search runs

Written by `python docs/transcripts/a_search.py`, which plays a client against a real server over stdio: the model of
the README, a goal that its baseline misses, and a search of 12 trials, two of them side by side. `->` is a call, `<-`
its answer, of which at most 9 lines are shown; `$` is a command in another terminal. The machine has two cores, which
others used too. The live page shows the same as curves (`trainwright dashboard`), and after ten completed trials which
parameters mattered.

```text
"""


async def played(root: Path) -> None:
    """Play a fresh project to the optimization phase, and its search."""
    workspace = ["--workspace", str(root / ".trainwright")]
    parameters = StdioServerParameters(command=SERVER[0], args=[*SERVER[1:], "serve", *workspace], cwd=str(root))
    transcript = Transcript()
    async with Client(parameters) as client:

        async def call(tool: str, **arguments: Any) -> dict[str, Any]:
            transcript.call(tool, arguments)
            result = await client.call_tool(tool, arguments)
            transcript.answer(result, MAX_LINES)
            return result.structured_content or {}

        view = await call("create_project", **PROJECT)
        while view.get("next", {}).get("tool") != "start_tuning":
            view = await call("advance", project=PROJECT["name"])
        view = await call("start_tuning", project=PROJECT["name"], search=SEARCH)
        shown = False
        while view["state"] in {"running", "confirming"}:
            if not shown and view["trials_done"] >= SEARCH["trials"] // 2:
                shown = True
                command = ["study", *workspace, view["study_id"]]
                told = subprocess.run([*SERVER, *command], check=True, capture_output=True, text=True).stdout
                transcript.fact(f"$ trainwright study {view['study_id']}\n{told.rstrip()}")
            view = await call("tuning_status", study_id=view["study_id"], wait_seconds=12)
        await call("plot_metrics", study_id=view["study_id"], kind="importance")


def main() -> None:
    """Play, and write the transcript."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(os.path.realpath(name))
        code = re.search(r"<!-- file: net.py -->\n```python\n(.*?)```", README, re.DOTALL)
        (root / "net.py").write_text(code[1] if code else "", encoding="utf-8")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            anyio.run(played, root)
        text = printed.getvalue().replace(f"{root}/", "").replace(str(root), ".")
    (HERE / "a_search.md").write_text(f"{HEAD}{text.strip()}\n```\n", encoding="utf-8")


if __name__ == "__main__":
    main()
