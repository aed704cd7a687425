"""Files of the code root that SkyPilot would copy to the machine, and that a job leaves here elsewhere.

It has no option for them: what it leaves out stands in the code root's `.skyignore`, or without that file in what git
ignores there. That file is the user's, so it is not written here; what would go along is named instead.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

SKYIGNORE, GITIGNORE = ".skyignore", ".gitignore"
HARMLESS = frozenset({".git", "__pycache__", ".env.example"})
"""What may go along: it is the code's, or holds nothing but placeholders."""
MAX_NAMED = 8
GIT_SECONDS = 30


def sent_along(code_root: Path, left_out: Sequence[str]) -> list[str]:
    """Return the warning that names what goes along although the job leaves it out; none where nothing does.

    Args:
        left_out: names of any depth as patterns, or a path that begins with `/`.
    """
    found = sorted(_going(code_root, left_out, _ignored(code_root)))
    if not found:
        return []
    named = ", ".join(found[:MAX_NAMED]) + (f" and {len(found) - MAX_NAMED} more" if found[MAX_NAMED:] else "")
    goes, them = ("goes", "it") if len(found) == 1 else ("go", "them")
    file = f"{code_root.name}/{SKYIGNORE}"
    has_git_rules = (code_root / GITIGNORE).is_file() and not (code_root / SKYIGNORE).is_file()
    instead = f" With that file SkyPilot reads no {GITIGNORE}: take over its lines." if has_git_rules else ""
    return [f"{named} in the code root {goes} to the machine with the code: write {them} into {file}.{instead}"]


def _going(root: Path, left_out: Sequence[str], ignored: Callable[[str], bool]) -> Iterator[str]:
    """Yield what is left out elsewhere and not ignored here; folders that are hidden or left out are not entered."""
    for folder, folders, files in os.walk(root):
        above = PurePosixPath(Path(folder).relative_to(root).as_posix())
        entered = []
        for name in folders:
            path = str(above / name)
            if ignored(path):
                continue
            if _is_left_out(path, left_out):
                yield from [] if name in HARMLESS else [path]
            elif not name.startswith("."):
                entered.append(name)
        folders[:] = entered
        paths = [str(above / name) for name in files if name not in HARMLESS]
        yield from (path for path in paths if _is_left_out(path, left_out) and not ignored(path))


def _is_left_out(path: str, left_out: Sequence[str]) -> bool:
    name = path.rpartition("/")[2]
    return any(path == one[1:] if one.startswith("/") else fnmatch(name, one) for one in left_out)


def _ignored(root: Path) -> Callable[[str], bool]:
    """Return whether SkyPilot leaves a path below the root out."""
    file = root / SKYIGNORE
    if not file.is_file():
        listed = _ignored_by_git(root)
        return lambda path: path in listed
    lines = [line.strip() for line in file.read_text(encoding="utf-8", errors="replace").splitlines()]
    rules = [line for line in lines if line and not line.startswith("#")]

    def by_rules(path: str) -> bool:
        last = next((rule for rule in reversed(rules) if _matches(path, rule.removeprefix("!"))), "!")
        return not last.startswith("!")

    return by_rules


def _matches(path: str, rule: str) -> bool:
    """Return whether a rule names the path: from the root where it begins with `/`, else at any depth.

    As for SkyPilot, a wildcard is no hidden name's first letter.
    """
    parts = [part for part in rule.split("/") if part]
    names = path.split("/")[-len(parts) :]
    is_hidden = any(name.startswith(".") and not part.startswith(".") for name, part in zip(names, parts, strict=False))
    return bool(parts) and not is_hidden and PurePosixPath(f"/{path}").match(rule.rstrip("/"))


def _ignored_by_git(root: Path) -> frozenset[str]:
    """Return what git ignores and does not track, as SkyPilot asks it; outside a repository nothing is ignored."""
    command = ["git", "-c", "core.fsmonitor=false", "-C", str(root), "ls-files", "-z", "--others", "--ignored"]
    try:
        done = subprocess.run(
            [*command, "--exclude-standard", "--directory"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False, timeout=GIT_SECONDS,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return frozenset()
    listed = done.stdout.split("\0") if done.returncode == 0 else []
    return frozenset(path.rstrip("/") for path in listed if path)
