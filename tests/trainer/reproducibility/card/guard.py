"""The guard that lets torch name a device that is not there (guard.cpp), and the list of what CUDA refuses."""

from __future__ import annotations

import ctypes
import subprocess
import sysconfig
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
LIST = HERE / "cuda_operations.yaml"


def compiled(folder: Path) -> Path:
    """Return guard.cpp as a library. It is compiled against the headers that come with torch."""
    spec = find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    torch = Path(spec.origin).parent
    made = folder / f"guard{sysconfig.get_config_var('SHLIB_SUFFIX')}"
    libraries = ["-L", str(torch / "lib"), "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{torch / 'lib'}"]
    command = ["g++", "-shared", "-fPIC", "-O0", "-std=c++20", "-w", "-I", str(torch / "include")]
    subprocess.run([*command, str(HERE / "guard.cpp"), "-o", str(made), *libraries], check=True)
    return made


def load(library: Path) -> None:
    """Put the guard in place, before torch is imported."""
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


@cache
def refusals() -> dict[str, list[dict[str, Any]]]:
    """Return the entries of the list by operation."""
    found: dict[str, list[dict[str, Any]]] = {}
    for entry in yaml.safe_load(LIST.read_text(encoding="utf-8"))["refused"]:
        for name in entry["operations"]:
            found.setdefault(name, []).append(entry)
    return found


def alert_of(name: str, arguments: Mapping[str, Any]) -> str | None:
    """Return torch's name for an operation that raises on CUDA, None for any other.

    Args:
        name: of ATen's operation, without its overload.
        arguments: by the names of its schema.
    """
    for entry in refusals().get(name, []):
        if all(_holds(arguments.get(key), condition) for key, condition in entry.get("when", {}).items()):
            return str(entry["alert"])
    return None


def _holds(value: Any, condition: Any) -> bool:
    if condition == "given":
        return value is not None
    if condition == "floating":
        return value is not None and (value.is_floating_point() or value.is_complex())
    return bool(value != condition["not"]) if isinstance(condition, dict) else bool(value == condition)
