"""`requirements.txt` of the final model: what the run imported, in a form that pip installs anywhere."""

from __future__ import annotations

from typing import Any

OWN = "trainwright"


def requirement_lines(environment: dict[str, Any]) -> list[str]:
    """Return `name==version` lines of a run's `environment` evidence, sorted.

    Left out are distributions that no index has: Trainwright itself, and what was installed from a folder or a
    repository. A local version label (`2.13.0+cpu`) names a build, which other indexes do not carry: PEP 440 lets
    `==2.13.0` take any build of that version.
    """
    unreleased = {OWN, *environment.get("unreleased", [])}
    packages: dict[str, str] = environment.get("imported") or environment.get("packages", {})
    released = {name: version for name, version in packages.items() if name not in unreleased}
    return [f"{name}=={version.partition('+')[0]}" for name, version in sorted(released.items())]


def requirements_file(environment: dict[str, Any]) -> str:
    """Return the whole file, with what it does not install named in comments."""
    left_out = sorted({OWN, *environment.get("unreleased", [])})
    head = [
        f"# The packages with which the model was trained, on Python {environment.get('python', '3')}.",
        "# Install them with: pip install -r requirements.txt",
        f"# Not on an index, and left out: {', '.join(left_out)}.",
    ]
    return "\n".join([*head, *requirement_lines(environment)]) + "\n"
