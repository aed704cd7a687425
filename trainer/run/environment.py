"""Environment of a worker: variables that are set before Python starts, installed packages, the engine. Light."""

from __future__ import annotations

import json
import os
import re
import site
import sys
import sysconfig
from contextlib import suppress
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trainwright.trainer.base.canonical import digest_file, digest_json
from trainwright.trainer.base.errors import ReproducibilityError
from trainwright.trainer.base.file_stamps import while_unchanged
from trainwright.trainer.base.overlay import overlay_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trainwright.trainer.config import TrainingConfig


def launch_environment(config: TrainingConfig) -> dict[str, str]:
    """Return the variables that the launcher sets for a worker of this configuration.

    Hash order, BLAS workspace and thread counts are read once by their libraries, so setting them later is too late.
    The order of sets is the same for every seed, not the seed's own: so runs of all seeds fork off one warm process.
    PYTORCH_NVML_BASED_CUDA_CHECK, which lets a process ask for devices and fork afterwards, is left out: by it a device
    counts that the driver shows and this torch cannot use, so `auto` would fail on an old driver and not take the CPU.
    Nothing here asks before its last fork that may use one.
    """
    threads = str(config.reproducibility.threads)
    return {
        "PYTHONHASHSEED": "0",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONUNBUFFERED": "1",
        "TF_DETERMINISTIC_OPS": "1",
    }


def verify_launch_environment(config: TrainingConfig) -> None:
    """Raise ReproducibilityError when this process was started without the launch environment."""
    wanted = launch_environment(config)
    wrong = {name: os.environ.get(name) for name, value in wanted.items() if os.environ.get(name) != value}
    if wrong:
        name = min(wrong)
        raise ReproducibilityError(
            f"The worker was started with {name}={wrong[name]!r}; it must be {wanted[name]!r} before Python starts.",
            remedy="Start workers through start_training, or with the variables of launch_environment(config).",
            details={"wrong": wrong, "wanted": wanted},
        )


_FIELD = re.compile(r"^(Name|Version):[ \t]*(\S+)", re.MULTILINE)
_TOP_LEVEL = re.compile(r"^([A-Za-z_]\w*)(?:/|\.\w)", re.MULTILINE)
AT_EVERY_START = frozenset({"_distutils_hack"})
"""Modules that an interpreter imports by itself: they are no evidence of the run's needs."""
FILES = ("METADATA", "PKG-INFO", "top_level.txt", "RECORD", "direct_url.json")
"""Of a distribution, those that are read."""


class _Package(NamedTuple):
    """What a distribution's own files tell of it."""

    name: str
    """Normalised (PyPA: lower case, hyphens); empty where it has none."""
    version: str
    modules: frozenset[str]
    """Top-level names that it installs."""
    is_unreleased: bool
    """Whether it came from a folder or a repository."""


def unreleased_packages() -> list[str]:
    """Return the normalised names of distributions that came from a folder or a repository, sorted.

    No package index need have them (PEP 610: `direct_url.json` says where they came from; a wheel's file is a build
    of a released version).
    """
    return sorted({package.name for package in _packages() if package.is_unreleased})


def installed_packages(path: Sequence[str] | None = None) -> dict[str, str]:
    """Return every installed distribution's version by its normalised name (PyPA: lower case, hyphens).

    Args:
        path: folders to look through; by default those that this process imports from.
    """
    found: dict[str, str] = {}
    for package in _packages(path):
        if package.name:
            found.setdefault(package.name, package.version)
    return dict(sorted(found.items()))


def imported_packages() -> list[str]:
    """Return the names of the distributions whose modules this process has imported by now, sorted.

    Of a namespace that several distributions share, all count.
    """
    modules = {name.partition(".")[0] for name, module in list(sys.modules.items()) if module is not None}
    modules -= AT_EVERY_START
    found = set()
    for package in _packages():
        if package.name and (package.name.replace("-", "_") in modules or not modules.isdisjoint(package.modules)):
            found.add(package.name)
    return sorted(found)


def package_of(module: str) -> str | None:
    """Return the name, in small letters, under which pip installs a top-level module; None: nothing here brings it."""
    found = (package.name for package in _packages() if package.name and module in package.modules)
    first = next(found, None)
    return first.lower() if first else None


def packages_of_overlay() -> list[str]:
    """Return the names of what this process has from its overlay alone, sorted; none in the server's environment."""
    overlay = overlay_folder()
    if overlay is None:
        return []
    own = installed_packages([place for place in sys.path if Path(place) != overlay])
    return sorted(installed_packages([str(overlay)]).keys() - own.keys())


def _packages(path: Sequence[str] | None = None) -> Iterator[_Package]:
    """Give what is known of each distribution, read once while its files are the same."""
    for distribution in _distributions(path):
        place = getattr(distribution, "_path", None)  # no public name leads to the folder of its files
        if place is None:
            yield _read(distribution)
        else:
            files = [f"{place}/{name}" for name in FILES]
            yield while_unchanged(("package", str(place)), files, partial(_read, distribution))


def _read(distribution: metadata.Distribution) -> _Package:
    name, version = _name_and_version(distribution)
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    is_unreleased = "dir_info" in origin or "vcs_info" in origin
    return _Package(name, version, frozenset(_modules_of(distribution)), is_unreleased)


def _distributions(path: Sequence[str] | None = None) -> Iterator[metadata.Distribution]:
    """Give what is installed: not the copies that setuptools brings along and shows once anything has imported it.

    Its own folder alone is passed over: one of that name elsewhere would hide packages.
    """
    bringing = {Path(place) / "setuptools" / "_vendor" for place in _site_folders()}
    return iter(metadata.distributions(path=[one for one in path or sys.path if Path(one) not in bringing]))


def _site_folders() -> list[str]:
    """Return the folders that this interpreter installs packages into, those of an environment's base included."""
    return [*site.getsitepackages(), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]


HOOKS = ("sitecustomize.py", "usercustomize.py")
"""Modules that Python imports by itself as it starts."""
CODE_LINE = re.compile(r"^import[ \t]", re.MULTILINE)
"""In a .pth file: what Python runs as it starts."""


def startup_hooks(path: Sequence[str]) -> dict[str, str]:
    """Return the files by which an environment runs code of its own before any module of ours, with their digests."""
    found: dict[str, str] = {}
    for file in hook_files(path):
        with suppress(OSError):  # one that may not be read runs nothing
            if file.name in HOOKS or CODE_LINE.search(file.read_text(errors="replace")):
                found[str(file)] = digest_file(file)
    return found


def hook_files(path: Sequence[str]) -> list[Path]:
    """Return the files by which an environment may run code of its own as Python starts, in its folders."""
    return [file for folder in map(Path, path) for name in (*HOOKS, "*.pth") for file in sorted(folder.glob(name))]


def engine_digest(engine: Path) -> str:
    """Return the digest of all of the engine's files."""
    paths = sorted(engine.rglob("*.py"))

    def read() -> str:
        return digest_json({path.relative_to(engine).as_posix(): digest_file(path) for path in paths})

    return while_unchanged(("engine", tuple(paths)), [str(path) for path in paths], read)


def digest_of_versions(packages: dict[str, str], names: list[str]) -> str:
    """Return the digest of these packages' versions; one that is absent counts as such."""
    return digest_json({name: packages.get(name) for name in names})


def _modules_of(distribution: metadata.Distribution) -> set[str]:
    """Return the top-level names that a distribution installs."""
    listed = distribution.read_text("top_level.txt")
    if listed is not None:
        return set(listed.split())
    return set(_TOP_LEVEL.findall(distribution.read_text("RECORD") or ""))


def _name_and_version(distribution: metadata.Distribution) -> tuple[str, str]:
    text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    fields = dict(_FIELD.findall(text.partition("\n\n")[0]))  # parsing it all as e-mail takes 20 times as long
    return fields.get("Name", "").lower().replace("_", "-").replace(".", "-"), fields.get("Version", "unknown")
