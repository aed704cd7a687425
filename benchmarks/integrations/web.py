"""The form: built by Next.js, served, and driven in a browser against the real service."""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
from pathlib import Path
from typing import Any

from latency import caller, process, service
from programs import BROWSER, WORK, chromium, run
from tests.data_servers import free_port

HERE = Path(__file__).resolve().parent
PROJECT = WORK / "form"
"""Where the packages stay between two runs; the generated files are put beside them."""
KEPT = {"node_modules", "package-lock.json"}
KEY = secrets.token_hex(32)
QUIET = {"NEXT_TELEMETRY_DISABLED": "1"}
AXE = "axe-core@4"


def build(form: Path) -> None:
    """Put a generated form beside its packages, and build it. Raises RuntimeError with what the tool said."""
    PROJECT.mkdir(parents=True, exist_ok=True)
    for old in PROJECT.iterdir():
        if old.name not in KEPT:
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    shutil.copytree(form, PROJECT, dirs_exist_ok=True)
    run("npm", "install", "--no-audit", "--no-fund", "--silent", cwd=PROJECT)
    if not (PROJECT / "node_modules" / "axe-core").is_dir():
        run("npm", "install", "--no-save", "--no-audit", "--no-fund", "--silent", AXE, cwd=PROJECT)
    run(*_next("build"), cwd=PROJECT, **QUIET)


def _next(*arguments: str) -> list[str]:
    return [str(PROJECT / "node_modules" / ".bin" / "next"), *arguments]


def faults(python: Path, parts: Path, asked: dict[str, Any], row: Any, picture: Path) -> list[str]:
    """Return what is wrong with the form of a model, seen in a browser; nothing where all is right.

    Args:
        python: of the service's environment.
        parts: the generated folder.
        asked: fields with wrong and with right values, and the name of the wrong one, for drive.py.
        row: the right values, as the service takes them.
        picture: where the page is drawn.
    """
    build(parts / "form")
    port = free_port()
    with (
        service(python, parts / "service", key=KEY) as url,
        process(_next("start", "-H", "127.0.0.1", "-p", str(port)), PROJECT, port, "/",
                SERVICE_URL=url, SERVICE_KEY=KEY, **QUIET) as page,
    ):  # fmt: skip
        seen = _driven({**asked, "url": page, "picture": str(picture)})
        leaked = _leaked(url, KEY)
    with service(python, parts / "service") as url:
        answered = json.loads(caller(url, {"row": row})())["prediction"]
    return _compared(seen, asked, answered, page.removeprefix("http://")) + leaked


def _driven(asked: dict[str, Any]) -> dict[str, Any]:
    axe = PROJECT / "node_modules" / "axe-core" / "axe.min.js"
    given = json.dumps({**asked, "chromium": chromium(), "axe": str(axe)})
    done = subprocess.run(
        [BROWSER, HERE / "drive.py"], input=given, capture_output=True, text=True, check=False, timeout=120
    )
    if done.returncode:
        raise RuntimeError(f"the browser: {done.stderr[-2000:]}")
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return seen


def _compared(seen: dict[str, Any], asked: dict[str, Any], answered: dict[str, Any], host: str) -> list[str]:
    name = asked["name"]
    wanted = {
        "invalid": [name], "focused": name, "hosts": [host], "console": [],
        "axe_empty": [], "axe_refused": [], "axe_answered": [], "axe_dark": [],
    }  # fmt: skip
    found = [f"{what}: {seen[what]!r}, expected {value!r}" for what, value in wanted.items() if seen[what] != value]
    shown, told = " ".join(seen["answer"].split()), " ".join(seen["described"])
    found += [f"answer: {shown!r} without {text!r}" for text in _texts(answered) if text not in shown]
    return found + ([] if name in seen["failure"] and asked["told"] in told else [f"told: {seen['failure']}, {told}"])


def _texts(answered: dict[str, Any]) -> list[str]:
    """Return what the page must show of an answer: the class, each number, or the text."""
    if "values" in answered:
        return [f"{value:.6g}" for value in answered["values"]]
    return [" ".join(str(answered.get("label") or answered["text"]).split())]


def _leaked(url: str, key: str) -> list[str]:
    """Return files for the browser that hold the key or the service's address."""
    files = [path for path in (PROJECT / ".next" / "static").rglob("*") if path.is_file()]
    texts = {path.name: path.read_text(encoding="utf-8", errors="ignore") for path in files}
    held = (key, "SERVICE_KEY", "SERVICE_URL", url)
    return [f"{name} holds {word}" for name, text in texts.items() for word in held if word in text]
