"""What a machine lacks: the product's packages and the lane's, resolved beside those that the machine has."""

from __future__ import annotations

import re
import subprocess
import tempfile
import tomllib
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.markers import Environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from uv import find_uv_bin

ROOT = Path(__file__).parents[2]
GLIBC = (2, 28)
"""The oldest C library whose wheels are taken: Debian 10, RHEL 8, Ubuntu 20.04 and newer have it."""
LANE = (
    "bitsandbytes",
    "datasets",
    "httpx",
    "hypothesis",
    "lightning",
    "pytest",
    "pytest-asyncio",
    "pytest-timeout",
    "pytest-xdist",
    "pytorch-lightning",
    "trl",
)
"""What the GPU lane needs beside the product; those in the extra `dev` in its versions."""
UNKNOWN = "0"


class KitError(Exception):
    """Why no kit can be made, and what to do."""


@dataclass(frozen=True)
class Target:
    """The machine that the kit is for."""

    python: str
    """Its minor version: 3.12."""
    has: dict[str, str | None]
    """Versions by name; None where only the name is known."""
    cuda: str | None
    """What its torch was built for, as bitsandbytes names its libraries: 130."""

    @property
    def environment(self) -> Environment:
        """What the markers of requirements are evaluated with."""
        return {
            "implementation_name": "cpython",
            "implementation_version": f"{self.python}.0",
            "os_name": "posix",
            "platform_machine": "x86_64",
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": "Linux",
            "platform_version": "",
            "python_full_version": f"{self.python}.0",
            "python_version": self.python,
            "sys_platform": "linux",
        }


def read_target(python: str, listed: Path) -> Target:
    """Read what `unpack.py --list` or `pip list --format=freeze` wrote there.

    Raises:
        KitError: there is no such file, or it names no torch, which no kit brings.
    """
    if not listed.exists():
        raise KitError(
            f"{listed} is not there: nothing says what the machine has. Run `python3 benchmarks/gpu_kit/unpack.py "
            f"--list > has.txt` on it, then `make gpu-kit PYTHON_VERSION={python} HAS=has.txt`."
        )
    lines = [line.partition("#")[0].strip() for line in listed.read_text(encoding="utf-8").splitlines()]
    pairs = [line.partition("==") for line in lines if line]
    has = {canonicalize_name(name): version.partition("+")[0] or None for name, _, version in pairs}
    if "torch" not in has:
        raise KitError(f"{listed} names no torch, and a kit brings none: list a Python that has it.")
    built_for = next(version for name, _, version in pairs if canonicalize_name(name) == "torch").partition("+cu")[2]
    return Target(python, has, built_for or None)


def requirements(*, beside: list[str], without: list[str]) -> list[str]:
    """Return the lines that the kit resolves: the product's, the lane's but `without`, and those named `beside`.

    Raises:
        KitError: `without` names what the product needs, or nothing of the lane.
    """
    strange = sorted(set(without) - set(LANE))
    if strange:
        raise KitError(f"WITHOUT={strange[0]}: only these may be left out: {', '.join(LANE)}.")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    ranges = {Requirement(line).name: line for line in extras["dev"]}
    lane = [ranges.get(name, name) for name in LANE if name not in without]
    training = [line for name in ("worker", "export", "train") for line in extras[name] if "trainwright" not in line]
    serving = [line for line in project["dependencies"] if Requirement(line).name != "uv"]  # which needs an index
    return [*serving, *training, *lane, *beside]


def lacking(target: Target, lines: list[str]) -> tuple[dict[str, str], list[str]]:
    """Return the kit's packages, versions by name, and in words which of the machine's own they come before.

    The machine's packages are shown to uv as installed ones without needs of their own, so that a build that no index
    has (of torch, say) is taken as it is. The versions that constraints.txt has tested together come first.

    Raises:
        KitError: nothing fits; uv's own words say why.
    """
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split("\n") if "==" in line)
    pins = {canonicalize_name(name): version for name, version in pins.items()}
    with tempfile.TemporaryDirectory() as folder:
        installed = Path(folder) / "installed"
        for name, version in target.has.items():
            _show(installed, name, version or pins.get(name, UNKNOWN))
        tested = "".join(f"{name}=={version}\n" for name, version in pins.items() if name not in target.has)
        (Path(folder) / "wanted.txt").write_text("\n".join(lines), encoding="utf-8")
        (Path(folder) / "tested.txt").write_text(tested, encoding="utf-8")
        command = ["--dry-run", "--target", str(installed), "-r", str(Path(folder) / "wanted.txt")]
        done = uv_install(target, [*command, "-c", str(Path(folder) / "tested.txt")])
        if done.returncode:  # the tested versions need another of something that the machine has
            done = uv_install(target, command)
    if done.returncode:
        raise KitError(f"nothing fits beside what the machine has:\n{done.stderr.strip()}")
    planned = dict(re.findall(r"^ \+ (\S+)==(\S+)$", done.stderr, re.MULTILINE))
    kit = {name: version for name, version in planned.items() if target.has.get(name, "") is not None}
    replaced = [
        f"{name} {target.has[name]} (the kit's {version} comes first)"
        for name, version in kit.items()
        if name in target.has
    ]
    if "torch" in kit:
        rule = next(line for line in lines if Requirement(line).name == "torch")
        raise KitError(f"torch {target.has['torch']} is there, and Trainwright needs {rule}: a kit brings no torch.")
    return kit, replaced


def _show(folder: Path, name: str, version: str) -> None:
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    (info / "RECORD").write_text(f"{info.name}/METADATA,,\n", encoding="utf-8")


def uv_install(target: Target, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """Run `uv pip install` for the target's Python and C library, wheels only."""
    platform = f"x86_64-manylinux_{GLIBC[0]}_{GLIBC[1]}"
    command = [
        find_uv_bin(),
        "pip",
        "install",
        "--no-config",
        "--only-binary",
        ":all:",
        "--python-version",
        target.python,
    ]
    command += ["--python-platform", platform, "--python", str(ROOT / ".venv" / "bin" / "python"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def expected(target: Target, lines: list[str], site: Path) -> dict[str, dict[str, str]]:
    """Return what the kit counts on the machine for: of each package, the range that each of its users needs."""
    found = {canonicalize_name(one.metadata["Name"]): one for one in metadata.distributions(path=[str(site)])}
    open_lines = [("trainwright", line, "") for line in lines]
    seen, counted_on = set(open_lines), dict[str, dict[str, str]]()
    while open_lines:
        who, line, extra = open_lines.pop()
        need = Requirement(line)
        if need.marker is not None and not need.marker.evaluate({**target.environment, "extra": extra}):
            continue
        name = canonicalize_name(need.name)
        if name not in found:
            counted_on.setdefault(name, {})[who] = str(need.specifier)
            continue
        for wanted in ("", *need.extras):
            more = {(name, needed, wanted) for needed in found[name].requires or ()} - seen
            seen |= more
            open_lines += sorted(more)
    return counted_on
