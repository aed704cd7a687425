#!/usr/bin/env python3
"""Validate a list of packages against this environment and against releases that were withdrawn for safety.

    python validate_dependencies.py requirements.txt [--strict] [--known-bad FILE]
    python validate_dependencies.py pyproject.toml

Reads requirements.txt, lock files of that form (pip freeze, `uv pip compile`), and pyproject.toml. Checked are packages
that are missing, or installed in another version, and releases on the list of known bad ones: pinned, installed, or
allowed by a range. --strict: a package without one exact version is a finding. Nothing is imported to find out, and no
network is used. Needs the package packaging (pip brings a copy); the list needs PyYAML, and is Trainwright's unless
--known-bad names another. Exit code 0: good; 1: found something; 2: cannot be read. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from findings import Outcome, UncheckableError, run

ELSEWHERE = ("-r", "--requirement", "-c", "--constraint", "-e", "--editable")
"""Options that name other files, which are validated by calls of their own."""
IN_REPOSITORY = Path(__file__).resolve().parents[3] / "trainer" / "base" / "known_bad_releases.yaml"


def main() -> int:
    """Validate, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="requirements.txt, a lock file of its form, or pyproject.toml")
    parser.add_argument("--strict", action="store_true", help="every package needs one exact version")
    parser.add_argument("--known-bad", type=Path, help="YAML list of {package, versions, why, use}")
    options = parser.parse_args()
    return run(
        options.path.name,
        lambda outcome: check(outcome, options.path, options.known_bad, is_strict=options.strict),
    )


def check(outcome: Outcome, path: Path, known_bad: Path | None, *, is_strict: bool) -> None:
    """Check every requirement of the file. Raises UncheckableError."""
    kind, invalid = _parser()
    bad = _known_bad(outcome, known_bad)
    lines = _lines(outcome, path)
    if not lines:
        outcome.found("empty", f"{path.name} names no package", "Name the packages, one a line.")
    for number, line in lines:
        try:
            requirement = kind(line)
        except invalid as error:
            what = f"line {number}: {line!r} is no requirement ({str(error).splitlines()[0]})"
            outcome.found("line", what, "Write it as name==version.")
            continue
        try:
            if requirement.marker is not None and not requirement.marker.evaluate():
                continue  # of another platform or Python
        except ValueError as error:  # of packaging: a comparison that means nothing
            what = f"line {number}: the condition of {line!r} cannot be evaluated ({str(error)[:80]})"
            outcome.found("line", what, "Correct what stands behind the semicolon.")
            continue
        if requirement.url:
            outcome.not_checked.append(f"line {number}: {requirement.name} comes from an address of its own")
            continue
        _check_installed(outcome, requirement)
        _check_bad(outcome, requirement, bad)
        if not any(one.operator in {"==", "==="} and "*" not in one.version for one in requirement.specifier):
            text = f"{requirement.name} has no exact version ({requirement.specifier or 'any'})"
            outcome.found("not_pinned", text, "Pin it: name==version.", counts=is_strict)
    outcome.facts = {"packages": len(lines)}


def _parser() -> tuple[Any, type[Exception]]:
    """Return the class that reads a requirement, and its error."""
    try:
        from packaging.requirements import InvalidRequirement, Requirement
    except ImportError:
        try:
            from pip._vendor.packaging.requirements import InvalidRequirement, Requirement  # type: ignore[assignment]
        except ImportError as error:
            raise UncheckableError("Neither packaging nor pip is installed.", "pip install packaging") from error
    return Requirement, InvalidRequirement


def _lines(outcome: Outcome, path: Path) -> list[tuple[int, str]]:
    """Return requirements with their line numbers (of pyproject.toml: their place in the list), without options."""
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".toml":
            import tomllib

            return _listed(outcome, path, tomllib.loads(text))
    except (OSError, ValueError, RecursionError) as error:
        raise UncheckableError(
            f"{path} cannot be read: {error}.", "Name requirements.txt or pyproject.toml."
        ) from error
    found = []
    joined = text.replace("\\\n", " ").splitlines()
    for number, line in enumerate(joined, start=1):
        plain = line.split(" #")[0].strip()
        plain = plain.split(" --hash")[0].strip()
        if plain.startswith(ELSEWHERE):
            outcome.not_checked.append(f"line {number}: {plain}")
        elif plain and not plain.startswith(("#", "-")):
            found.append((number, plain))
    return found


def _listed(outcome: Outcome, path: Path, document: dict[str, Any]) -> list[tuple[int, str]]:
    """Return the dependencies of a pyproject.toml; what is of another type than they are is a finding."""
    project = document.get("project", {})
    listed = project.get("dependencies", []) if isinstance(project, dict) else None
    if not isinstance(listed, list):
        given = project if listed is None else listed
        text = f"{path.name} has {str(given)[:80]!r} where a list of packages must be"
        outcome.found("line", text, 'Write [project] with dependencies = ["name==version"].')
        return []
    return list(enumerate(map(str, listed), start=1))


def _check_installed(outcome: Outcome, requirement: Any) -> None:
    try:
        installed = version(requirement.name)
    except PackageNotFoundError:
        text = f"{requirement.name} is not installed ({requirement.specifier or 'any version'} is asked for)"
        outcome.found("missing", text, f"pip install '{requirement.name}{requirement.specifier}'")
        return
    if not requirement.specifier.contains(installed, prereleases=True):
        text = f"{requirement.name} {installed} is installed, and {requirement.specifier} is asked for"
        outcome.found("version", text, f"pip install '{requirement.name}{requirement.specifier}'")


def _known_bad(outcome: Outcome, given: Path | None) -> list[dict[str, Any]]:
    """Return the list of withdrawn releases, and say where there is none. Raises UncheckableError for a bad file."""
    try:
        import yaml
    except ImportError:
        outcome.not_checked.append("known bad releases: reading their list needs PyYAML")
        return []
    path = given or (IN_REPOSITORY if IN_REPOSITORY.is_file() else _of_package())
    if path is None:
        outcome.not_checked.append(
            "known bad releases: Trainwright, which has their list, is not here; give --known-bad"
        )
        return []
    try:
        listed = yaml.safe_load(path.read_text("utf-8"))
        if wrong := [one for one in listed if not _is_versions(one["versions"])]:
            raise TypeError(f"its versions are {str(wrong[0]['versions'])[:80]!r}, and must be a list of them")
        return [
            {
                "package": one["package"],
                "why": one["why"],
                "use": one.get("use"),
                "versions": list(map(str, one["versions"])),
            }
            for one in listed
        ]
    except (OSError, yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UncheckableError(f"{path} is no list of releases: {error}.", "See Trainwright's own.") from error


def _is_versions(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(one, str | int | float) for one in given)


def _of_package() -> Path | None:
    from importlib.util import find_spec

    found = find_spec("trainwright")
    for place in (found.submodule_search_locations or []) if found else []:
        path = Path(place) / "trainer" / "base" / IN_REPOSITORY.name
        if path.is_file():
            return path
    return None


def _check_bad(outcome: Outcome, requirement: Any, bad: list[dict[str, Any]]) -> None:
    name = requirement.name.lower().replace("_", "-")
    try:
        installed = version(requirement.name)
    except PackageNotFoundError:
        installed = ""
    for one in (entry for entry in bad if entry["package"] == name):
        allowed = [release for release in one["versions"] if requirement.specifier.contains(release, prereleases=True)]
        why, without = one["why"], ", ".join(f"!={each}" for each in one["versions"])
        remedy = f"Use {one['use'] or 'another release'}; exclude {without}."
        if installed in one["versions"]:
            outcome.found("known_bad_installed", f"{name} {installed} is installed here: {why}", remedy)
        if allowed:
            outcome.found("known_bad", f"{requirement} allows {name} {', '.join(allowed)}: {why}", remedy)


if __name__ == "__main__":
    sys.exit(main())
