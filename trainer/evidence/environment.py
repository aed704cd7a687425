"""Environment and code that a run had: its machine, its packages, the user's files and the engine's."""

from __future__ import annotations

import getpass
import importlib
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import torch

import trainwright
from trainwright.trainer.base.canonical import digest_bytes, digest_file, digest_json
from trainwright.trainer.base.container import DIGEST, IMAGE
from trainwright.trainer.base.overlay import overlay_folder
from trainwright.trainer.base.paths import ENGINE
from trainwright.trainer.run.environment import (
    engine_digest,
    installed_packages,
    packages_of_overlay,
    startup_hooks,
    unreleased_packages,
)
from trainwright.trainer.run.evidence import Code, Environment, Git
from trainwright.trainer.supervision.sampling import driver_version
from trainwright.trainer.user_code.import_record import meanings_of, own_files, sources_of

IMPORT_TESTED = ("torch", "numpy", "safetensors", "onnx", "onnxruntime", "tensorboard")
LOCK_FILES = (
    "uv.lock",
    "poetry.lock",
    "Pipfile.lock",
    "pdm.lock",
    "requirements.txt",
    "constraints.txt",
    "conda-lock.yml",
)
MAX_UNTRACKED = 1000
MAX_UNTRACKED_BYTES = 64 * 2**20
"""Limit on the number of untracked files whose content is digested, and on their bytes together."""


def environment_evidence(code_root: Path, *, device: str, precision: str, world_size: int = 1) -> Environment:
    """Describe this process; `world_size` is the number of processes that train together."""
    packages = installed_packages()
    versions, failures = import_test()
    library = {
        "version": str(torch.__version__),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }
    basis = {
        "packages_digest": digest_json(packages),
        "python": platform.python_version(),
        "torch": library["version"],
        "threads": library["threads"],
        "cpu_capability": library["cpu_capability"],
        "device": device,
        "precision": precision,
        "world_size": world_size,
    }
    own_path = sys.path[1:] if overlay_folder() else []
    machine = hardware()
    basis |= {"image": digest} if (digest := os.environ.get(DIGEST)) else {}
    basis |= machine_facts(machine, library, device=device, gpus=world_size)
    return Environment(
        python=platform.python_version(),
        platform=platform.platform(),
        packages=packages,
        packages_digest=digest_json(packages),
        path=own_path,
        overlay=packages_of_overlay(),
        hooks=startup_hooks(own_path),
        unreleased=unreleased_packages(),
        import_tested=versions,
        import_failures=failures,
        torch=library,
        hardware=machine,
        git=git_state(code_root),
        author=author_of(code_root),
        container_image=container_image(),
        image_digest=os.environ.get(DIGEST),
        lock_files={name: digest_file(code_root / name) for name in LOCK_FILES if (code_root / name).is_file()},
        command_line=sys.orig_argv,
        fingerprint_basis=basis,
        fingerprint=digest_json(basis),
    )


def machine_facts(
    hardware: dict[str, Any], library: dict[str, Any], *, device: str | None, gpus: int
) -> dict[str, Any]:
    """Return the facts of a machine on which bits depend, of its GPUs those that the run computes on.

    Args:
        hardware: as `Environment.hardware`.
        library: as `Environment.torch`.
        device: "cpu" or "cuda".
        gpus: the first so many compute.
    """
    found = {"cpu": hardware.get("cpu"), "cpu_kind": hardware.get("cpu_kind")}
    if device == "cuda":
        used = hardware.get("gpus", [])[:gpus]
        for fact, key in (("gpus", "name"), ("compute_capability", "compute_capability")):
            found[fact] = [gpu.get(key) for gpu in used] if used and all(gpu.get(key) for gpu in used) else None
        found |= {"cuda": library.get("cuda"), "cudnn": library.get("cudnn")}
        found["tf32_override"] = hardware.get("tf32_override")
    return {name: value for name, value in found.items() if value is not None}


def import_test() -> tuple[dict[str, str], dict[str, str]]:
    """Import the engine's libraries together; return versions, and errors of those that fail.

    The user's imports are tested by importing that code, later in the same process.
    """
    versions: dict[str, str] = {}
    failures: dict[str, str] = {}
    for name in IMPORT_TESTED:
        try:
            module = importlib.import_module(name)
            versions[name] = str(getattr(module, "__version__", "unknown"))
        except Exception as error:  # noqa: BLE001 - a broken installation fails in any way it likes
            failures[name] = f"{type(error).__name__}: {str(error)[:200]}"
    return versions, failures


def git_state(folder: Path) -> Git | None:
    """Return commit, branch and a digest of uncommitted changes; None outside a repository or without git.

    Uncommitted are changes of files that git knows, and untracked files that it does not ignore.
    """
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    difference = _git(folder, "diff", "--full-index", "HEAD", "--", ".") or ""
    listed = _git(folder, "ls-files", "--others", "--exclude-standard", "-z", "--", ".") or ""
    names = sorted(name for name in listed.split("\0") if name)
    untracked = untracked_digests(folder, names)
    return Git(
        commit=commit.strip(),
        branch=(_git(folder, "rev-parse", "--abbrev-ref", "HEAD") or "").strip(),
        dirty=bool(difference or names),
        diff_digest=digest_json([difference, names, untracked]) if difference or names else None,
        untracked=len(names),
        untracked_by_name_only=len(names) - len(untracked),
    )


def author_of(folder: Path) -> str | None:
    """Return the name that git is configured with in the folder, else the user's; None where neither is known."""
    named = (_git(folder, "config", "user.name") or "").strip()
    if named:
        return named
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in some containers
        return None


def untracked_digests(folder: Path, names: list[str]) -> dict[str, str]:
    """Return the digests of the first MAX_UNTRACKED files, of MAX_UNTRACKED_BYTES in all; of links, their targets.

    Left out are larger files, which are data rather than code, and unreadable ones.
    """
    digests, left_bytes = {}, MAX_UNTRACKED_BYTES
    for name in names[:MAX_UNTRACKED]:
        path = folder / name
        try:
            if path.is_symlink():
                digests[name] = digest_bytes(os.fsencode(path.readlink()))
            elif path.is_file() and (size := path.stat().st_size) <= left_bytes:
                digests[name], left_bytes = digest_file(path), left_bytes - size
        except OSError:
            continue
    return digests


def _git(folder: Path, *arguments: str) -> str | None:
    # The repository is the user's: no hook, pager or external diff of its configuration may run.
    command = ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-C", str(folder), *arguments]
    if arguments[0] == "diff":
        command.insert(-2, "--no-ext-diff")
        command.insert(-2, "--no-textconv")
    try:
        done = subprocess.run(command, capture_output=True, timeout=10, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None


def container_image() -> str | None:
    """Return the container's image where the environment names it."""
    named = os.environ.get(IMAGE) or os.environ.get("CONTAINER_IMAGE")
    if named:
        return named
    return "unnamed container" if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists() else None


def code_evidence(code_root: Path) -> Code:
    """Return digests of the user's imported files, and of the engine."""
    files = own_files(code_root)
    meanings = meanings_of(sources_of(files, code_root))
    return Code(
        files=files,
        digest=digest_json(files),
        meanings=meanings,
        meaning=digest_json(meanings),
        engine_version=trainwright.__version__,
        engine_digest=engine_digest(ENGINE),
    )


# The machine of a run: its processor, memory, GPUs and their driver, as the worker finds them.

TF32_OVERRIDE = "NVIDIA_TF32_OVERRIDE"
"""NVIDIA's variable that switches TF32 in its libraries, whatever torch is told."""


def hardware() -> dict[str, Any]:
    """Return CPU model, cores, memory and GPUs; beside GPUs their driver, and TF32 where the environment switches it.

    Initialises CUDA where there is a device: a process that forks others which compute on it calls this afterwards.
    """
    gpus = []
    if torch.cuda.is_available():
        for number in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(number)
            gpus.append(
                {
                    "name": properties.name,
                    "memory_bytes": properties.total_memory,
                    "compute_capability": f"{properties.major}.{properties.minor}",
                    "multiprocessors": properties.multi_processor_count,
                }
            )
    machine: dict[str, Any] = {
        **_cpu(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "gpus": gpus,
    }
    if gpus:
        machine |= {"driver": driver_version(), "tf32_override": os.environ.get(TF32_OVERRIDE, "not set")}
    return machine


def _cpu() -> dict[str, str | None]:
    """Return the processor's name and, where the kernel says it, its kind: a virtual machine's name may be any."""
    fields = _cpu_fields()
    name = fields.get("model name") or _apple_name() or platform.processor() or platform.machine()
    kind = [fields[key] for key in ("vendor_id", "cpu family", "model", "CPU implementer", "CPU part") if key in fields]
    return {"cpu": name, "cpu_kind": " ".join(kind) or None}


def _cpu_fields() -> dict[str, str]:
    """Return what Linux says of the first processor."""
    try:
        first = Path("/proc/cpuinfo").read_text(errors="replace").partition("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _apple_name() -> str | None:
    if platform.system() != "Darwin":
        return None
    command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
