"""Wall round a worker: what its order holds, and what the ledger says of it. `trainer/starting/wall.py` enters it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import gettempdir
from typing import Any, NamedTuple

from trainwright.tools.launchers import closed, pythons
from trainwright.tools.launchers.closed import cache_of, home_of, hub_of
from trainwright.tools.launchers.environment import ACTIVE
from trainwright.tools.walls import calls
from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.base.paths import workspace_of
from trainwright.trainer.config import parse_config
from trainwright.trainer.data.remote.connections import Connection
from trainwright.trainer.run import RunSpecification
from trainwright.trainer.run.artifacts import ROWS
from trainwright.trainer.run.rank import processes_of
from trainwright.trainer.run.runtime import Runtime
from trainwright.trainer.run.specification import Wall
from trainwright.trainer.run.split_rows import FILE, SplitRows
from trainwright.trainer.starting import wall

OF_THE_SYSTEM = (
    *wall.SYSTEM, "/etc", "/opt", "/sys", "/snap", "/gnu/store", "/cvmfs", "/run/current-system", "/run/opengl-driver",
    "/run/systemd/resolve", "/run/nvidia-persistenced", "/var/cache/fontconfig", "/var/lib/dbus/machine-id",
)  # fmt: skip
"""What programs and libraries read anywhere."""
OF_THE_HUB = ("hub", "datasets", "modules", "xet", "assets", "accelerate")
"""Of the hub's own folder, which has a token beside them; made where they are not there, as torch's is."""
MORE_CACHES = (
    ".cache/torch_extensions", ".cache/triton", ".cache/matplotlib", ".cache/fontconfig", ".cache/kagglehub",
    ".cache/modelscope", ".cache/nvidia", ".cache/whisper", ".cache/clip", ".triton", ".nv", ".keras", "nltk_data",
    "scikit_learn_data",
)  # fmt: skip
NAMED_CACHES = (
    "HF_HUB_CACHE", "HF_DATASETS_CACHE", "HF_MODULES_CACHE", "TRANSFORMERS_CACHE", "TORCH_HOME",
    "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH",
    "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY",
)  # fmt: skip
"""Variables with folders that libraries write to."""
MPS = "/tmp/nvidia-mps"  # noqa: S108 - where CUDA looks for the service by default
OF_HOME = (".gitconfig", ".config/git", ".config/matplotlib", ".config/dvc")
"""Settings of libraries and programs that a worker reads."""
NO_PLACES = ("HOME", "PWD", "OLDPWD", "TMPDIR", "TMP", "TEMP", "XDG_")
"""Beginnings of variables whose values are not all to be read."""
NAMES = 12
"""Characters of a temporary folder's name: sockets in it have a path of at most 107."""


class Walled(NamedTuple):
    """What the walls of a workspace's processes have in common."""

    workspace: Path
    rules: Wall
    """What the owner's settings let through."""


def walled(workspace: Path, rules: Wall | None) -> Walled | None:
    """Return what walls round a workspace's processes are built by; None: there are none."""
    return None if rules is None or why_none(workspace, wanted=True, is_here=True) else Walled(workspace, rules)


def order_for(run: Path, specification: RunSpecification, env: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the order of the wall round a run's worker; None where it is to have none, or the kernel has none."""
    workspace, source = workspace_of(run), specification.source_run
    by = None if workspace is None else walled(workspace, specification.wall)
    if by is None:
        return None
    if processes_of(specification) > 1:  # they meet at ports that nobody knows before
        by = by._replace(rules=by.rules.model_copy(update={"ports": None}))
    own = [f"{one}/artifacts/{name}" for one in specification.sides for name in (FILE, f"{SplitRows.file}.json")]
    kept = [one for one in (specification.data_cache, specification.first_looks) if one is not None]
    logins = closed.logins_of(specification.config, env)
    root, linked = specification.snapshot_of or specification.code_root, specification.linked_roots
    snapshot = [specification.code_root] if specification.snapshot_of is not None else []
    return _order(by, run, env, specification.runtime, code_root=root, linked=linked, kept=kept, logins=logins) | {
        "own_reads": [
            *own,
            *snapshot,
            *([source] if source else []),
            *logins,
            *_of_data(specification.connections.values(), env),
        ],
        "rows": [f"{source}/artifacts/{ROWS}"],
    }


def variables(specification: RunSpecification, env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a worker behind a wall has beside its own: of a warm one from its imports on."""
    if specification.wall is None:
        return {}
    rules, logins = specification.wall, closed.logins_of(specification.config, env)
    return closed.without_token(env, closed.secrets(env, [*rules.reads, *rules.writes, *logins]))


def order_for_job(
    by: Walled, folder: Path, order: Mapping[str, Any], env: Mapping[str, str], runtime: Runtime | None
) -> dict[str, Any]:
    """Return the order of the wall round a process that answers an order in a folder, and loads user code for it.

    Args:
        order: its `code_root` and `linked_roots` are read, its `data_cache` is written, and its `connections` are used,
            which it has where the owner's settings admit the places that its `config` has data come from.
    """
    kept = order["data_cache"][:1] if "data_cache" in order else []
    named = [Connection.model_validate(one) for one in order.get("connections", {}).values()]
    root, linked = order.get("code_root"), order.get("linked_roots", [])
    logins = closed.logins_of(parse_config(order["config"]), env) if "connections" in order else []
    own = {"own_reads": [*logins, *_of_data(named, env)], "rows": []}
    return _order(by, folder, env, runtime, code_root=root, linked=linked, kept=kept, logins=logins) | own


def _order(
    by: Walled, folder: Path, env: Mapping[str, str], runtime: Runtime | None,
    *, code_root: str | None, linked: list[str], kept: list[str], logins: list[str],
) -> dict[str, Any]:  # fmt: skip
    """Return what both have in common: `folder` is the process's own, and what is `kept` in others is written too."""
    for one in kept:
        Path(one).mkdir(parents=True, exist_ok=True)
    claimed = () if runtime is None else ACTIVE  # as its interpreter says: `pythons` opens what is its own
    named = _named({name: value for name, value in env.items() if name not in claimed})
    is_inside, ports = runtime is not None and runtime.container is not None, by.rules.ports
    code = [] if code_root is None else [code_root]
    secrets = closed.secrets(env, [*by.rules.reads, *by.rules.writes, *logins], code_root)
    hidden = [str(by.workspace), str(temporary_of(folder).parent), *secrets]
    return {
        "reads": ["/"]
        if is_inside
        else [*by.rules.reads, *pythons.readable(runtime, home_of(env)), *named, *OF_THE_SYSTEM, *_of_home(env)],
        "writes": [*by.rules.writes, *_caches(env)],
        "roots": [*code, *linked],
        "unread": closed.unread([*code, *linked], env),
        "code": code,  # written too: user code has logs and caches beside itself
        "unwritten": [one for root in code for one in closed.unwritten(root, hidden, env, runtime)],
        "hidden": hidden,
        "own_writes": [str(folder), wall.SHARED_MEMORY, *kept],
        "ports": ports,
        "filter": calls.program(only_tcp=True).hex() if ports is not None and calls.supported() else "",
        "temporary": str(temporary_of(folder)),
        "environment": closed.without_token(env, secrets),
        "closed": str(by.workspace / "settings.yaml"),
    }


def order_apart(order: Mapping[str, Any], home: str, runtime: Runtime | None = None) -> dict[str, Any] | None:
    """Return the order of the wall round a process that evaluates: it sees what its own order names, and no network.

    Args:
        order: of the process; the folder of a file that it names is seen too, with the weights beside a program.
        home: a temporary folder of its own.
        runtime: in which it works; None: in the server's interpreter, or in the order's `python`.
    """
    if wall.landlock_abi() < wall.MIN_ABI:
        return None
    places = [place.parent if place.is_file() else place for place in map(Path, _paths_in(order))]
    python = pythons.of_interpreter(Path(order["python"])) if "python" in order else []
    is_inside = runtime is not None and runtime.container is not None
    return {
        "reads": ["/"] if is_inside else [*pythons.readable(runtime, home_of(os.environ)), *python, *OF_THE_SYSTEM],
        "writes": [],
        "roots": [],
        "unread": [],
        "code": [],
        "unwritten": [],
        "hidden": [str(temporary_of(Path(home)).parent), *closed.secrets(os.environ)],
        "own_reads": [str(place) for place in places],
        "own_writes": [home, *([order["keep_outputs"]] if "keep_outputs" in order else [])],
        "rows": [],
        "ports": [],
        "filter": calls.program(only_tcp=True).hex() if calls.supported() else "",
        "temporary": f"{home}/temporary",
        "environment": {},
        "closed": "",
    }


def _paths_in(value: Any) -> Iterator[str]:
    """Yield the absolute paths that are named anywhere in an order, and are there."""
    if isinstance(value, str) and os.path.isabs(value) and os.path.exists(value):  # noqa: PTH110, PTH117
        yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ():
        yield from _paths_in(one)


def temporary_of(run: Path) -> Path:
    """Return the folder for temporary files that a run's worker has for itself."""
    name = digest_json(str(run)).partition(":")[2][:NAMES]
    return Path(gettempdir()) / f"trainwright-{os.getuid()}" / name


def forget(folder: Path) -> None:
    """Remove the temporary files of a process that has ended."""
    shutil.rmtree(temporary_of(folder), ignore_errors=True)


def why_none(workspace: Path, *, wanted: bool, is_here: bool) -> str:
    """Return why a run's worker gets no wall, by the owner's settings, launcher or kernel; empty: it gets one."""
    if not wanted:
        return "the owner's settings.yaml switches walls off"
    if not is_here:
        return "another launcher starts its worker"
    if workspace.resolve().is_relative_to(wall.SHARED_MEMORY):
        return f"its workspace lies in {wall.SHARED_MEMORY}, where the processes of a run hand tensors on"
    abi = wall.landlock_abi()
    return "" if abi >= wall.MIN_ABI else f"the kernel offers Landlock {abi}, and a worker's wall needs 2 (Linux 5.19)"


def held(specification: RunSpecification, why: str = "") -> dict[str, Any]:
    """Return what the ledger says of the wall round a run's worker: how it is held, or why there is `none`."""
    rules = specification.wall
    if rules is None or why:
        return {"none": why or "an earlier version ordered the run"}
    is_alone = processes_of(specification) == 1
    gaps = not_covered(wall.landlock_abi(), is_open=rules.ports is None or not is_alone)
    gaps += ["TCP: its processes need it"] if rules.ports is not None and not is_alone else []
    return {"landlock": wall.landlock_abi(), **rules.model_dump(), "not_covered": gaps}


def not_covered(abi: int, *, is_open: bool) -> list[str]:
    """Return what a worker's wall does not hold off with this version of Landlock, beyond docs/security.md."""
    found = ["cutting files short (Landlock 3)"] if abi < 3 else []
    found += ["TCP (Landlock 4)"] if abi < 4 and not is_open else []
    found += ["UDP and other transports"] if not is_open and not calls.supported() else []
    return found + (["signals to other processes, abstract sockets (Landlock 6)"] if abi < 6 else [])


def told(found: Mapping[str, Any]) -> str:
    """Return the ledger's record of a wall as a sentence's part."""
    if "landlock" not in found:
        return f"no wall: {found.get('none', 'the ledger does not say')}"
    ports = found.get("ports")
    network = "network open" if ports is None else f"TCP to {', '.join(map(str, ports)) or 'nowhere'}"
    added = [
        f"{what} {', '.join(found[key])}" for key, what in (("reads", "reads"), ("writes", "writes")) if found.get(key)
    ]
    gaps = "; ".join(found.get("not_covered", ()))
    return "; ".join([f"Landlock {found['landlock']}, {network}", *added, *([f"not covered: {gaps}"] if gaps else [])])


def _caches(env: Mapping[str, str]) -> list[str]:
    home, base = Path(home_of(env)), Path(cache_of(env))
    made = [*(Path(hub_of(env), name) for name in OF_THE_HUB), base / "torch"]
    for folder in made:
        with suppress(OSError):  # a shared one that is only read
            folder.mkdir(parents=True, exist_ok=True)
    named = [env[name] for name in NAMED_CACHES if os.path.isabs(env.get(name, ""))]  # noqa: PTH117
    return [*map(str, made), *(str(home / name) for name in MORE_CACHES), *named, MPS]


def _of_home(env: Mapping[str, str]) -> list[str]:
    home = Path(home_of(env))
    return [str(home / name) for name in OF_HOME]


def _named(env: Mapping[str, str]) -> Iterator[str]:
    """Yield the places that variables name: libraries, certificates, toolkits; not whole homes."""
    home = os.path.realpath(home_of(env))
    for name, value in env.items():
        for place in value.split(os.pathsep) if not name.startswith(NO_PLACES) else ():
            if place.startswith("/") and not f"{home}/".startswith(f"{os.path.realpath(place).rstrip('/')}/"):
                yield place


def _of_data(connections: Iterable[Connection], env: Mapping[str, str]) -> Iterator[str]:
    """Yield the files that data are read from by a name that is no path: a connection's file, a database in a file."""
    yield from (one.url_file for one in connections if one.url_file is not None)
    for value in env.values():
        if value.startswith(("sqlite:", "duckdb:", "file:")):
            place = "/" + value.partition(":")[2].partition("?")[0].lstrip("/")
            yield from (place + end for end in ("", "-wal", "-shm"))
