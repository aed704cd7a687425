"""Start of a process in a container: `python container.py ORDER COMMAND …` becomes the client of Docker or Apptainer.

ORDER is JSON: the engine, its client's command and settings, the image, and the folders that are seen inside, each
under its own path. The process in the container gets this one's folder and variables, by their names alone: their
values stand in no command line. Bootstrap.py ends it once this process is gone. Standard library alone.
"""

import json
import os
import sys
from pathlib import Path
from tempfile import gettempdir
from typing import Any

CLIENT = "TRAINWRIGHT_CLIENT"
"""Variable with the id of the client's process: the one that the launcher knows."""
IMAGE, DIGEST = "TRAINWRIGHT_IMAGE", "TRAINWRIGHT_IMAGE_DIGEST"
"""Variables with what the worker records of its image."""
OF_THE_IMAGE = (
    "PATH", "LD_", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_", "SHELL", "CUDA_HOME", "CUDA_PATH", "SSL_CERT_",
    "CURL_CA_", "REQUESTS_CA_", "XDG_RUNTIME_", "XDG_DATA_DIRS", "XDG_CONFIG_DIRS",
    "NVIDIA_VISIBLE_", "NVIDIA_DRIVER_", "NVIDIA_REQUIRE_", "APPTAINER", "DOCKER_",
)  # fmt: skip
"""Beginnings of variables that name places of this machine, or that the image sets itself."""
IN_A_WALL = "TRAINWRIGHT_IN_A_WALL"
"""Variable of a worker behind a wall (trainer/starting/wall.py): the code root where that takes no new names."""
KEPT_CLOSED = "TRAINWRIGHT_KEPT_CLOSED"
"""Variable of one, too: what stays closed in folders that are open, as a list of paths."""
SYSTEM = {(name,) for name in ("bin", "etc", "lib", "lib64", "opt", "proc", "run", "sbin", "sys", "usr")}
"""Topmost folders in which a variable names what the image has itself."""
CARDS = ("/dev/nvidiactl", "/dev/dxg")
VISIBLE = "CUDA_VISIBLE_DEVICES"


def given(environment: dict[str, str]) -> dict[str, str]:
    """Return the variables that the process in the container gets; HOME is not there, for packages or for caches."""
    kept = {name: value for name, value in environment.items() if not name.startswith(OF_THE_IMAGE)}
    cache = environment.get("XDG_CACHE_HOME") or f"{environment.get('HOME', '')}/.cache"
    return {"TRITON_CACHE_DIR": f"{cache}/triton"} | kept | {"PYTHONNOUSERSITE": "1"}


def seen(wanted: list[str], environment: dict[str, str]) -> list[str]:
    """Return the folders that are seen inside: those wanted, the temporary one, and those that variables name."""
    values = (Path(value) for name, value in environment.items() if name != "HOME")
    named = [one for one in values if one.is_absolute() and one.parts[1:2] not in SYSTEM and one.is_dir()]
    paths = [path for path in (*map(Path, wanted), Path.cwd(), Path(gettempdir()), *named) if path.exists()]
    both = {str(one) for path in paths for one in (path, path.resolve())} - {"/"}
    return [one for one in sorted(both) if not any(one.startswith(f"{other}/") for other in both)]


def docker(order: dict[str, Any], command: list[str], environment: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return the command and the variables of Docker's client; the image is one that is there, by its id."""
    variables = given(environment)
    devices = environment.get(VISIBLE)
    ids = (devices or "").split(",")
    chosen = f'"device={devices}"' if all(one.startswith(("GPU-", "MIG-")) for one in ids) else "all"
    return [
        *order["client"], "run", "--rm", "-i", "--pull=never", "--pid=host", "--network=host", "--ipc=host",
        f"--user={os.getuid()}:{os.getgid()}", *(f"--group-add={one}" for one in os.getgroups()),
        "--entrypoint=", f"--workdir={Path.cwd()}",
        *(f"--volume={one}:{one}" for one in seen(order["binds"], variables)),
        *(f"--env={name}" for name in sorted(variables)),
        *([f"--gpus={chosen}"] if has_card(environment) else []),
        order["image"], *command,
    ], environment | variables  # fmt: skip


def apptainer(
    order: dict[str, Any], command: list[str], environment: dict[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Return the command and the variables of Apptainer's client; it takes HOME from the user's account."""
    variables = given(environment)
    binds = seen(order["binds"], variables)
    return [
        *order["client"], "exec", "--cleanenv", "--no-home", *(["--nv"] if has_card(environment) else []),
        *(f"--bind={one}" for one in binds), f"--pwd={Path.cwd()}", order["image"], *command,
    ], environment | {f"APPTAINERENV_{name}": value for name, value in variables.items() if name != "HOME"}  # fmt: skip


def has_card(environment: dict[str, str]) -> bool:
    """Return whether the process is to see a GPU, and there is one."""
    return environment.get(VISIBLE) != "" and any(os.path.exists(one) for one in CARDS)  # noqa: PTH110


ENGINES = {"docker": docker, "apptainer": apptainer}


def main() -> None:
    """Become the client."""
    order, *command = json.loads(sys.argv[1]), *sys.argv[2:]
    told = {CLIENT: str(os.getpid()), IMAGE: f"{order['engine']}:{order['name']}", DIGEST: order["digest"]}
    client, environment = ENGINES[order["engine"]](order, command, dict(os.environ) | told)
    environment |= order["settings"]
    try:
        os.execvpe(client[0], client, environment)  # noqa: S606 - the engine's client
    except OSError as error:
        sys.exit(f"{client[0]} does not start: {error.strerror}")


if __name__ == "__main__":
    main()
