"""GPUs and regions by platform, from a closed list: the platforms' own programs accept any name, until they bill it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import Field, ValidationError

from trainwright.tools.documents import SKILL
from trainwright.tools.training_architect.hardware import Device, accelerators, named_device
from trainwright.trainer.base.errors import ConfigurationError, folded, near
from trainwright.trainer.base.file_stamps import while_unchanged
from trainwright.trainer.base.records import Closed
from trainwright.trainer.config import load_yaml

TABLE = SKILL.parent / "cloud-gpu-configs" / "gpus.yaml"
ASKED = re.compile(r"^\s*([^:\s][^:]{0,60}?)\s*(?::\s*(-?\d{1,9}))?\s*$")
REGION = re.compile(r"^[A-Za-z]{2,}[A-Za-z0-9-]{0,30}$")
USUAL = {"kubeflow": "kubernetes"}
"""Platforms that have another's names."""


class PlatformGpus(Closed):
    """GPUs of one platform."""

    most: int = Field(ge=1)
    most_of: dict[str, int] = Field(default_factory=dict)
    names: dict[str, str]
    """The platform's name to the accelerator's in planning/accelerators.yaml."""
    source: str


class GpuTable(Closed):
    """The closed list."""

    as_of: object
    platforms: dict[str, PlatformGpus]
    regions: dict[str, list[str]] = Field(default_factory=dict)


@dataclass(frozen=True)
class Gpu:
    """A GPU as it is asked for, and what is known of it."""

    name: str
    """The platform's."""
    count: int
    device: Device


def gpu_table() -> GpuTable:
    """Return the closed list. Raises ConfigurationError for a file that does not fit."""
    return while_unchanged(GpuTable, [str(TABLE)], _read_table)


def _read_table() -> GpuTable:
    try:
        return GpuTable.model_validate(load_yaml(TABLE.read_text(encoding="utf-8"), source=TABLE.name))
    except ValidationError as error:
        raise ConfigurationError(
            f"{TABLE.name} does not fit: {error.errors()[0]['msg']}.", remedy="Take the file of the released version."
        ) from error


def asked_gpu(platform: str, text: str) -> Gpu:
    """Return the GPU that `H100:2` asks of a platform.

    Raises:
        ConfigurationError: another form, a name that the platform does not have, or a count out of its bounds; with
            the nearest valid one.
    """
    own = gpu_table().platforms[USUAL.get(platform, platform)]
    found = ASKED.match(text)
    if found is None:
        raise ConfigurationError(
            f"--gpu {text[:80]!r} is not NAME or NAME:COUNT.", remedy=f"For example --gpu {next(iter(own.names))}:1."
        )
    name, count = _name(platform, found[1], own), 1 if found[2] is None else int(found[2])
    most = own.most_of.get(name, own.most)
    if not 1 <= count <= most:
        raise ConfigurationError(
            f"--gpu {text[:80]!r}: {platform} gives 1 to {most} {name} to one machine, not {count}.",
            remedy=f"--gpu {name}:{min(max(count, 1), most)} is the nearest.",
        )
    return Gpu(name, count, named_device(own.names[name]))


def _name(platform: str, asked: str, own: PlatformGpus) -> str:
    """Return the platform's name: itself in any case, or the accelerator's name or alias where one name has it."""
    by_fold = {folded(name): name for name in own.names}
    if folded(asked) in by_fold:
        return by_fold[folded(asked)]
    rows, _ = accelerators()
    ours = [
        name for name, row in rows.items() if folded(asked) in {folded(one) for one in (name, *(row["aliases"] or []))}
    ]
    meant = [name for name, accelerator in own.names.items() if accelerator in ours]
    if len(meant) == 1:
        return meant[0]
    nearest = near(asked, own.names, most=1, cutoff=0.4) or [next(iter(own.names))]
    raise ConfigurationError(
        f"{platform} has no GPU {asked[:60]!r}: it has {', '.join(own.names)}.",
        remedy=f"--gpu {nearest[0]}:1 is the nearest name. The platform itself would accept the other, and fail later.",
        details={"near": nearest[0]},
    )


def checked_region(platform: str, region: str) -> str:
    """Return a region that the platform has, or that has the form of one.

    Raises ConfigurationError with the nearest.
    """
    known: Iterable[str] = gpu_table().regions.get(platform, [])
    by_fold = {folded(name): name for name in known}
    if by_fold:
        if folded(region) in by_fold:
            return by_fold[folded(region)]
        nearest = near(region, known, most=1, cutoff=0.3) or list(known)[:1]
        raise ConfigurationError(
            f"{platform} has no region {region[:60]!r}: it has {', '.join(known)}.",
            remedy=f"--region {nearest[0]} is the nearest; without --region any will do.",
        )
    if not REGION.match(region):
        raise ConfigurationError(
            f"--region {region[:60]!r} has not the form of one: letters, digits and dashes, as us-east-1.",
            remedy="Name one as the platform does, or leave --region out: any will do.",
        )
    return region
