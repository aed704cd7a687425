"""Wheels from the index, and one folder of packages out of them."""

from __future__ import annotations

import csv
import hashlib
import io
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from packaging.utils import canonicalize_name, parse_wheel_filename
from resolving import GLIBC, KitError, Target, uv_install

OLD_NAMES = ("manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64")
OF_THE_INSTALLER = frozenset({"INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json", "uv_build.json"})
INSTALLER = "trainwright-kit\n"
MAX_CHARACTERS = 60


def download(target: Target, packages: dict[str, str], folder: Path) -> dict[str, str]:
    """Fetch one wheel of each package, and return their SHA-256 by file name. pip holds them to the index's digests.

    Raises:
        KitError: the index has no wheel of one for that Python.
    """
    platforms = [f"manylinux_{GLIBC[0]}_{minor}_x86_64" for minor in range(GLIBC[1], 4, -1)]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    command += ["--implementation", "cp", "--python-version", target.python, "--dest", str(folder)]
    for name in (*platforms, *OLD_NAMES):
        command += ["--platform", name]
    command += [f"{name}=={version}" for name, version in sorted(packages.items())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise KitError(f"no wheels of these packages: {done.stderr.strip()[-2000:]}")
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("*.whl"))}
    if {parse_wheel_filename(name)[0] for name in found} != set(packages):
        raise KitError(f"{len(found)} wheels came for {len(packages)} packages. Try again.")
    return found


def install(target: Target, packages: dict[str, str], wheels: Path, site: Path) -> None:
    """Unpack the wheels into one folder, and leave out what says when and by whom that was done.

    Raises:
        KitError: a wheel is broken; uv's own words say which.
    """
    named = [f"{name}=={version}" for name, version in sorted(packages.items())]
    done = uv_install(target, ["--no-index", "--find-links", str(wheels), "--no-deps", "--target", str(site), *named])
    if done.returncode:
        raise KitError(f"the wheels do not unpack:\n{done.stderr.strip()}")
    for info in site.glob("*.dist-info"):
        for name in OF_THE_INSTALLER:
            (info / name).unlink(missing_ok=True)
        (info / "INSTALLER").write_text(INSTALLER, encoding="utf-8")


def list_files(site: Path) -> None:
    """Write each package's RECORD anew: what of it is in the folder. The kit's manifest has the digests."""
    for info in sorted(site.glob("*.dist-info")):
        rows = csv.reader(io.StringIO((info / "RECORD").read_text(encoding="utf-8")))
        names = {row[0] for row in rows if row and (site / row[0]).is_file() and ".." not in row[0]}
        names |= {f"{info.name}/{name}" for name in ("INSTALLER", "RECORD")}
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([name, "", ""] for name in sorted(names))
        (info / "RECORD").write_text(text.getvalue(), encoding="utf-8")


def described(site: Path, wheels: dict[str, str]) -> list[dict[str, str]]:
    """Return name, version, licence, wheel and its SHA-256 of each package."""
    of_wheel = {parse_wheel_filename(name)[0]: name for name in wheels}
    found = []
    for one in metadata.distributions(path=[str(site)]):
        name = canonicalize_name(one.metadata["Name"])
        wheel = of_wheel[name]
        found.append(
            {"name": name, "version": one.version, "licence": _licence(one), "wheel": wheel, "sha256": wheels[wheel]}
        )
    return sorted(found, key=lambda package: package["name"])


def _licence(one: metadata.Distribution) -> str:
    """Return the licence by the metadata: the expression, else a classifier, else the first line of the old field."""
    fields = one.metadata
    for classifier in fields.get_all("Classifier") or ():
        if classifier.startswith("License :: ") and "License-Expression" not in fields:
            return str(classifier.rpartition(" :: ")[2])
    given = fields.get("License-Expression") or fields.get("License") or "see its files"
    return re.split(r"[\r\n]", given.strip())[0][:MAX_CHARACTERS]
