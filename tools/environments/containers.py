"""Images of Docker and Apptainer in which runs work: whether one may be used, what it is, and what its Python has.

No image is fetched and none is built. What an image's Python answered is kept by the image's digest.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

from pydantic import TypeAdapter, ValidationError

from trainwright.tools.environments.interpreters import PROBE_SECONDS, Interpreter, or_none, require_new
from trainwright.tools.launchers.environment import inherited_environment
from trainwright.tools.workspace.settings import Settings
from trainwright.trainer.base.canonical import digest_file
from trainwright.trainer.base.container import OF_THE_IMAGE
from trainwright.trainer.base.errors import ConfigurationError, StorageError
from trainwright.trainer.base.file_stamps import while_unchanged
from trainwright.trainer.config.environment import EnvironmentSection
from trainwright.trainer.run import write_atomically
from trainwright.trainer.run.runtime import Container

SEPARATORS = frozenset(":,\n")
"""Characters that end a folder's name in the engines' commands."""
REACHING = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH")
"""Variables by which Docker's client finds its daemon."""
INSPECT_SECONDS = 10.0
PROBE = """
import json, os, platform, re, sys, sysconfig
found, libc = {}, platform.libc_ver()
try:
    from importlib import metadata
    for one in metadata.distributions():
        if one.metadata["Name"]:
            found.setdefault(re.sub("[-_.]", "-", one.metadata["Name"].lower()), one.version)
except ImportError:
    pass
print(json.dumps({
    "python": sys.executable, "version": list(sys.version_info[:3]), "prefix": sys.prefix,
    "path": [one for one in sys.path if one], "platform": sysconfig.get_platform(),
    "abi": sysconfig.get_config_var("SOABI") or "", "libc": libc[1] if libc[0] == "glibc" else "",
    "listed": sorted(found.items()), "sees": os.path.exists("/proc/" + os.environ["TRAINWRIGHT_CLIENT"]),
}))
"""
_KEPT: TypeAdapter[Interpreter] = TypeAdapter(Interpreter)


class UnreachableError(ConfigurationError):
    """The engine of an image is missing, or does not answer: nothing is known of the image."""


def container_of(folder: Path, settings: Settings, section: EnvironmentSection, code_root: Path) -> Container | None:
    """Return the image that a section names, with what its runs see of this machine; None: it names none.

    Args:
        folder: the workspace's.

    Raises:
        ConfigurationError: the engine is missing or does not answer, the image is not there, or the owner's settings
            do not allow it; or a folder has a name that no engine takes.
    """
    roots = [str(folder), str(code_root), *map(str, settings.allowed_roots(folder))]
    if section.docker is not None:
        engine, name, allowed = "docker", section.docker, f"docker:{section.docker}" in settings.environments
    elif section.apptainer is not None:
        path = Path(os.path.abspath(code_root / Path(section.apptainer).expanduser()))  # noqa: PTH100 - keeps links
        places = [*roots, *(str(folder / Path(one).expanduser()) for one in settings.environments)]
        engine, name = "apptainer", str(path)
        allowed = any(path.resolve().is_relative_to(Path(one).resolve()) for one in places)
    else:
        return None
    if not allowed:
        why = "a client of Docker can do all that root can" if engine == "docker" else "it is outside of the code roots"
        raise ConfigurationError(
            f"`environment` {section}: the owner's settings.yaml does not allow this image ({why}).",
            remedy=f"The workspace's owner adds `environments: ['{'docker:' if engine == 'docker' else ''}{name}']` "
            "to settings.yaml.",
        )
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    binds = list(dict.fromkeys([*roots, cache]))
    if strange := next((one for one in binds if not SEPARATORS.isdisjoint(one)), None):
        raise ConfigurationError(
            f"`environment` {section}: {strange} has a colon or a comma, and no container can be shown such a folder.",
            remedy=f"Move it to a folder without them{or_none()}.",
        )
    for variable in section.variables:
        if variable.startswith(OF_THE_IMAGE):
            raise ConfigurationError(
                f"`environment.variables` names {variable}, and in a container what begins so is the image's own.",
                remedy=f"Set it where the image is built, and take it out of environment.variables{or_none()}.",
            )
    digest = image_digest(engine, name)
    client, daemon = client_of(engine), reaching() if engine == "docker" else {}
    return Container(engine=engine, name=name, digest=digest, client=client, settings=daemon, binds=binds)


def client_of(engine: str) -> list[str]:
    """Return the command of an engine's client. Raises ConfigurationError."""
    program = shutil.which(engine)
    if program is None:
        raise UnreachableError(
            f"`environment.{engine}` needs the program {engine}, and none is on the server's PATH.",
            remedy=f"Install it, or start the server with a PATH that has it{or_none()}.",
        )
    return [program]


def reaching() -> dict[str, str]:
    """Return the variables by which this process's Docker client finds its daemon."""
    return {name: os.environ[name] for name in REACHING if os.environ.get(name)}


def image_digest(engine: str, name: str) -> str:
    """Return Docker's id of an image, or the digest of an image file.

    Raises:
        ConfigurationError: there is none, or the daemon does not answer.
    """
    if engine == "apptainer":
        try:
            return while_unchanged(("image", name), [name], partial(digest_file, Path(name)))
        except OSError as error:
            raise ConfigurationError(
                f"`environment.apptainer`: {name} is no image file that can be read: {error.strerror}.",
                remedy=f"Name the file that `apptainer build` or `apptainer pull` has written{or_none()}.",
            ) from error
    command = [*client_of(engine), "image", "inspect", "--format", "{{.Id}}", name]
    return _said(command, name, INSPECT_SECONDS).strip()


def changed_image(recorded: str, digest: str) -> str | None:
    """Return how an image of a run's record (`docker:NAME`) differs from the one that is there; None: it does not.

    Raises:
        UnreachableError: its engine is missing, or does not answer.
    """
    engine, _, name = recorded.partition(":")
    try:
        now = image_digest(engine, name)
    except UnreachableError:
        raise
    except ConfigurationError as error:
        return f"image {name} {_short(digest)} is gone: {error.message}"
    return None if now == digest else f"image {name} {_short(digest)} -> {_short(now)}"


def interpreter_in(container: Container, named: str, folder: Path) -> Interpreter:
    """Return what the Python of an image is, asked of it once.

    Args:
        named: how the user names the environment, for errors.
        folder: in which answers are kept.

    Raises:
        ConfigurationError: it has none, or an old one, or the container does not start.
    """
    place = folder / "images" / f"{container.engine}-{container.digest.rpartition(':')[2]}.json"
    try:
        found = _KEPT.validate_json(place.read_bytes())
    except (OSError, ValidationError):
        alone = container.model_copy(update={"binds": []})
        said = _said(alone.command(["python3", "-c", PROBE]), container.name)
        try:
            answer = json.loads(said)
            sees = answer.pop("sees")
            found = _KEPT.validate_python(answer | {"image": container.name})
        except (ValueError, ValidationError) as error:
            _refuse(container.name, f"its python3 answered {said[:200]!r}", error)
        _require_usable(found, named, sees=sees)
        with suppress(OSError, StorageError):  # it is asked again then, and the overlay's refusal names the folder
            place.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(place, _KEPT.dump_json(found))
    return require_new(found, named)


def _require_usable(found: Interpreter, named: str, *, sees: bool) -> None:
    if not sees:
        raise ConfigurationError(
            f"`environment` {named}: a process in it does not see the processes of this machine, and one whose client "
            "is killed would work on.",
            remedy=f"Let Docker's daemon run on this machine, without namespaces of users{or_none()}.",
        )
    if not found.libc:
        raise ConfigurationError(
            f"`environment` {named} has another C library than glibc, which the wheels of a worker's packages need.",
            remedy=f"Build the image on one with glibc (debian, ubuntu, rockylinux){or_none()}.",
        )


def _said(command: Sequence[str], name: str, seconds: float = PROBE_SECONDS) -> str:
    """Return what an engine's client prints. Raises ConfigurationError."""
    try:
        done = subprocess.run(
            list(command), capture_output=True, text=True, check=True, timeout=seconds,
            stdin=subprocess.DEVNULL, cwd="/", env=inherited_environment() | reaching() | {"CUDA_VISIBLE_DEVICES": ""},
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        _refuse(name, " ".join((getattr(error, "stderr", None) or str(error)).split())[-300:], error)
    return done.stdout


def _refuse(name: str, said: str, cause: Exception) -> NoReturn:
    error: type[ConfigurationError] = ConfigurationError
    is_late = isinstance(cause, subprocess.TimeoutExpired) and "inspect" in cause.cmd
    if "No such image" in said:
        message, remedy = f"there is no image {name} here", f"Run `docker pull {name}`: the server fetches none"
    elif "docker daemon" in said or "docker API" in said or is_late:
        message, remedy = f"Docker's daemon does not answer: {said}", "Start it, or let the server's user reach it"
        error = UnreachableError
    else:
        message, remedy = f"no Python of image {name} answers: {said}", "Name an image that has python3 on its PATH"
    raise error(f"`environment`: {message}", remedy=f"{remedy}{or_none()}.") from cause


def _short(digest: str) -> str:
    return digest.rpartition(":")[2][:12]
