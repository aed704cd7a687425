"""What a machine without a network needs beside its own torch to run Trainwright and the GPU lane, as one archive.

A kit is for one Python and one list of what the machine has already. Prints what was left out, and as its last line
one JSON object: bytes of the kit and of the repository that travels with it, and whether both fit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from fetching import described, download, install, list_files
from packing import pack
from resolving import GLIBC, ROOT, KitError, Target, expected, lacking, read_target, requirements
from slimming import slim

MIB = 2**20
MAX_MIB = 60
HERE = Path(__file__).parent


def main() -> int:
    """Make the kit and print its figures. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python-version", required=True, metavar="3.12", help="minor version of the machine's Python")
    parser.add_argument(
        "--has", type=Path, help="what the machine has: `unpack.py --list`, or `pip list --format=freeze`"
    )
    parser.add_argument("--with", nargs="*", default=[], dest="beside", help="further packages")
    parser.add_argument("--without", nargs="*", default=[], help="packages of the lane to leave out")
    parser.add_argument("--cuda", help="CUDA of the machine's torch, as in 13.0; by default the list's torch says it")
    parser.add_argument("--into", type=Path, default=ROOT / "build" / "gpu-kit", help="folder of the kit")
    options = parser.parse_args()
    listed = options.has or HERE / f"ecosystem-{options.python_version}.txt"
    try:
        target = read_target(options.python_version, listed)
        if options.cuda:
            target = Target(target.python, target.has, options.cuda.replace(".", ""))
        figures = make(target, requirements(beside=options.beside, without=options.without), options.into)
    except KitError as error:
        print(f"gpu-kit: {error}", file=sys.stderr)
        return 2
    print(json.dumps(figures))
    return 0


def make(target: Target, lines: list[str], into: Path) -> dict[str, Any]:
    """Write the kit of these requirements for the target, and return its figures."""
    packages, replaced = lacking(target, lines)
    print(f"{len(packages)} packages are missing there: {', '.join(sorted(packages))}", flush=True)
    for line in replaced:
        print(f"does not fit: {line}", flush=True)
    archive = into / f"trainwright-kit-{target.python}.tar.xz"
    with tempfile.TemporaryDirectory() as folder:
        wheels, site = Path(folder) / "wheels", Path(folder) / "site"
        digests = download(target, packages, wheels)
        install(target, packages, wheels, site)
        facts = {
            "python": target.python,
            "machine": "x86_64",
            "glibc": GLIBC,
            "packages": described(site, digests),
            "expects": expected(target, lines, site),
        }
        for line in slim(site, cuda=target.cuda):
            print(f"left out: {line}", flush=True)
        list_files(site)
        print("packing; a few minutes", flush=True)
        digest = pack(site, facts, archive)
    return _figures(archive, digest, target, len(packages))


def _figures(archive: Path, digest: str, target: Target, packages: int) -> dict[str, Any]:
    kit, repository = archive.stat().st_size, _bytes_of_repository()
    together = (kit + repository) / MIB
    return {
        "kit": os.path.relpath(archive),
        "sha256": digest,
        "python": target.python,
        "packages": packages,
        "bytes_of_kit": kit,
        "bytes_of_repository": repository,
        "mib_together": round(together, 1),
        "max_mib": MAX_MIB,
        "fits": together < MAX_MIB,
    }


def _bytes_of_repository() -> int:
    """Return the bytes of the tracked files as they stand: what travels with the kit."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return sum(path.lstat().st_size for path in paths if path.is_symlink() or path.exists())


if __name__ == "__main__":
    sys.exit(main())
