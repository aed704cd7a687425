"""Checks as processes: several at once where they measure nothing, each ended at its limit, none stopping the next."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from lane import HERE, Check

from trainwright.trainer.config import parse_config
from trainwright.trainer.run.environment import launch_environment

LAST_LINES = 12
REHEARSED_TIMES_AS_LONG = 4
RESULT, LOG = "result.json", "log.txt"


@dataclass
class Result:
    """How one check ended."""

    check: Check
    status: str
    """passed, failed, not_run, or not_on_cpu in a rehearsal."""
    seconds: float = 0.0
    figures: dict[str, Any] = field(default_factory=dict)
    said: str = ""
    """Last lines of a failure, or why it was not run."""

    @property
    def line(self) -> str:
        """One line of the lane's output."""
        shown = self.said.strip().splitlines()[-1:] or [_short(self.figures)]
        return f"{self.status:10} {self.check.name:20} {self.seconds:6.1f} s  {shown[0][:160]}"

    def as_dict(self) -> dict[str, Any]:
        """Return JSON types."""
        found = {"status": self.status, "seconds": round(self.seconds, 1), "row": self.check.row}
        return found | ({"figures": self.figures} if self.figures else {}) | ({"said": self.said} if self.said else {})


def _short(figures: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in figures.items() if not isinstance(value, dict))


@dataclass
class _Running:
    check: Check
    process: subprocess.Popen[bytes]
    folder: Path
    began: float
    limit_seconds: float
    is_cut: bool
    """Whether the lane's own end, rather than the check's limit, would end it."""


class Lanes:
    """Plays checks in their order until the time is up."""

    def __init__(
        self, device: str, folder: Path, minutes: float, side_by_side: int, options: Sequence[str] = ()
    ) -> None:
        self.device, self.folder, self.side_by_side, self.options = device, folder, side_by_side, options
        self.deadline = time.monotonic() + 60 * minutes
        self.running: list[_Running] = []
        self.results: dict[str, Result] = {}

    def play(self, checks: Iterable[Check], tell: Callable[[Result], None]) -> list[Result]:
        """Run the checks; `tell` is called as each ends. Returns the results in the checks' order."""
        try:
            return self._played(list(checks), tell)
        finally:  # whatever ends the lane ends its checks, which have sessions of their own
            for one in self.running:
                _end_all(one)

    def _played(self, ordered: list[Check], tell: Callable[[Result], None]) -> list[Result]:
        for check in ordered:
            if (reason := self._left_out(check)) is not None:
                self._note(reason, tell)
                continue
            while len(self.running) >= (1 if self._is_alone(check) else self.side_by_side) or self._is_taken(check):
                self._wait_for_one(tell)
            if time.monotonic() >= self.deadline:
                self._note(Result(check, "not_run", said="the lane's time was up"), tell)
            else:
                self.running.append(self._start(check))
        while self.running:
            self._wait_for_one(tell)
        return [self.results[check.name] for check in ordered]

    def _left_out(self, check: Check) -> Result | None:
        if check.only_on_card is not None and self.device == "cpu":
            return Result(check, "not_on_cpu", said=check.only_on_card)
        if check.missing:
            return Result(check, "not_run", said=f"not installed: {', '.join(check.missing)}")
        return None

    def _is_alone(self, check: Check) -> bool:
        return check.alone or self.side_by_side == 1

    def _is_taken(self, check: Check) -> bool:
        """Whether one that measures is running, or this one does and others still run."""
        return any(one.check.alone for one in self.running) or (check.alone and bool(self.running))

    def _start(self, check: Check) -> _Running:
        folder = self.folder / check.name
        folder.mkdir(parents=True)
        command = [sys.executable, "-P", str(HERE), "--one", check.name, "--device", self.device, *self.options]
        command += ["--folder", str(folder)]
        config = parse_config({"model": {"use": "mlp"}, "data": {"use": "digits"}})
        with (folder / LOG).open("wb") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=folder,
                env={**os.environ, **launch_environment(config), **self._shown()}, start_new_session=True,
            )  # fmt: skip
        own = check.seconds * (REHEARSED_TIMES_AS_LONG if self.device == "cpu" else 1)
        left = self.deadline - time.monotonic()
        return _Running(check, process, folder, time.monotonic(), min(own, left), is_cut=left < own)

    def _shown(self) -> dict[str, str]:
        """Return the variable that shows a check one card, or none in a rehearsal beside one."""
        first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
        return {"CUDA_VISIBLE_DEVICES": first if self.device == "cuda" else ""}

    def _wait_for_one(self, tell: Callable[[Result], None]) -> None:
        while True:
            for one in self.running:
                seconds = time.monotonic() - one.began
                if one.process.poll() is not None or seconds > one.limit_seconds:
                    self.running.remove(one)
                    self._note(_ended(one, seconds), tell)
                    return
            time.sleep(0.1)

    def _note(self, result: Result, tell: Callable[[Result], None]) -> None:
        self.results[result.check.name] = result
        tell(result)


def _ended(one: _Running, seconds: float) -> Result:
    is_late = one.process.poll() is None
    _end_all(one)
    written = one.folder / RESULT
    found = json.loads(written.read_text()) if written.exists() else {}
    figures = found.get("figures", {})
    if is_late and one.is_cut:
        return Result(one.check, "not_run", seconds, figures, "the lane's time was up")
    if is_late:
        return Result(
            one.check, "failed", seconds, figures, f"it took longer than {one.limit_seconds:.0f} s\n" + _last(one)
        )
    if one.process.returncode == 0 and not found.get("missed"):
        return Result(one.check, "passed", seconds, figures)
    said = "\n".join(found.get("missed", [])) or _last(one) or f"it ended with exit code {one.process.returncode}"
    return Result(one.check, "failed", seconds, figures, said)


def _last(one: _Running) -> str:
    lines = (one.folder / LOG).read_text(errors="replace").strip().splitlines()
    return "\n".join(lines[-LAST_LINES:])


def _end_all(one: _Running) -> None:
    """End a check with the workers and servers that it started: their sessions are their own; they name its folder."""
    one.process.kill()
    one.process.wait()
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if str(one.folder) in " ".join([*process.cmdline(), process.cwd()]):
                process.kill()
