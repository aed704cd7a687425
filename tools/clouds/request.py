"""Request for a job on rented or shared machines, with the bounds of each number and the form of each name."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import Field, StringConstraints, ValidationError

from trainwright.tools.pipeline import STAGES
from trainwright.trainer.base.errors import ConfigurationError, near
from trainwright.trainer.base.records import Closed

Platform = Literal["modal", "lambda", "runpod", "skypilot", "slurm", "kubernetes", "kubeflow"]
PLATFORMS: tuple[str, ...] = get_args(Platform)
OPTIONS = {"platform": "on", "secrets": "secret"}
"""Fields whose option has another name."""
_SKY = frozenset({"spot", "idle_minutes", "disk_gb", "region"})
_CLUSTER = frozenset({"spot", "spot_taint", "disk_gb", "image", "volume", "secrets", "namespace", "gpu_label"})
TAKEN: dict[str, frozenset[str]] = {
    "modal": frozenset({"idle_minutes", "region", "volume", "secrets"}),
    "lambda": _SKY - {"spot"} | {"bucket"},
    "runpod": _SKY | {"image", "volume"},
    "skypilot": _SKY | {"image", "bucket"},
    "slurm": frozenset({"partition", "gpu_label"}),
    "kubernetes": _CLUSTER,
    "kubeflow": _CLUSTER,
}
"""Platforms to the options that their files have a place for, beside those that every platform's have."""
_NO_IDLE = "there is no idle time-out: the GPU is free again when the job ends"
INSTEAD = {
    ("slurm", "idle_minutes"): _NO_IDLE,
    ("kubernetes", "idle_minutes"): _NO_IDLE,
    ("kubeflow", "idle_minutes"): _NO_IDLE,
    ("modal", "spot"): "Modal may take any of its GPUs away, at no lower price",
    ("lambda", "spot"): "Lambda Labs has no spot machines, and --on runpod has",
    ("runpod", "bucket"): "a network volume (--volume) keeps the workspace there",
    ("slurm", "volume"): "the workspace lies on the shared disk, beside the job",
    ("slurm", "secrets"): "sbatch hands your environment on",
    ("lambda", "secrets"): "variables of the data's credentials are handed on by name",
    ("runpod", "secrets"): "variables of the data's credentials are handed on by name",
    ("skypilot", "secrets"): "variables of the data's credentials are handed on by name",
}
"""What there is in place of an option that a platform does not take."""
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?$")]
"""Of a volume, namespace or bucket, as Kubernetes and object stores take it."""
SecretName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")]
Label = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_./-]{0,62}$")]
Taint = Annotated[
    str,
    StringConstraints(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_./-]{0,200}(=[A-Za-z0-9_.-]{0,63})?(:(NoSchedule|PreferNoSchedule|NoExecute))?$"
    ),
]
"""KEY[=VALUE][:EFFECT], as kubectl takes it."""
GKE_SPOT = "cloud.google.com/gke-spot"
Image = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/:@-]{0,199}$")]


class CloudRequest(Closed):
    """What the user wants rendered."""

    project: str = Field(min_length=1, max_length=200)
    platform: Platform
    gpu: str = Field(min_length=1, max_length=80)
    """NAME or NAME:COUNT."""
    spot: bool = False
    hours: float | None = Field(default=None, ge=0.1, le=720, allow_inf_nan=False)
    """After which the platform ends the job; None: what the owner's limits leave."""
    idle_minutes: int = Field(default=10, ge=1, le=1440)
    """After which a machine that does nothing is given back."""
    cpus: int = Field(default=8, ge=1, le=256)
    memory_gb: int = Field(default=32, ge=1, le=4096)
    disk_gb: int = Field(default=100, ge=10, le=16384)
    region: str | None = Field(default=None, min_length=1, max_length=64)
    stage: str = "training"
    search: bool = False
    """Also the configuration's search, where the project gets that far."""
    image: Image | None = None
    volume: Name | None = None
    """That keeps the workspace; None: one named after the project."""
    bucket: Name | None = None
    """Of an object store that keeps the workspace, on platforms without volumes."""
    secrets: tuple[SecretName, ...] = Field(default=(), max_length=16)
    """Names of the platform's secrets; never values."""
    namespace: Name = "default"
    partition: Label | None = None
    gpu_label: Label | None = None
    """The cluster's own word for the GPU."""
    spot_taint: Taint = GKE_SPOT
    """Of a cluster's spot nodes, which the job tolerates."""
    requirement: str = Field(default="", max_length=300, pattern=r"^[^\r\n]*$")
    """How Trainwright itself is installed there; empty: this version from the index."""

    @property
    def toleration(self) -> dict[str, str]:
        """Toleration of the spot nodes' taint, as Kubernetes has it; without a value, of every value."""
        taint, _, effect = self.spot_taint.partition(":")
        key, has_value, value = taint.partition("=")
        which = {"operator": "Equal", "value": value} if has_value else {"operator": "Exists"}
        return {"key": key, **which, "effect": effect or "NoSchedule"}


def read_cloud_request(**given: Any) -> CloudRequest:
    """Return the request. Raises ConfigurationError with the value, its rule and the nearest valid one."""
    values = {name: value for name, value in given.items() if value is not None}
    if (platform := values.get("platform")) not in PLATFORMS:
        meant = near(str(platform), PLATFORMS, cutoff=0.3)
        raise ConfigurationError(
            f"--on {str(platform)[:60]!r} is no platform: {', '.join(PLATFORMS)}.",
            remedy=f"--on {meant[0] if meant else PLATFORMS[0]} is the nearest.",
        )
    if (stage := values.get("stage", STAGES[0])) not in STAGES:
        meant = near(str(stage), STAGES, cutoff=0.3)
        raise ConfigurationError(
            f"--stage {str(stage)[:60]!r} is none: {', '.join(STAGES)}.",
            remedy=f"--stage {meant[0] if meant else 'training'} is the nearest.",
        )
    try:
        request = CloudRequest.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        name = _option(key)
        raise ConfigurationError(
            f"{name} {str(first.get('input'))[:80]!r}: {first['msg']}.", remedy=f"Another {name}{_nearest(first)}."
        ) from error
    _require_taken(request)
    if request.spot_taint != GKE_SPOT and not request.spot:
        raise ConfigurationError(
            f"--spot-taint {request.spot_taint}: without --spot the job tolerates no taint of spot nodes.",
            remedy="The same call with --spot, or without --spot-taint.",
        )
    return request


def _require_taken(request: CloudRequest) -> None:
    """Refuse an option that the platform's files have no place for. Raises ConfigurationError."""
    taken, known = TAKEN[request.platform], frozenset[str]().union(*TAKEN.values())
    for field in sorted(known - taken):
        value = getattr(request, field)
        if value == CloudRequest.model_fields[field].default:
            continue
        instead = INSTEAD.get((request.platform, field))
        shown = "" if value is True else f" {', '.join(value) if isinstance(value, tuple) else value}"
        raise ConfigurationError(
            f"{_option(field)}{shown}: {request.platform} has no use for it. Beside what all platforms take, it takes "
            f"{', '.join(_option(one) for one in sorted(taken))}.",
            remedy=f"The same call without {_option(field)}{f': {instead}' if instead else ''}.",
        )


def _option(field: str) -> str:
    return "--" + OPTIONS.get(field, field).replace("_", "-")


def _nearest(problem: Any) -> str:
    """Return the bound that a number has passed."""
    bounds = problem.get("ctx") or {}
    bound = next((bounds[name] for name in ("ge", "gt", "le", "lt") if name in bounds), None)
    return "" if bound is None else f": {bound:g} is the nearest"
