"""The lane's checks: each is a row with a name, a time limit and a function that asserts, in a process of its own."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from trainwright.trainer import worker
from trainwright.trainer.base.releases import Newer, is_older
from trainwright.trainer.config import config_digest, parse_config
from trainwright.trainer.run import RunDirectory, RunKind, RunSpecification
from trainwright.trainer.run.environment import launch_environment
from trainwright.trainer.run.evidence import Environment

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RESUMED = ROOT / "benchmarks" / "resume"
"""Whose projects, scenarios and comparison the lane uses: the work that is killed is the same."""


class Work(Protocol):
    """A check's function; it returns nothing, and raises where the row does not hold."""

    def __call__(self, lane: Lane) -> None:
        """Check the row."""
        ...


@dataclass(frozen=True)
class Check:
    """One row of the lane."""

    name: str
    row: str
    """The row in words: the first line of the function's docstring."""
    work: Work
    seconds: int
    """Time limit on a card; a rehearsal has longer."""
    only_on_card: str | None
    """Why the CPU cannot rehearse it; None: it can."""
    alone: bool
    """Whether it measures time, memory or use, so that nothing else may run on the machine."""
    needs: tuple[str, ...]
    """Packages without which it is not run."""
    newer: Newer | None
    """The release that has what it checks; an older one refuses it, as it should."""

    @property
    def missing(self) -> list[str]:
        """What is not installed here: packages, or a release."""
        found = [name for name in self.needs if importlib.util.find_spec(name) is None]
        return found + ([f"{self.newer.package} {self.newer.least}"] if not found and lacks(self.newer) else [])


def lacks(newer: Newer | None) -> bool:
    """Return whether an installed release is older than what something needs."""
    return newer is not None and is_older(version(newer.package), newer.least)


CHECKS: dict[str, Check] = {}
"""By name, the most valuable first: modules in the order of `rows.ALL`, in each in the order of definition."""


def check(
    name: str,
    seconds: int,
    *,
    only_on_card: str | None = None,
    alone: bool = False,
    needs: tuple[str, ...] = (),
    newer: Newer | None = None,
) -> Callable[[Work], Work]:
    """Make a function a row of the lane."""

    def registered(work: Work) -> Work:
        row = str(work.__doc__).splitlines()[0].rstrip(".")
        CHECKS[name] = Check(name, row, work, seconds, only_on_card, alone, needs, newer)
        return work

    return registered


@dataclass
class Lane:
    """What a check works with."""

    device: str
    """cuda, or cpu in a rehearsal."""
    folder: Path
    """Of this check alone."""
    figures: dict[str, Any] = field(default_factory=dict)
    """What was measured, for the record."""
    missed: list[str] = field(default_factory=list)

    @property
    def on_card(self) -> bool:
        """Whether there is a card, so that figures have goals."""
        return self.device == "cuda"

    def goal(
        self, name: str, value: float, *, least: float | None = None, most: float | None = None, always: bool = False
    ) -> None:
        """Record a figure; one beyond its bound fails the check once all are measured: on a card, or always."""
        self.figures[name] = round(value, 4)
        bound = f"at least {least:g}" if least is not None else f"at most {most:g}"
        good = (least is None or value >= least) and (most is None or value <= most)
        if (self.on_card or always) and not good:
            self.missed.append(f"{name} = {value:.4g}, the goal is {bound}")

    def config(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return a configuration on the lane's device, without TensorBoard."""
        training = {"device": self.device, **values.get("training", {})}
        return {"logging": {"tensorboard": False}, **values, "training": training}

    def make(self, name: str, values: dict[str, Any], **fields: Any) -> RunDirectory:
        """Write a run directory; `fields` are those of RunSpecification."""
        config = parse_config(self.config(values))
        fields = {"code_root": str(self.folder), "validated_by": "the lane", "kind": RunKind.BASELINE, **fields}
        specification = RunSpecification(
            run_id=name.rpartition("/")[2], project="lane", config=config, config_digest=config_digest(config), **fields
        )
        folder = self.folder / name
        folder.parent.mkdir(parents=True, exist_ok=True)
        return RunDirectory.create(folder, specification)

    def begin(self, run: RunDirectory, *kill: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start the run's worker as the orchestrator does, or one that is killed (`killed.py PLACE NUMBER`)."""
        command = [str(HERE / "killed.py"), *kill] if kill else ["-m", worker.__name__]
        with run.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-P", *command, str(run.path)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                env={**os.environ, **launch_environment(run.specification().config), **environment},
            )  # fmt: skip

    def work(self, run: RunDirectory, *kill: str, expected: int = 0, **environment: str) -> RunDirectory:
        """Work on a run to its end, or to the place where it is killed."""
        return self._ended(run, self.begin(run, *kill, **environment), -signal.SIGKILL if kill else expected)

    def work_on_all(self, runs: Mapping[tuple[str, ...], RunDirectory]) -> None:
        """Work on runs at once, each to the place (its key) where it is killed, and then to their ends."""
        for kills in (True, False):
            begun = [(run, self.begin(run, *(place if kills else ()))) for place, run in runs.items()]
            for run, process in begun:
                self._ended(run, process, -signal.SIGKILL if kills else 0)

    def _ended(self, run: RunDirectory, process: subprocess.Popen[bytes], expected: int) -> RunDirectory:
        """Wait. Raises AssertionError with the failure, or the log's end, where the run ends otherwise."""
        code, failure = process.wait(), run.status().failure
        why = f"{failure.message}\n{failure.traceback or ''}" if failure is not None else run.log.read_text()
        assert code == expected, f"exit code {code}, expected {expected}: {why[-3000:]}"
        if code == 0:
            self._require_device(run)
        return run

    def _require_device(self, run: RunDirectory) -> None:
        """Require that a run says it computed on the lane's device, and that it took memory of a card."""
        assert run.part(Environment).fingerprint_basis["device"] == self.device
        held = run.metrics().last("system/gpu_memory_allocated_bytes")
        assert (held is not None and held.value > 0) == self.on_card or run.specification().kind is RunKind.PROBE

    def trained(self, name: str, values: dict[str, Any], **fields: Any) -> RunDirectory:
        """Make a run and work on it to its end."""
        return self.work(self.make(name, values, **fields))

    def session(self, name: str, values: dict[str, Any], **fields: Any) -> Any:
        """Assemble a session in this process, under the settings that a worker applies."""
        from trainwright.trainer.assembly.assemble import assemble
        from trainwright.trainer.reproducibility import determinism
        from trainwright.trainer.supervision.stop import StopRequest

        run = self.make(name, values, **fields)
        specification = run.specification()
        determinism.apply_settings(specification.config.reproducibility, specification.exemptions)
        return assemble(specification, run, StopRequest(run.stop_reason))

    def write(self, name: str, text: str) -> Path:
        """Write a file of user code into the check's folder."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path


def steps(session: Any, number: int) -> list[float]:
    """Take steps of the first epochs; return their losses."""
    from trainwright.trainer.engine.loop import take_step
    from trainwright.trainer.jobs.probe.rates import endless

    session.model.train()
    return [float(take_step(session, group).loss) for group in endless(session, number)]


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Let modules of a folder be imported, before any of the same name: a library may have brought its own `tests`."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def differences(run: RunDirectory, whole: RunDirectory) -> list[str]:
    """Return everything in which two ended runs differ, bit for bit."""
    with importable(RESUMED):
        from comparing import differences as found

    return found(run, whole)


def scenario(name: str) -> dict[str, Any]:
    """Return a configuration of `make bench-resume`."""
    with importable(RESUMED):
        from scenarios import configuration

    return configuration(name)
