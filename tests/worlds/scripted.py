"""A launcher whose worker is a function of the plan: what orders, follows and judges runs is real, training is not.

Runs end before their start returns, and the conductor of a study or of a trial of fixes is a thread of this process. So
a study of twelve runs takes a second, and each of its values is known beforehand. The launcher stands in for `own`; the
contract of launchers (tests/contracts/test_launchers.py) holds it too.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.worlds.found import NOBODY
from tests.worlds.records import Script, write_run

from trainwright.tools.cures import conductor as cures
from trainwright.tools.hyperparameter_tuner import conductor
from trainwright.tools.launchers import LAUNCHERS, Launch, jobs, write_launch
from trainwright.trainer.run import RunDirectory, RunKey

if TYPE_CHECKING:
    import signal

CONDUCTORS: dict[str, Any] = {module.__name__: module for module in (conductor, cures)}
CONDUCTOR_SECONDS = 60.0


class Scripted:
    """Writes a run's records where another launcher would start its worker."""

    name = "own"
    gives_key = True
    is_here = True

    def __init__(self, script: Script) -> None:
        self.script = script
        self.started: list[str] = []
        """Ids of the runs, an id for each attempt."""
        self.is_conducting = True
        """False: studies are the test's to conduct."""
        self.conductors: list[threading.Thread] = []
        self.others: Callable[..., Launch] = jobs.spawn

    def start(self, run: RunDirectory, launch: Launch, key: RunKey) -> Launch:
        """Write the whole attempt. A script that raises is recorded as a worker that could not be started."""
        self.started.append(run.run_id)
        known = launch.model_copy(update={"process": NOBODY})
        try:
            write_run(RunDirectory(run.path, RunKey(key.seed)), self.script)
        except Exception as error:  # noqa: BLE001 - the server shows it, as it shows any start that failed
            traceback.print_exc()
            known = launch.model_copy(update={"error": f"{type(error).__name__}: {error}"})
        return write_launch(run.path, known)

    def may_begin(self, launch: Launch) -> bool:
        """Return whether its process lives: never a run's, which ended as its start returned; what reads data does."""
        return launch.process is not None and launch.process.is_alive()

    def signal(self, run: RunDirectory, launch: Launch, number: signal.Signals, *, reason: str) -> bool:
        """Reach nobody."""
        return False

    def conduct(self, folder: Path, launch: Launch, command: Sequence[str], **options: Any) -> Launch:
        """Let a thread do what the command of a conductor says; other processes start as ever."""
        _, _, _, module, *arguments = command
        if module not in CONDUCTORS:
            return self.others(folder, launch, command, **options)
        written = write_launch(folder, launch)
        if self.is_conducting:
            thread = threading.Thread(target=_conducted, args=(module, arguments), name=folder.name, daemon=True)
            self.conductors.append(thread)
            thread.start()
        return written

    def wait(self) -> None:
        """Wait until all conductors have ended."""
        while self.conductors:
            thread = self.conductors.pop()
            thread.join(CONDUCTOR_SECONDS)
            assert not thread.is_alive(), f"the conductor of {thread.name} has not ended"


def _conducted(module: str, arguments: list[str]) -> None:
    with suppress(SystemExit):  # of a script: the conductor ends there, as if it had been killed
        CONDUCTORS[module].main(arguments)


@contextmanager
def scripted(script: Script | None = None) -> Iterator[Scripted]:
    """Let all runs that this process orders be written by a script; its launcher's `script` may be exchanged."""
    launcher: Any = Scripted(script or Script())
    seam: Any = jobs
    own, launcher.others = LAUNCHERS["own"], seam.spawn
    LAUNCHERS["own"], seam.spawn = launcher, launcher.conduct
    try:
        yield launcher
        launcher.wait()
    finally:
        LAUNCHERS["own"], seam.spawn = own, launcher.others
