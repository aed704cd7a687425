"""Overlays: the packages that a worker needs and an environment lacks, in a folder behind the environment's own.

One is made for an interpreter's version and platform, beside what the environment has, and kept: of the server's own
packages where the Python is the same, else by uv. It serves every environment that has the same of the packages
concerned; so it is made once, and used without a network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path

from filelock import FileLock
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pydantic import ValidationError

from trainwright.tools.environments.interpreters import Interpreter, or_none
from trainwright.tools.environments.own_packages import is_alike, link_packages, resolved_here
from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.base.errors import ConfigurationError, StorageError
from trainwright.trainer.base.overlay import MARKER
from trainwright.trainer.base.records import Closed
from trainwright.trainer.base.text import cut
from trainwright.trainer.run import write_atomically
from trainwright.trainer.run.runtime import Runtime

EXTRAS = ("worker", "export")
"""Of this package: what a worker needs beside torch. Without the last one it runs, and exports no ONNX."""
FRAMEWORK = "torch"
UV_SECONDS = 600.0
MANYLINUX = (17, 28, *range(31, 41))
"""Releases 2.N of the C library that uv can resolve for."""
MAX_TOLD = 500
"""Characters of what uv says; its first ones name the kind of failure."""
UNSOLVABLE, OFFLINE = "No solution found", "network was disabled"
"""What uv says where releases contradict each other, and what it adds where it has not seen them all."""


class ReleasesError(ConfigurationError):
    """Releases of the environment and those that a worker needs contradict each other."""


class Overlay(Closed):
    """What an overlay holds, and for which environments."""

    python: str
    """Major and minor version, and the tag of extension modules."""
    platform: str
    requirements: list[str]
    packages: dict[str, str]
    """In the overlay, by normalised name."""
    beside: dict[str, str]
    """What the environment had of the packages that were resolved together."""

    @property
    def exports(self) -> bool:
        """Whether a worker can export ONNX with it."""
        return self.requirements == requirements(*EXTRAS)

    def serves(self, target: Interpreter, wanted: list[str], present: dict[str, str]) -> bool:
        """Return whether it is what would be made for an environment with these packages."""
        return (
            (self.python, self.platform, self.requirements) == (_python_of(target), target.wheels, wanted)
            and all(present.get(name) == version for name, version in self.beside.items())
            and not any(name in present for name in self.packages)
        )


def overlay_for(target: Interpreter, named: str, folder: Path) -> Path:
    """Return the folder with the packages that an interpreter's environment lacks, made where there is none yet.

    Args:
        named: how the user names the environment, for errors.
        folder: of all overlays.

    Raises:
        ConfigurationError: it has no torch, or a package of a release that the worker cannot work with; or what it
            lacks could not be fetched.
        StorageError: it could not be kept.
    """
    present = require_fitting(target, named)
    for wanted in (requirements(*EXTRAS), requirements(EXTRAS[0])):
        if (kept := _kept(folder, target, wanted, present)) is not None:
            return kept
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / "overlays.lock"):
            wanted = requirements(*EXTRAS)
            if (kept := _kept(folder, target, wanted, present)) is not None:  # another call has just made it
                return kept
            return _made(folder, target, named, present)
    except OSError as error:
        raise StorageError(
            f"What a worker lacks in `environment` {named} could not be kept in {folder}: {error}.",
            remedy="Make the folder writable, free some disk, or start the server with XDG_CACHE_HOME on another disk.",
        ) from error


def overlay_of(runtime: Runtime) -> Overlay:
    """Return what a runtime's overlay holds. Raises OSError."""
    return Overlay.model_validate_json((Path(runtime.overlay) / MARKER).read_bytes())


@cache
def requirements(*extras: str) -> list[str]:
    """Return the requirements of extras of this package, as its metadata has them."""
    of = [Requirement(text) for text in metadata.requires("trainwright") or []]
    taken = [one for one in of if one.marker is not None and any(one.marker.evaluate({"extra": e}) for e in extras)]
    plain = [one for one in taken if not one.marker or not one.marker.evaluate({"extra": ""})]
    return sorted(f"{one.name}{one.specifier}" for one in plain)


def require_fitting(target: Interpreter, named: str) -> dict[str, str]:
    """Return the packages of an environment in which a worker can work.

    Raises:
        ConfigurationError: it has no torch, or a package of a release that the worker does not take.
    """
    present = target.packages
    _require_framework(present, target, named)
    _require_releases(present, target, named)
    return present


def _require_framework(present: dict[str, str], target: Interpreter, named: str) -> None:
    if FRAMEWORK not in present:
        install = _install(target, present, FRAMEWORK)
        raise ConfigurationError(
            f"`environment` {named} has no torch: {target.prefix} has {len(present)} packages, and runs train with the "
            "environment's own torch.",
            remedy=f"Install torch into it (`{install}`), or name the environment that has it{or_none()}.",
        )


def _require_releases(present: dict[str, str], target: Interpreter, named: str) -> None:
    """Refuse a package of the environment that is outside of what the worker takes, by name and release."""
    for text in requirements(EXTRAS[0]):
        one = Requirement(text)
        version = present.get(canonicalize_name(one.name))
        if version is not None and not one.specifier.contains(version, prereleases=True):
            raise ConfigurationError(
                f"`environment` {named} has {one.name} {version}, and a worker needs {one.name}{one.specifier}.",
                remedy=f"Install that there (`{_install(target, present, text)}`), or name an environment that "
                "has it or has none: what is missing the server adds beside it.",
            )


def _install(target: Interpreter, present: dict[str, str], what: str) -> str:
    """Return the command by which the environment's owner installs into it: it may have no pip."""
    if target.image:
        return f"pip install '{what}' where the image is built"
    if "pip" in present:
        return f"{target.python} -m pip install '{what}'"
    return f"uv pip install --python {target.python} '{what}'"


def _kept(folder: Path, target: Interpreter, wanted: list[str], present: dict[str, str]) -> Path | None:
    for record in sorted(folder.glob(f"*/{MARKER}")):
        try:
            found = Overlay.model_validate_json(record.read_bytes())
        except (OSError, ValidationError):
            continue
        if found.serves(target, wanted, present):
            return record.parent
    return None


def _made(folder: Path, target: Interpreter, named: str, present: dict[str, str]) -> Path:
    everything = requirements(*EXTRAS)
    own = resolved_here(everything, present) if is_alike(target) else None
    wanted, resolved = (everything, own) if own is not None else _resolved(target, named, present)
    lacking = {name: version for name, version in resolved.items() if name not in present}
    overlay = Overlay(
        python=_python_of(target),
        platform=target.wheels,
        requirements=wanted,
        packages=lacking,
        beside={name: present[name] for name in resolved if name in present},
    )
    place = folder / digest_json(overlay.model_dump(mode="json")).partition(":")[2][:16]
    draft = place.with_name(f".{place.name}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    try:
        if own is not None:
            link_packages(lacking, draft)
        elif lacking:
            pins = [f"{name}=={version}" for name, version in lacking.items()]
            _uv("pip", "install", "--no-deps", "--target", str(draft), *_for(target), *pins, named=named)
        write_atomically(draft / MARKER, overlay.model_dump_json(indent=2).encode())
        shutil.rmtree(place, ignore_errors=True)
        draft.rename(place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return place


def _resolved(target: Interpreter, named: str, present: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return the requirements that fit beside what the environment has, and the releases that meet them."""
    pinned = "".join(f"{name}=={version}\n" for name, version in present.items() if _is_public(version))
    everything = requirements(*EXTRAS)
    try:
        return everything, _compiled(target, named, everything, pinned)
    except ReleasesError:  # nothing else: an overlay without the exporter would be kept
        least = requirements(EXTRAS[0])
        return least, _compiled(target, named, least, pinned)


def _compiled(target: Interpreter, named: str, wanted: Iterable[str], pinned: str) -> dict[str, str]:
    with tempfile.TemporaryDirectory(prefix="overlay-") as name:
        constraints = Path(name) / "environment.txt"
        constraints.write_text(pinned)
        order = Path(name) / "requirements.in"
        order.write_text("\n".join(wanted))
        said = _uv(
            "pip", "compile", str(order), "--constraints", str(constraints), "--no-header", "--no-annotate",
            *_for(target), named=named,
        )  # fmt: skip
    lines = (line.split("==") for line in said.splitlines() if "==" in line)
    return {canonicalize_name(name.strip()): version.split(";")[0].strip() for name, version in lines}


def _for(target: Interpreter) -> list[str]:
    return [*(_of_image(target) if target.image else ["--python", target.python]), "--only-binary", ":all:", "--quiet"]


def _of_image(target: Interpreter) -> list[str]:
    """Return how uv is told of a Python that it cannot start."""
    release = int(target.libc.split(".")[1])
    libc = max(one for one in MANYLINUX if one <= max(release, MANYLINUX[0]))
    architecture = target.platform.rpartition("-")[2]
    version = ".".join(map(str, target.version[:2]))
    return ["--python-version", version, "--python-platform", f"{architecture}-manylinux_2_{libc}"]


def _uv(*arguments: str, named: str) -> str:
    """Return what uv prints. Raises ConfigurationError."""
    from uv import find_uv_bin

    kept = {name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "CONDA_PREFIX"}}
    try:
        done = subprocess.run(
            [find_uv_bin(), *arguments], capture_output=True, text=True, timeout=UV_SECONDS, check=False,
            stdin=subprocess.DEVNULL, env=kept,
        )  # fmt: skip
        failure = done.stderr if done.returncode else None
    except (OSError, subprocess.TimeoutExpired) as error:
        failure = str(error)
    if failure is not None:
        told = cut(" ".join(failure.replace("╰─▶", "").replace("│", "").split()), MAX_TOLD)
        is_final = UNSOLVABLE in failure and OFFLINE not in failure
        way = "Change these releases there" if is_final else "Call again once the package index answers"
        raise (ReleasesError if is_final else ConfigurationError)(
            f"`environment` {named}: the packages that a worker needs there could not be made ready: {told}",
            remedy=f"{way}, or name another environment{or_none()}.",
        )
    return done.stdout


def _python_of(target: Interpreter) -> str:
    return f"{target.version[0]}.{target.version[1]} {target.abi}"


def _is_public(version: str) -> bool:
    """Return whether an index may have the release: not a local build (`2.4.1+cu121`)."""
    return "+" not in version and version != "unknown"


def ours(folder: Path) -> Path:
    """Return a folder that holds this package alone, as a link."""
    package = Path(sys.modules["trainwright"].__file__ or "").parent
    place = folder / f"ours-{digest_json(str(package)).partition(':')[2][:16]}"
    place.mkdir(parents=True, exist_ok=True)
    link = place / package.name
    if not link.exists():
        draft = place / f".{os.getpid()}"
        draft.symlink_to(package)
        draft.rename(link)
    return place
