"""Environments of projects: their interpreters, and what a worker lacks there; nothing is installed into them."""

from __future__ import annotations

import os
from pathlib import Path

from trainwright.tools.environments.choice import Found, Owned, chosen, found_environment, no_environment
from trainwright.tools.environments.containers import (
    UnreachableError,
    changed_image,
    container_of,
    interpreter_in,
)
from trainwright.tools.environments.interpreters import Interpreter
from trainwright.tools.environments.overlays import ours, overlay_for, overlay_of, require_fitting
from trainwright.tools.launchers.environment import require_given
from trainwright.trainer.base.errors import ConflictError
from trainwright.trainer.base.releases import has_torch, require_torch
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.config.environment import EnvironmentSection
from trainwright.trainer.run.runtime import Container, Runtime


def runtime_of(workspace: Owned, config: TrainingConfig, code_root: Path, *, is_here: bool = True) -> Runtime | None:
    """Return what the configuration's workers run in; None: the server's own interpreter.

    The first call for an environment fetches what a worker lacks there, which takes some seconds.

    Args:
        is_here: whether this machine starts them; elsewhere another interpreter is the server's own.

    Raises:
        ConfigurationError: there is no such environment, it is not allowed, or no worker can run in it; or none is
            named, and the server's own interpreter has no torch.
    """
    section = config.environment
    for name in section.variables if section is not None else ():
        require_given(name)
    if section is None or not section.named:
        if is_here and not has_torch():
            raise no_environment(workspace, code_root)
        return None
    return runtime_in(workspace, section, code_root)


def runtime_in(workspace: Owned, section: EnvironmentSection, code_root: Path) -> Runtime:
    """Return what workers run in, in the environment that a section names. Raises ConfigurationError."""
    folder = cache_folder()
    container, target = _target(workspace, section, code_root)
    overlay = str(overlay_for(target, str(section), folder))
    return Runtime(
        python=target.python, prefix=target.prefix, path=list(target.path), ours=str(ours(folder)), overlay=overlay,
        container=container,
    )  # fmt: skip


def _target(workspace: Owned, section: EnvironmentSection, code_root: Path) -> tuple[Container | None, Interpreter]:
    """Return the interpreter that a section names, and the container that it is in. Raises ConfigurationError."""
    container = container_of(workspace.path, workspace.settings, section, code_root)
    if container is None:
        return None, chosen(workspace, section, code_root)
    return container, interpreter_in(container, str(section), cache_folder())


def require_environment(workspace: Owned, config: TrainingConfig, code_root: Path) -> None:
    """Check the environment that a configuration names, without making its overlay. Raises ConfigurationError."""
    if config.environment is None:
        return
    for name in config.environment.variables:
        require_given(name)
    if config.environment.named:
        require_fitting(_target(workspace, config.environment, code_root)[1], str(config.environment))


def require_kept(runtime: Runtime | None) -> None:
    """Check that a run's interpreter and overlay are where they were. Raises ConflictError, UnreachableError."""
    if runtime is None:
        require_torch("A worker")
        return
    container, places = runtime.container, [runtime.ours, runtime.overlay]
    if container is not None:
        changed = changed_image(f"{container.engine}:{container.name}", container.digest)
        if changed is not None:
            raise ConflictError(
                f"The run worked in an image that is not there any more as it was: {changed}.",
                remedy="Bring that image back; or start the run again: a new run in the image that is there now.",
                document="configs/environment.md",
            )
    else:
        places.append(runtime.python)
    if gone := [one for one in places if not Path(one).exists()]:
        raise ConflictError(
            f"The run worked in {runtime.prefix}, and {gone[0]} is gone.",
            remedy="Bring it back; or start the run again, which makes what is missing: a new run in another place.",
            document="configs/environment.md",
        )


def cache_folder() -> Path:
    """Return the folder of all overlays, which the user's workspaces share."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "trainwright" / "environments"


__all__ = [
    "Found",
    "Owned",
    "UnreachableError",
    "cache_folder",
    "changed_image",
    "found_environment",
    "no_environment",
    "overlay_of",
    "require_environment",
    "require_kept",
    "runtime_in",
    "runtime_of",
]
