"""Environment of a worker process: what it needs to run, and nothing that looks like a secret.

Kept: paths and locale, the virtual environment, and the settings of CUDA, PyTorch and Hugging Face libraries.
Dropped: everything else, and whatever is named like a credential even among the kept (HF_TOKEN: log in with
`hf auth login`; behind a wall its token is read where data are `hf://`, or where the owner says so). Values with
`user:password@` in an address are dropped too.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.remote.connections import Connection, variables_of
from trainwright.trainer.run.environment import launch_environment
from trainwright.trainer.run.runtime import PACKAGE, WALL, Runtime

KEPT_NAMES = frozenset({
    "CONDA_PREFIX", "CURL_CA_BUNDLE", "HOME", "LANG", "LANGUAGE", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "PYTHONPATH",
    "REQUESTS_CA_BUNDLE", "SHELL", "TEMP", "TMP", "TMPDIR", "TRAINWRIGHT_DVC", "TZ",
    "USER", "VIRTUAL_ENV",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
})  # fmt: skip
KEPT_PREFIXES = (
    "COVERAGE_", "CUDA", "GLOO_", "HF_", "HIP_", "LC_", "NCCL_", "NVIDIA_", "PYTORCH_", "ROCM_", "SSL_CERT_",
    "TORCH", "TRANSFORMERS_", "TRITON_", "XDG_",
)  # fmt: skip
ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")
"""Variables by which a shell says which environment it has activated."""
SETTLED = ("PYTHON", "LD_", "CUBLAS_", "OMP_", "MKL_", "OPENBLAS_", "PATH", "VIRTUAL_ENV", "CONDA_PREFIX")
"""Beginnings of variables on which a run's bits or its packages depend: those that the launcher sets."""
_SECRET_NAME = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|(^|_)(API_?)?KEY($|_)", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"://[^/\s]*@")


def inherited_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the part of the environment (this process's own by default) that a child may see."""
    source = os.environ if environment is None else environment
    return {name: value for name, value in source.items() if _is_kept(name) and not is_secret(name, value)}


def worker_environment(
    config: TrainingConfig, connections: Mapping[str, Connection] | None = None, gpus: Sequence[Gpu] = (),
    *, hides_gpus: bool = False, runtime: Runtime | None = None,
) -> dict[str, str]:  # fmt: skip
    """Return a worker's whole environment: the inherited part, what its data name, what reproducibility demands.

    A worker that was given GPUs is shown these alone, and none with `hides_gpus`.

    A configuration names only variables that the owner gives to data (training_orchestrator/locations.py), and the
    worker takes them out of its environment before it loads user code.
    """
    args = {} if config.data is None else config.data.args
    named = variables_of(args, connections or {})
    own = {name: os.environ[name] for name in named if name in os.environ}
    asked = {name: os.environ.get(name, "") for name in (config.environment.variables if config.environment else ())}
    own |= {name: value for name, value in asked.items() if value and not is_secret(name, value)}
    return (
        activated(inherited_environment(), runtime)
        | own
        | launch_environment(config)
        | visible(gpus, hides_gpus=hides_gpus)
    )


def activated(environment: dict[str, str], runtime: Runtime | None) -> dict[str, str]:
    """Return variables as the script that activates the runtime's environment leaves them; the server's own stay."""
    if runtime is None:
        return environment
    kind = "CONDA_PREFIX" if (Path(runtime.prefix) / "conda-meta").is_dir() else "VIRTUAL_ENV"
    path = os.pathsep.join([str(Path(runtime.prefix) / "bin"), environment.get("PATH", os.defpath)])
    kept = {name: value for name, value in environment.items() if name not in ACTIVE}
    return kept | {kind: runtime.prefix, "PATH": path}


def require_given(name: str) -> None:
    """Check a variable that a configuration wants for its runs. Raises ConfigurationError."""
    value = os.environ.get(name)
    if value is None or name.startswith(SETTLED) or is_secret(name, value):
        why = "is not set in the server's environment" if value is None else "is set by the server itself"
        why = "looks like a credential, and user code could read it" if value and is_secret(name, value) else why
        raise ConfigurationError(
            f"`environment.variables` names {name}, which {why}.",
            remedy="Start the server with it, or take it out of environment.variables; data's credentials are named in "
            "data.args (configs/data_elsewhere.md).",
        )


def command_of(
    runtime: Runtime | None, module: str, *arguments: str, order: Mapping[str, Any] | None = None
) -> list[str]:
    """Return the command that runs a module of ours: in the project's environment, else in the server's own.

    One in a container takes variables and folder from the process that it is started as.

    Args:
        order: of the wall that it works in, which is entered in front of the interpreter; None: none.
    """
    if runtime is None:
        return behind(order, [sys.executable, "-P", "-m", module, *arguments])
    python = sys.executable if runtime.container is None else runtime.python
    inside = behind(order, runtime.command(module, *arguments), python)
    if runtime.container is None:
        return inside
    linked = [str(one.resolve()) for one in PACKAGE.iterdir() if one.is_symlink()]  # of a checkout
    named = [one for one in arguments if Path(one).is_absolute()]
    return runtime.container.command(inside, str(PACKAGE), *linked, runtime.ours, runtime.overlay, *named)


def behind(order: Mapping[str, Any] | None, command: list[str], python: str = sys.executable) -> list[str]:
    """Return the command that enters the wall of an order, by some Python, and becomes the other; no order: no wall."""
    return command if order is None else [python, "-I", "-S", "-B", str(WALL), json.dumps(order), *command]


def has_credentials(config: TrainingConfig, connections: Mapping[str, Connection] | None = None) -> bool:
    """Return whether a worker of this configuration is given variables that its data name."""
    return any(
        name in os.environ for name in variables_of({} if config.data is None else config.data.args, connections or {})
    )


def _is_kept(name: str) -> bool:
    return name in KEPT_NAMES or name.startswith(KEPT_PREFIXES)


def is_secret(name: str, value: str) -> bool:
    """Return whether a variable is named like a credential, or holds an address with a password."""
    return bool(_SECRET_NAME.search(name) or _SECRET_VALUE.search(value))


# GPU of a launch: which device a worker is given, by a name that CUDA takes and that no other device has.

VISIBLE = "CUDA_VISIBLE_DEVICES"


class Gpu(BaseModel):
    """One device: a whole GPU, or an instance of one that MIG divides."""

    model_config = ConfigDict(frozen=True)

    id: str
    """As CUDA_VISIBLE_DEVICES names it: a UUID (`GPU-…`, `MIG-…`) where the driver says one, else a number."""
    index: int | None = None
    """NVML's number of the GPU; None where the owner's list alone tells of it."""
    name: str = ""
    """Kind of device. Bits differ between kinds, so a study keeps to one."""
    memory_bytes: int = 0
    """Of the whole device; 0: not known."""

    def __str__(self) -> str:
        """Return it as answers show it: `GPU 0, NVIDIA A100-SXM4-40GB (GPU-5c…)`."""
        place = "GPU" if self.index is None else f"GPU {self.index}"
        return f"{place}, {self.name} ({self.id})" if self.name else f"{place} ({self.id})"


def visible(gpus: Sequence[Gpu], *, hides_gpus: bool = False) -> dict[str, str]:
    """Return the variable that shows a worker its GPUs alone, or none at all; empty where nothing was decided."""
    return {VISIBLE: ",".join(gpu.id for gpu in gpus)} if gpus or hides_gpus else {}
