"""A process of its own for what a final model ships: it can import the packages that it says it needs, and no others.

What these require comes with them, as pip would install it; nothing of ours is there, and none of our variables.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

import torch

from trainwright.trainer.base.errors import IntegrityError

TIMEOUT_SECONDS = 600.0
PYTHON = (sys.executable, "-I", "-B", "-c")
OURS = __name__.partition(".")[0]
STARTER = f"""
import sys
from importlib.machinery import PathFinder

_sites, _given = sys.argv.pop(1).splitlines(), {{*sys.argv.pop(1).split()}}


class _Given(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        spec = super().find_spec(name, path, target)
        where = "" if spec is None else spec.origin or next(iter(spec.submodule_search_locations or [""]))
        is_given = path is not None or name in _given or not where.startswith(tuple(_sites))
        return spec if is_given else None


sys.path += [one for one in _sites if one not in sys.path]
sys.meta_path[:] = [one for one in sys.meta_path if one is not PathFinder] + [_Given]
sys.modules[{OURS!r}] = None
"""
"""Of what is installed beside the needed packages nothing is found."""


REPORT = "Report this with one of the inputs; deployment.formats says which programs are exported."
MAX_CHARACTERS = 600


def run_alone(
    script: str, arguments: Sequence[str], place: Path, *, needs: str, failed: str, remedy: str = REPORT
) -> str:
    """Run Python source with arguments below a folder; return what it printed.

    Args:
        needs: distributions that it may import from, as pip takes their names.
        failed: what is said of it where it fails, before its error.
        remedy: of such a failure.

    Raises:
        IntegrityError: it fails, or does not end in `TIMEOUT_SECONDS`, which is what `failed` says.
    """
    sites, modules = _importable(needs.split())
    environment = {
        "PATH": os.environ.get("PATH", ""), "HOME": str(place), "LANG": "C.UTF-8", "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": str(torch.get_num_threads()), "HF_HUB_OFFLINE": "1",
    }  # fmt: skip
    try:
        done = subprocess.run(
            [*PYTHON, _started(script), "\n".join(sites), " ".join(sorted(modules)), *arguments],
            capture_output=True, text=True, check=False, cwd=place, env=environment, timeout=TIMEOUT_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise IntegrityError(
            f"{failed}: it had not ended after {error.timeout:g} s, on the CPU, which is as long as it may take.",
            remedy="Call export_model again when other work on this machine has ended. If it takes as long again, "
            "report this with one of the inputs.",
        ) from error
    if done.returncode:
        raise IntegrityError(f"{failed}: {_error_in(done.stderr) or f'it ended with {done.returncode}'}", remedy=remedy)
    return done.stdout


def _importable(needs: Sequence[str]) -> tuple[list[str], set[str]]:
    """Return the folders in which needed packages lie, and the modules that these bring, by name."""
    given = [distribution(name) for name in _with_required(tuple(needs))]
    folders = [str(one.locate_file("")) for one in given]
    modules = {name for one in given for name in _modules_of(one)}
    for name in set(needs) - modules:  # one that no installer has put here
        if name.isidentifier() and (spec := find_spec(name)) is not None and spec.origin:
            folders.append(str(Path(spec.origin).parents[1]))
            modules.add(name)
    return [*dict.fromkeys(folders)], modules


@lru_cache(maxsize=32)
def _with_required(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return distributions and all that they require, without extras, that are installed."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    found: dict[str, None] = {}
    waiting = [*names]
    while waiting:
        name = canonicalize_name(waiting.pop())
        try:
            required = [] if name in found else [Requirement(one) for one in distribution(name).requires or []]
        except PackageNotFoundError:
            continue
        found[name] = None
        waiting += [one.name for one in required if one.marker is None or one.marker.evaluate({"extra": ""})]
    return tuple(found)


def _modules_of(one: Distribution) -> set[str]:
    """Return the modules that a distribution brings, by the first part of their names."""
    if listed := one.read_text("top_level.txt"):
        return {*listed.split()}
    tops = {path.parts[0] for path in one.files or [] if path.suffix in {".py", ".so", ".pyd"}}
    return {name.partition(".")[0] for name in tops}


def _error_in(stderr: str) -> str:
    """Return the error that ended a process, without the frames that led to it, or else its last lines."""
    lines = stderr.strip().splitlines()
    starts = [place for place, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")]
    if not starts:
        return " ".join(lines)[-MAX_CHARACTERS:]
    after = lines[starts[-1] + 1 :]
    first = next((place for place, line in enumerate(after) if line and not line.startswith(" ")), 0)
    return "\n".join(after[first:])[:MAX_CHARACTERS]


def _started(script: str) -> str:
    future = "from __future__ import annotations\n"
    return f"{future}{STARTER}{script.removeprefix(future)}"
