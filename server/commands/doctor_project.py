"""`trainwright doctor --project FOLDER`: whether runs can work in the environment of a project's folder."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from trainwright.server.commands.doctor import INSTALL_AGAIN, PROBE_SECONDS, Finding, devices_of
from trainwright.tools.environments import found_environment, overlay_of, runtime_in
from trainwright.tools.workspace.settings import Settings
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.base.releases import has_torch
from trainwright.trainer.config.environment import EnvironmentSection
from trainwright.trainer.run.runtime import Runtime


class Place(NamedTuple):
    """Where a workspace is, or would be, and its owner's settings."""

    path: Path
    settings: Settings


PROBE = "trainwright.server.commands.doctor_probe"


def examine_project(folder: Path, workspace: Path) -> list[Finding]:
    """Return what a folder's environment has, lacks and gets beside it, and how a client starts the server there."""
    if not folder.is_dir():
        return [Finding(name="project", status="fail", found=f"{folder} is no folder", remedy="Name the project's.")]
    try:
        place = Place(workspace, Settings.load(workspace, make=False))
        found = found_environment(place, folder)
        if found is None:
            return [*_without(), _client()]
        named = Finding(name="environment", status="ok", found=f"{found.told}: {_as_change(found.section)}")
        runtime = runtime_in(place, found.section, folder)
    except TrainwrightError as error:
        return [Finding(name="environment", status="fail", found=error.message, remedy=error.remedy), _client()]
    return [named, *_beside(runtime), *_tried(runtime), _client()]


def _as_change(section: EnvironmentSection) -> str:
    return f"config={{'environment': {section.named}}}"


def _without() -> list[Finding]:
    told = "no environment with torch lies in the folder (.venv, venv, env, uv.lock, environment.yml) or is active"
    if has_torch():
        return [Finding(name="environment", status="ok", found=f"{told}; runs work in the server's own Python")]
    remedy = "Make one with torch (`python3 -m venv .venv`), or install `trainwright[train]` where the server is."
    return [Finding(name="environment", status="fail", found=told, remedy=remedy)]


def _beside(runtime: Runtime) -> list[Finding]:
    overlay = overlay_of(runtime)
    listed = ", ".join(sorted(overlay.packages))
    lacks = f"{len(overlay.packages)} packages that it lacks come from {runtime.overlay}: {listed}"
    findings = [Finding(name="overlay", status="ok", found=lacks)]
    if not overlay.exports:
        found = "no ONNX can be exported there: the exporter's packages do not fit beside the environment's"
        findings.append(Finding(name="export", status="warn", found=found, remedy="Results are then not certified."))
    return findings


def _tried(runtime: Runtime) -> list[Finding]:
    """Return what the environment's own interpreter says of packages and devices, all imported together."""
    try:
        done = subprocess.run(
            runtime.command(PROBE), capture_output=True, text=True, timeout=PROBE_SECONDS, check=True,
            stdin=subprocess.DEVNULL, cwd=runtime.prefix,
        )  # fmt: skip
        probe = json.loads(done.stdout)
    except (subprocess.SubprocessError, OSError, ValueError) as error:
        last = (getattr(error, "stderr", "") or str(error)).strip().rpartition("\n")[2][:300]
        return [Finding(name="packages", status="fail", found=f"imported together: {last}", remedy=INSTALL_AGAIN)]
    if broken := {name: probe["failures"][name] for name in ("torch", "numpy") if name in probe["failures"]}:
        told = "; ".join(f"{name}: {error}" for name, error in broken.items())
        remedy = f"Install it again there: {runtime.python} has it, and cannot import it."
        return [Finding(name="packages", status="fail", found=told, remedy=remedy)]
    own = [name for name in ("torch", "numpy", "transformers", "pydantic", "onnx") if name in probe["versions"]]
    listed = ", ".join(f"{name} {probe['versions'][name]}" for name in own)
    found = f"imported together in {probe['seconds']} s: {listed}"
    return [Finding(name="packages", status="ok", found=found), devices_of(probe["devices"])]


def _client() -> Finding:
    """Return the server's entry in a client's configuration."""
    entry = {"trainwright": {"command": str(Path(sys.prefix) / "bin" / "trainwright"), "args": ["serve"]}}
    return Finding(name=".mcp.json", status="ok", found=json.dumps({"mcpServers": entry}))
