"""`trainwright doctor`: what this machine can do, each finding with a remedy where there is one to take."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Literal

import psutil
from pydantic import BaseModel

from trainwright.tools.gpus import Device, gpus_of
from trainwright.tools.launchers import worker_wall
from trainwright.tools.walls import calls, view
from trainwright.tools.walls.kernel import landlock_abi
from trainwright.tools.walls.wall import not_covered
from trainwright.tools.workspace.settings import Settings
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.base.known_bad_releases import installed_bad_releases
from trainwright.trainer.base.releases import BESIDE, ENVIRONMENT, LEAST, install, too_old

GIB = 1024**3
MIN_PYTHON = (3, 11)
MIN_SQLITE = (3, 37)
PROBE = (sys.executable, "-P", "-m", "trainwright.server.commands.doctor_probe")
PROBE_SECONDS = 180
INSTALL_AGAIN = "Install again into a fresh environment: `make install`."


class Finding(BaseModel):
    """One line of the report."""

    name: str
    status: Literal["ok", "warn", "fail"]
    found: str
    remedy: str = ""


def examine(workspace: Path) -> list[Finding]:
    """Return the findings about this machine and the workspace's present or future folder."""
    findings = [_python(), _sqlite(), *examine_releases(), *examine_floors()]
    findings += examine_packages()
    findings += examine_gpus(workspace)
    findings += [_memory(), *examine_folder(workspace), _git(), _walls(workspace)]
    return findings


def _python() -> Finding:
    found = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    if sys.version_info[:2] < MIN_PYTHON:
        return Finding(name="python", status="fail", found=found, remedy="Use Python 3.11 or newer.")
    return Finding(name="python", status="ok", found=found)


def _sqlite() -> Finding:
    found = f"SQLite {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info[:2] < MIN_SQLITE:
        return Finding(
            name="sqlite", status="fail", found=found, remedy="Use a Python that is built with SQLite 3.37+."
        )
    return Finding(name="sqlite", status="ok", found=found)


def examine_releases(path: list[str] | None = None) -> list[Finding]:
    """Return a failure for each package installed in a release that was withdrawn for safety, by metadata alone.

    Args:
        path: folders to look through; by default those that Python imports from.
    """
    return [
        Finding(
            name=f"release of {entry.package}",
            status="fail",
            found=f"{entry.package} {version} is installed; {' and '.join(entry.versions)} must not be: {entry.why}"
            f" ({entry.source})",
            remedy="Treat every credential on this machine as known to others and replace it; then make a fresh "
            f"environment with {entry.package} {entry.use}.",
        )
        for entry, version in installed_bad_releases(path)
    ]


def examine_floors(path: list[str] | None = None) -> list[Finding]:
    """Return a failure for each package that decides what runs here and is too old for it, by metadata alone.

    Args:
        path: folders to look through; by default those that Python imports from.
    """
    return [
        Finding(
            name=f"release of {package}",
            status="fail",
            found=f"{package} {version} is installed, and Trainwright needs {package} {LEAST[package]} or newer",
            remedy=install(package, LEAST[package]),
        )
        for package, version in too_old(path)
    ]


def examine_packages(command: Sequence[str] = PROBE) -> list[Finding]:
    """Import everything together in one process, as a worker would, and report versions and devices.

    Args:
        command: that starts `doctor_probe`.
    """
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PROBE_SECONDS, check=True, stdin=subprocess.DEVNULL
        )
        probe = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        found = f"importing the packages took more than {PROBE_SECONDS} s"
        return [
            Finding(name="packages", status="fail", found=found, remedy="Look for a hanging disk or network mount.")
        ]
    except (subprocess.CalledProcessError, ValueError) as error:
        last = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[-1:]
        found = f"importing the packages together ended the process: {' '.join(last)[:300]}"
        return [Finding(name="packages", status="fail", found=found, remedy=INSTALL_AGAIN)]
    return [*_imports(probe), devices_of(probe["devices"])]


def _imports(probe: dict[str, Any]) -> list[Finding]:
    listed = ", ".join(f"{name} {version}" for name, version in probe["versions"].items())
    findings = [Finding(name="packages", status="ok", found=f"imported together in {probe['seconds']} s: {listed}")]
    for name, error in probe["failures"].items():
        findings.append(Finding(name=f"package {name}", status="fail", found=error, remedy=INSTALL_AGAIN))
    return findings


def devices_of(devices: dict[str, Any] | None) -> Finding:
    """Return what torch can compute on, as the probe found it; None: it has no torch."""
    if devices is None:
        found = "torch is not installed beside this server, so a run needs an environment of its own"
        return Finding(name="training", status="warn", found=found, remedy=f"{ENVIRONMENT}; or {BESIDE}.")
    gpus = devices.get("gpus", [])
    broken = [gpu["name"] for gpu in gpus if not gpu["works"]]
    if broken:
        remedy = "Check the driver with nvidia-smi; until then set training.device to cpu."
        return Finding(
            name="devices", status="fail", found=f"{', '.join(broken)} computes wrong results", remedy=remedy
        )
    if gpus:
        listed = ", ".join(f"{gpu['name']} ({gpu['memory_bytes'] / GIB:.0f} GiB)" for gpu in gpus)
        return Finding(name="devices", status="ok", found=f"{listed}, CUDA {devices['cuda']}")
    return Finding(
        name="devices",
        status="warn",
        found=f"no GPU that torch can use; training runs on {os.cpu_count()} CPU cores",
        remedy="For a GPU: install its driver and a torch build for its CUDA version. Small models do without.",
    )


def examine_gpus(workspace: Path) -> list[Finding]:
    """Return the GPUs that the workspace's runs may use, one place each; nothing where the machine shows none."""
    try:
        devices = gpus_of(Settings.load(workspace, make=False))
    except TrainwrightError as error:
        return [Finding(name="gpu places", status="fail", found=str(error), remedy=error.remedy)]
    if not devices:
        return []
    listed = "; ".join(str(device.gpu) + _free(device) for device in devices)
    return [Finding(name="gpu places", status="ok", found=f"{len(devices)} for runs, one on each: {listed}")]


def _free(device: Device) -> str:
    known = device.free_bytes is not None and device.gpu.memory_bytes
    return f", {(device.free_bytes or 0) / GIB:.1f} of {device.gpu.memory_bytes / GIB:.1f} GiB free" if known else ""


def _memory() -> Finding:
    available = psutil.virtual_memory().available
    found = f"{available / GIB:.1f} GiB of memory available"
    if available < GIB:
        return Finding(name="memory", status="warn", found=found, remedy="Close other programs before training.")
    return Finding(name="memory", status="ok", found=found)


def examine_folder(workspace: Path) -> list[Finding]:
    """Return findings on disk space, write access and file locking in the workspace's present or future folder."""
    folder = next(path for path in (workspace, *workspace.parents) if path.is_dir())
    return [_disk(folder), _tried("write access", folder, _write_file), _tried("database", folder, _write_database)]


def _disk(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    found = f"{free / GIB:.1f} GiB free at {folder}"
    if free < 10 * GIB:
        status: Literal["warn", "fail"] = "fail" if free < GIB else "warn"
        return Finding(name="disk", status=status, found=found, remedy="Free space, or name another --workspace DIR.")
    return Finding(name="disk", status="ok", found=found)


def _tried(name: str, folder: Path, attempt: Callable[[Path], str]) -> Finding:
    try:
        with tempfile.TemporaryDirectory(prefix=".trainwright-doctor-", dir=folder) as temporary:
            return Finding(name=name, status="ok", found=attempt(Path(temporary)))
    except (OSError, sqlite3.Error) as error:
        remedy = "Make the folder writable, or name another --workspace DIR on a local disk."
        return Finding(name=name, status="fail", found=f"{folder}: {error}", remedy=remedy)


def _write_file(folder: Path) -> str:
    with (folder / "file").open("wb") as file:
        file.write(b"0" * 4096)
        file.flush()
        os.fsync(file.fileno())
    return f"{folder.parent} can be written"


def _write_database(folder: Path) -> str:
    with closing(sqlite3.connect(folder / "test.sqlite")) as connection:
        mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        if mode != "wal":
            raise sqlite3.OperationalError(f"the file system does not carry a write-ahead log (mode {mode})")
        connection.execute("CREATE TABLE t (x)")
        connection.commit()
    return "write-ahead log and file locks work"


def _walls(workspace: Path) -> Finding:
    abi = landlock_abi()
    if not abi:
        remedy = "Give the server a user or a machine of its own where an agent has a shell: docs/security.md."
        return Finding(name="walls", status="warn", found="this kernel offers no Landlock", remedy=remedy)
    missing = view.offered()
    gaps = not_covered(abi, namespaces=not missing, network=False, filtered=calls.supported())
    spaces = f"no user namespaces ({missing})" if missing else "user namespaces"
    enclosed = f"`trainwright enclose` does not cover {'; '.join(gaps)}"
    found = f"Landlock {abi}, {spaces}: {enclosed}; {_worker_walls(workspace, abi)}"
    remedy = "Linux 6.12 has Landlock 6; have the machine's owner allow user namespaces." if missing or abi < 6 else ""
    return Finding(name="walls", status="warn" if remedy else "ok", found=found, remedy=remedy)


def _worker_walls(workspace: Path, abi: int) -> str:
    with suppress(TrainwrightError):  # told by the line of the GPUs
        wanted = Settings.load(workspace, make=False).walls is not None
        if why := worker_wall.why_none(workspace, wanted=wanted, is_here=True):
            return f"workers have none: {why}"
    gaps = worker_wall.not_covered(abi, is_open=False)
    return "workers are walled in" + (f", but for {'; '.join(gaps)}" if gaps else "")


def _git() -> Finding:
    if shutil.which("git") is None:
        remedy = "Install git, so that a run's evidence can name the commit of your code."
        return Finding(name="git", status="warn", found="git is not installed", remedy=remedy)
    return Finding(name="git", status="ok", found="git is installed: the commit of your code becomes evidence")
