"""One part played: prepared, run under its limit, ended with all that it started, its results written as they come."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parts import Part
    from record import Record

MIN_LINE_COVERAGE = 90.0
GRACE_SECONDS = 30.0
"""How long a part that is interrupted may take to end what its tests have started."""


@dataclass(frozen=True)
class Outside:
    """The checkout, and whether Debian's packages may be installed."""

    root: Path
    installs: bool

    @property
    def nightly(self) -> Path:
        """The folder of the nightly's environment, its logs and its programs from npm."""
        return self.root / ".venv" / "nightly"

    def environment(self) -> dict[str, str]:
        """Return the variables of a part: the options of the `make` that started the nightly are not handed on."""
        kept = {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MFLAGS", "MAKELEVEL"}}
        path = [str(self.nightly / "npm" / "node_modules" / ".bin"), kept.get("PATH", os.defpath)]
        return kept | {"PATH": os.pathsep.join(path), "DEBIAN_FRONTEND": "noninteractive"}

    def commands(self, part: Part, outcomes: Path) -> Iterator[list[str]]:
        """Yield what prepares a part; the last is the part itself."""
        if self.installs and (missing := [name for name in part.debian if not _is_installed(name)]):
            yield ["apt-get", "update", "--quiet"]
            yield ["apt-get", "install", "--quiet", "--yes", "--no-install-recommends", *missing]
        if part.npm:
            yield ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(self.nightly / "npm"), *part.npm]
        for target in part.prepare:
            yield ["make", "--no-print-directory", target]
        yield ["make", "--no-print-directory", *shlex.split(part.make), "BIN=.venv/nightly/bin", f"OUTCOMES={outcomes}"]


def play(part: Part, record: Record, outside: Outside) -> None:
    """Prepare and run a part; the record has its results, whatever ends it."""
    logs = outside.nightly / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    outcomes = logs / f"{part.name}.jsonl"
    outcomes.unlink(missing_ok=True)
    deadline = time.monotonic() + 60 * part.minutes
    log = logs / f"{part.name}.log"
    record.begin(part, outcomes)
    try:
        with log.open("wb") as lines:
            for command in outside.commands(part, outcomes):
                state = "interrupted"
                state = _ended(command, outside, lines, deadline)
                if state == "failed" and command[0] != "make":
                    continue  # without a program its tests are skipped, and say so
                if state != "passed":
                    break
    finally:
        said, figures = log.read_text(errors="replace").strip().splitlines(), _line_coverage(part, outside)
        if state == "passed" and (measured := figures.get("line_coverage", 100.0)) < MIN_LINE_COVERAGE:
            state, said = "failed", [f"{measured} % of the lines, {MIN_LINE_COVERAGE} % are asked for"]
        record.end(part, state, said, figures)


def _ended(command: list[str], outside: Outside, log: IO[bytes], deadline: float) -> str:
    """Run a command to its end or to the deadline; return the part's state after it.

    Nothing is written beside the tests meanwhile: warm processes end where a folder changes that they have loaded from.
    """
    with subprocess.Popen(
        command, cwd=outside.root, env=outside.environment(), stdin=subprocess.DEVNULL, stdout=log,
        stderr=subprocess.STDOUT, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            return "failed" if process.wait(max(deadline - time.monotonic(), 0.1)) else "passed"
        except subprocess.TimeoutExpired:
            return "stopped"
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and what it started: by an interrupt, on which pytest ends what its tests left, then by force."""
    if process.poll() is not None:
        return
    below = psutil.Process(process.pid).children(recursive=True)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
    _, alive = psutil.wait_procs(below, timeout=GRACE_SECONDS)
    for one in alive:
        with suppress(psutil.Error):
            one.kill()
    process.kill()


def _is_installed(package: str) -> bool:
    command = ["dpkg-query", "--show", "--showformat", "${db:Status-Status}", package]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout == "installed"


def _line_coverage(part: Part, outside: Outside) -> dict[str, float]:
    """Return per cent of the lines that a part with coverage ran, and their number."""
    if part.make != "coverage" or not (outside.root / ".coverage").exists():
        return {}
    command = [str(outside.nightly / "bin" / "coverage"), "json", "--quiet", "--fail-under", "0", "-o", "-"]
    done = subprocess.run(command, cwd=outside.root, capture_output=True, text=True, check=False)
    with suppress(ValueError, KeyError):
        totals = json.loads(done.stdout)["totals"]
        return {"line_coverage": round(100 * totals["covered_lines"] / totals["num_statements"], 2),
                "lines": totals["num_statements"]}  # fmt: skip
    return {}
