"""The oldest releases that the product runs on, and the parts of it that need a newer one.

Releases are read from the packages' metadata, so that a process can refuse before it imports anything of them. What a
newer release has is asked of the library itself where it is used; the figures here are for the sentence that says so.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import distributions
from importlib.util import find_spec
from typing import NamedTuple

from trainwright.trainer.base.errors import ConfigurationError

LEAST = {"torch": "2.4", "transformers": "4.44"}
"""Below these, nothing runs, in a project's environment neither (docs/environments.md); what decides whether a driver
or a model fits."""


class Newer(NamedTuple):
    """The release with which a package has what a part of the product needs."""

    package: str
    least: str


TRACED = Newer("torch", "2.5")
"""What follows memory over tensors without contents."""
ADAFACTOR = Newer("torch", "2.5")
FREE_SIZES = Newer("torch", "2.5")
"""Sizes that torch.export finds out to be free."""
COMPILED = Newer("torch", "2.6")
"""A compiler that fails where it would compile no further size, and does not return to eager mode."""
FSDP2 = Newer("torch", "2.8")
MUON = Newer("torch", "2.9")
PROGRAM = Newer("torch", "2.9")
"""A program of torch.export whose weights are no pickles, so that the clean room can read it."""
OTHER_NUMBERS = Newer("safetensors", "0.7")
"""Complex numbers and unsigned integers in a file of tensors."""
VOCABULARY = Newer("peft", "0.18")
"""A prompt that begins with tokens drawn from the vocabulary."""
PACKED = Newer("transformers", "4.54")
"""A model of the library that keeps packed documents apart by their positions."""
TRAINER = Newer("transformers", "5.3")
"""A Trainer whose epoch is a method, so that a run can be resumed inside one."""
ENVIRONMENT = "Set the project's environment.python to a Python that has it"
"""Instead of a torch beside the server."""
BESIDE = "install it beside the server: pip install 'trainwright[train]'"


def has_torch() -> bool:
    """Return whether this interpreter can import torch; a server without it trains in the projects' environments."""
    return find_spec("torch") is not None


def require_torch(what: str, instead: str = ENVIRONMENT) -> None:
    """Refuse what this interpreter cannot do without torch.

    Args:
        what: needs it; the beginning of a sentence.
        instead: what to do without it; an imperative.

    Raises:
        ConfigurationError: torch is missing.
    """
    if not has_torch():
        raise ConfigurationError(
            f"{what} needs torch {LEAST['torch']} or newer, which {sys.executable} does not have.",
            remedy=f"{instead}; or {BESIDE}.",
        )


def too_old(path: Sequence[str] | None = None) -> Iterator[tuple[str, str]]:
    """Yield each package of `LEAST` that is installed in an older release, with that release.

    Args:
        path: folders to look through; by default those that Python imports from.
    """
    for package, least in LEAST.items():
        installed = _installed(package, path)
        if installed is not None and is_older(installed, least):
            yield package, installed


def require_supported() -> None:
    """Refuse to work without torch, or on a release that is too old.

    Raises:
        ConfigurationError: torch is missing, or a package of `LEAST` is older than it says.
    """
    require_torch("A run")
    for package, installed in too_old():
        raise ConfigurationError(
            f"{package} {installed} is installed, and Trainwright needs {package} {LEAST[package]} or newer.",
            remedy=install(package, LEAST[package]),
        )


def needed(what: str, newer: Newer, instead: str) -> ConfigurationError:
    """Return the refusal of a part of the product that the installed release cannot carry.

    Args:
        what: the value that asks for it.
        newer: the release with which it works.
        instead: what to do with the installed one; an imperative.
    """
    installed, wanted = str(_installed(newer.package)), f"{newer.package} {newer.least} or newer"
    is_old = is_older(installed, newer.least)
    return ConfigurationError(
        f"{what} needs {wanted}; {installed} is installed{'' if is_old else ', and does not have it'}.",
        remedy=f"{instead}, or install {wanted if is_old else f'{newer.package} as constraints.txt has it'}.",
    )


def install(package: str, least: str) -> str:
    """Return the remedy for a package that is too old."""
    return f'Run `python -m pip install --upgrade "{package}>={least}"`; docs/platforms.md lists what was tried.'


def is_older(installed: str, least: str) -> bool:
    """Return whether a release is older, by its first two numbers; one without them counts as new.

    So a vendor's build counts as its release, though it orders before it: NVIDIA's containers have
    `2.6.0a0+df5bbc09d1.nv24.12`. The library for this is not imported: a run records what it imports, and an earlier
    version's study goes on only where that is the same.
    """
    return _numbers(installed) < _numbers(least) if _numbers(installed) else False


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)", version)
    return tuple(map(int, found.groups())) if found is not None else ()


def _installed(package: str, path: Sequence[str] | None = None) -> str | None:
    """Return a package's release, of the first folder that has it."""
    found = distributions(name=package) if path is None else distributions(name=package, path=list(path))
    return next((str(each.version) for each in found), None)
