"""What runs nothing leaves the folder of packages: tests, stubs, sources, symbols, libraries for other devices."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

FOLDERS = frozenset({"__pycache__", "tests", "test", "docs", "doc", "examples", "include"})
SUFFIXES = frozenset(
    {".pyi", ".pyc", ".pyo", ".pxd", ".pyx", ".c", ".cc", ".cpp", ".cu", ".h", ".hpp", ".a", ".pdb", ".map"}
)
COMMANDS = ("bin", "share", "include")
"""Beside the packages: commands that name the builder's Python, manual pages."""
OF_DEVICE = re.compile(r"libbitsandbytes_(cpu|(?:cuda|rocm|xpu|hpu)\w*)\.so$")


def slim(site: Path, *, cuda: str | None) -> list[str]:
    """Remove what no running program reads, and return in words what was left out, with bytes.

    Args:
        site: the folder of packages.
        cuda: the CUDA whose library of bitsandbytes stays, as it writes it (130); None keeps all.
    """
    before = _bytes_of(site)
    for name in COMMANDS:
        if not (site / name / "__init__.py").exists():
            shutil.rmtree(site / name, ignore_errors=True)
    _remove_unread(site)
    sources = _bytes_of(site)
    _remove_other_devices(site, cuda)
    devices = _bytes_of(site)
    stripped = _strip(site)
    after = _bytes_of(site)
    left_out = [f"tests, stubs, sources and commands: {before - sources:,} bytes"]
    hint = "" if cuda else "; CUDA=13.0 says which to keep, where the list's torch does not"
    left_out.append(f"libraries of bitsandbytes for other devices: {sources - devices:,} bytes{hint}")
    left_out.append(f"debug symbols: {devices - after:,} bytes" if stripped else "no debug symbols: strip is missing")
    return left_out


def _bytes_of(site: Path) -> int:
    return sum(path.stat().st_size for path in site.rglob("*") if path.is_file())


def _remove_unread(site: Path) -> None:
    packages = [path for path in site.iterdir() if path.is_dir() and path.suffix != ".dist-info"]
    inside = [path for package in packages for path in package.rglob("*")]
    for path in inside:
        if path.is_dir() and path.name in FOLDERS:
            shutil.rmtree(path, ignore_errors=True)
        elif path.is_file() and path.suffix in SUFFIXES:
            path.unlink()


def _remove_other_devices(site: Path, cuda: str | None) -> None:
    if cuda is None:
        return
    for path in site.glob("bitsandbytes/*.so"):
        device = OF_DEVICE.search(path.name)
        if device is not None and device[1] not in {"cpu", f"cuda{cuda}"}:
            path.unlink()


def _strip(site: Path) -> bool:
    """Strip the compiled modules; one that cannot be read stays as it is. Returns False without binutils."""
    program = shutil.which("strip")
    if program is None:
        return False
    for path in sorted(path for path in site.rglob("*") if path.is_file() and ".so" in path.suffixes):
        subprocess.run([program, "--strip-unneeded", str(path)], capture_output=True, check=False)
    return True
