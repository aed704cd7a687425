"""Requirements (`requirements.txt`) of the final model: the run's imports, in a form that pip installs anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from trainwright.trainer.run.evidence import Environment

OWN = "trainwright"


def requirement_lines(environment: Environment, imported: Collection[str] = ()) -> list[str]:
    """Return `name==version` lines of a run's `environment` evidence, sorted.

    Args:
        environment: the evidence.
        imported: the packages to name; all that were installed where none are given.

    Left out are distributions that no index has: Trainwright itself, and what was installed from a folder or a
    repository. A local version label (`2.13.0+cpu`) names a build, which other indexes do not carry: PEP 440 lets
    `==2.13.0` take any build of that version.
    """
    unreleased = {OWN, *environment.unreleased}
    named = (set(imported) or environment.packages.keys()) - unreleased
    released = {name: version for name, version in environment.packages.items() if name in named}
    return [f"{name}=={version.partition('+')[0]}" for name, version in sorted(released.items())]


def requirements_file(environment: Environment, imported: Collection[str]) -> str:
    """Return the file for the packages that a run imported; comments name those that it does not install."""
    left_out = sorted({OWN, *environment.unreleased})
    head = [
        f"# The packages with which the model was trained, on Python {environment.python or '3'}.",
        "# Install them with: pip install -r requirements.txt",
        f"# Not on an index, and left out: {', '.join(left_out)}.",
    ]
    return "\n".join([*head, *requirement_lines(environment, imported)]) + "\n"
