"""Pages of the trackers on this machine's loopback: a program of each, in a process group of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import select

from trainwright.tools.launchers.environment import inherited_environment
from trainwright.tools.tracking.structure import OF_A_RUN, Parent, place_of
from trainwright.tools.tracking.tracker import folder_of, mlflow_uri
from trainwright.tools.tracking.wandb_tracker import PAGE
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import Run
from trainwright.trainer.base.errors import ConfigurationError, NotFoundError, TrainwrightError

HERE = "127.0.0.1"
MLFLOW = "TRAINWRIGHT_MLFLOW"
"""Variable that names MLflow's whole program, where it stands in an environment of its own."""
UP_SECONDS = 45.0
STOP_SECONDS = 10.0
OFFLINE = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "BROWSER": "true",
}
DOCUMENT = "configs/trackers.md"


class Page(NamedTuple):
    """A page: its address, and the program that serves it; None where it is served elsewhere."""

    address: str
    process: subprocess.Popen[bytes] | None = None

    @property
    def has_ended(self) -> bool:
        """Whether its program is gone."""
        return self.process is not None and self.process.poll() is not None

    def close(self) -> None:
        """End the program and all that it has started."""
        if self.process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def open_page(workspace: Workspace, name: str, *, port: int = 0) -> Page:
    """Serve a tracker's page, and return once it answers.

    Raises:
        NotFoundError: its program is not installed, or it has no page on this machine.
        ConfigurationError: the program ended, or did not answer.
    """
    port = port or _free_port()
    address = f"http://{HERE}:{port}"
    if name == "wandb":
        return Page(_wandb_address(workspace))
    if name == "mlflow" and not (uri := mlflow_uri(workspace, dict(os.environ))).startswith("sqlite:"):
        return Page(uri)
    folder = folder_of(workspace, name)
    folder.mkdir(parents=True, exist_ok=True)
    command = _command(workspace, name, folder, port)
    more = OFFLINE | {"PYTHONUNBUFFERED": "1"}
    with (folder / "page.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder,
            env=inherited_environment() | more, start_new_session=True,
        )  # fmt: skip
    page = Page(address, process)
    try:
        _wait_until_up(page, port, folder / "page.log")
    except BaseException:
        page.close()
        raise
    return page


def _command(workspace: Workspace, name: str, folder: Path, port: int) -> list[str]:
    """Return the command that serves a tracker's page of the folder. Raises NotFoundError."""
    where = ["--host", HERE, "--port", str(port)]
    if name == "mlflow":
        store = ["--backend-store-uri", mlflow_uri(workspace, dict(os.environ))]
        kept = ["--artifacts-destination", str(folder / "artifacts")]
        return [mlflow_program(), "server", *store, *kept, *where, "--workers", "1"]
    if find_spec("tensorboard") is None:
        raise NotFoundError(
            f"The page of TensorBoard is served by tensorboard, which {sys.executable} does not have.",
            remedy="pip install tensorboard beside the server, then call again.",
            document=DOCUMENT,
        )
    link_event_files(workspace)
    return [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder / "runs"), *where]


def link_event_files(workspace: Workspace) -> int:
    """Link the runs' TensorBoard folders by experiment and name, for the page to show so; return how many."""
    base, linked = folder_of(workspace, "tensorboard") / "runs", 0
    base.mkdir(parents=True, exist_ok=True)
    with workspace.snapshot() as session:
        for run in session.scalars(select(Run).order_by(Run.created_at, Run.id)):
            folder = workspace.run_directory(run.project, run.id).path
            if not (folder / "tensorboard").is_dir():
                continue
            with suppress(TrainwrightError):
                place = place_of(session, workspace, run)
                parts = [place.experiment, *map(_folder_name, place.parents), place.name]
                link = base.joinpath(*(part.replace("/", "_") for part in parts))
                _link(link, folder / "tensorboard")
                if (folder / "trace").is_dir():
                    _link(link.with_name(f"{link.name} trace"), folder / "trace")
                linked += 1
    return linked


def _folder_name(parent: Parent) -> str:
    """Return the folder for a parent's children; a run's own name is the link to its events."""
    return f"of {parent.name}" if parent.kind == OF_A_RUN else parent.name


def _link(link: Path, target: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(target, target_is_directory=True)


def mlflow_program() -> str:
    """Return MLflow's whole program: the one that is named, one beside us, or one in the folder of companions.

    Raises:
        NotFoundError: there is none; mlflow-skinny writes, and has no page.
    """
    named = os.environ.get(MLFLOW)
    companion = Path(sys.prefix) / "companions" / "mlflow" / "bin" / "mlflow"
    beside = Path(sys.prefix) / "bin" / "mlflow"
    if named and shutil.which(named):
        return named
    if companion.is_file():
        return str(companion)
    with suppress(PackageNotFoundError):
        version("mlflow")
        return str(beside)
    try:
        wanted = f"mlflow=={version('mlflow-skinny')}"
    except PackageNotFoundError:
        wanted = "mlflow"
    raise NotFoundError(
        "MLflow's page is not installed: mlflow-skinny writes alone.",
        remedy=f"Install it apart (python3 -m venv FOLDER; FOLDER/bin/pip install {wanted}) and set "
        f"{MLFLOW}=FOLDER/bin/mlflow; in a checkout, `make pages` does both.",
        document=DOCUMENT,
    )


def _wandb_address(workspace: Workspace) -> str:
    """Return where the runs are shown online. Raises NotFoundError where they are offline files."""
    found = folder_of(workspace, "wandb") / PAGE
    if found.is_file():
        return str(json.loads(found.read_text())["address"])
    raise NotFoundError(
        "Weights & Biases has a page online only, and no run of this workspace was sent there.",
        remedy=f"Set WANDB_API_KEY for the server; what was written offline is sent by `wandb sync "
        f"{folder_of(workspace, 'wandb') / 'wandb' / 'offline-run-*'}`.",
        document=DOCUMENT,
    )


def _wait_until_up(page: Page, port: int, log: Path) -> None:
    deadline = time.monotonic() + UP_SECONDS
    while time.monotonic() < deadline:
        assert page.process is not None  # noqa: S101 - it has just been started
        if page.process.poll() is not None:
            break
        with suppress(OSError), socket.create_connection((HERE, port), timeout=1.0):
            return
        time.sleep(0.2)
    last = log.read_text(errors="replace").strip().splitlines()[-3:]
    raise ConfigurationError(
        f"The page did not open: {' | '.join(last)[:400] or 'its program said nothing'}.",
        remedy=f"Its whole output is in {log.name} of the workspace's folder trackers.",
        document=DOCUMENT,
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HERE, 0))
        return int(probe.getsockname()[1])
