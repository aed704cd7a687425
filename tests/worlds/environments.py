"""Python environments of a user's: with links to packages of the tests' own environment, and nothing of ours."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from trainwright.tools.environments.own_packages import resolved_here
from trainwright.trainer.base.canonical import digest_file, digest_json


def make_environment(folder: Path, *wanted: str) -> Path:
    """Make an environment that has packages, and what these need; return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    names = resolved_here(wanted, {})
    assert names is not None, "not all of them are installed here"
    for name in names:
        link_package(site_of(folder), name)
    return folder / "bin" / "python"


def site_of(folder: Path) -> Path:
    """Return the folder of an environment's packages."""
    return next(folder.glob("lib/python3*/site-packages"))


def link_package(site: Path, name: str) -> None:
    """Link what a distribution installed, by its topmost files and folders."""
    distribution = metadata.distribution(name)
    tops = {file.parts[0] for file in distribution.files or [] if file.parts[0] not in {"..", "__pycache__"}}
    for top in tops:
        place = site / top
        if not place.exists():
            place.symlink_to(Path(str(distribution.locate_file(top))))


def pretend(site: Path, name: str, version: str) -> None:
    """Let a distribution seem installed in a release, whatever there was."""
    for old in site.glob(f"{name.replace('-', '_')}-*.dist-info"):
        old.unlink()
    place = site / f"{name.replace('-', '_')}-{version}.dist-info"
    place.mkdir()
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def digest_of(folder: Path) -> str:
    """Return the digest of an environment's own files and links, without bytecode."""
    found: dict[str, str] = {}
    for path in _below(folder):
        name = path.relative_to(folder).as_posix()
        found[name] = str(path.readlink()) if path.is_symlink() else digest_file(path)
    return digest_json(found)


def _below(folder: Path) -> Iterable[Path]:
    found = (path for path in sorted(folder.rglob("*")) if "__pycache__" not in path.parts)
    return (path for path in found if path.is_symlink() or path.is_file())
