"""Platforms that a job is rendered for: each is one function that returns its file, and one line of the registry."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainwright.tools.clouds.gpus import Gpu, checked_region
from trainwright.tools.clouds.job import Job
from trainwright.tools.clouds.request import CloudRequest
from trainwright.tools.clouds.sent_along import sent_along
from trainwright.tools.documents.rendering import render_plain
from trainwright.tools.pipeline.job import STOPPED_CODE
from trainwright.trainer.base.errors import ConfigurationError

RETRIES = 10
"""Starts after a notice that the platform makes by itself; Modal takes no more."""
MODAL_MAX_SECONDS = 24 * 3600
NOTICE_SECONDS = 120
"""That Slurm and Kubernetes give between notice and end."""
MAX_DIVIDED = 60
KEPT_DAYS = 7
"""That a cluster keeps an ended job's pods and their logs: time to read why it ended."""
ONE_DEADLINE = frozenset({"kubernetes", "kubeflow"})
"""Platforms whose time-out is of all starts together: activeDeadlineSeconds counts from the job's first."""
BEFORE_A_CLUSTERS_JOB = {
    "clouds/templates/claim.yaml.j2": "the volume's claim",
    "clouds/templates/copy.yaml.j2": "the pod through which it is filled",
}
PREEMPTION = (
    "At preemption Slurm sends SIGTERM to the job's steps, and kills the job when the partition's GraceTime is over: a "
    "step of slurm.sh hands it on to entry.sh, which saves if that time is long enough; with GraceTime 0 there is no "
    "notice. With PreemptParameters=send_user_signal (of older versions SlurmctldParameters=preempt_send_user_signal) "
    "the notice of --signal comes then too. `scontrol show config` and `scontrol show partition` say what a site has."
)
UNKEPT = "Nothing keeps the workspace when the machine goes: name --bucket, or fetch ~/workspace before `sky down`."


@dataclass(frozen=True)
class Place:
    """One job for one platform, to be rendered into a folder."""

    request: CloudRequest
    job: Job
    gpu: Gpu
    folder: Path
    """Absolute."""

    @property
    def values(self) -> dict[str, Any]:
        """What all templates may name."""
        request, job, gpu = self.request, self.job, self.gpu
        return {
            "name": job.name, "platform": request.platform, "stage": request.stage, "search": request.search,
            "seconds": job.seconds, "stopped": STOPPED_CODE, "retries": RETRIES, "spot": request.spot,
            "idle_minutes": request.idle_minutes, "idle_seconds": request.idle_minutes * 60,
            "cpus": request.cpus, "memory_gb": request.memory_gb, "memory_mib": request.memory_gb * 1024,
            "disk_gb": request.disk_gb, "gpu": f"{gpu.name}:{gpu.count}", "count": gpu.count,
            "gpu_label": request.gpu_label or gpu.name, "image": request.image, "region": request.region,
            "volume": request.volume or f"{job.name}-workspace", "bucket": request.bucket,
            "secrets": list(request.secrets), "variables": job.variables, "namespace": request.namespace,
            "partition": request.partition, "toleration": request.toleration, "grace": NOTICE_SECONDS,
            "kept_seconds": KEPT_DAYS * 24 * 3600, "needs_git": job.needs_git,
        }  # fmt: skip


@dataclass(frozen=True)
class Rendered:
    """The platform's own file, and how it is started."""

    file: str
    text: str
    start: str
    """Command, from the folder of the files."""
    code: str
    """Folder of the user's code there."""
    workspace: str
    kept: str = "disk"
    """How the workspace outlives the machine: on a disk that does, copied now and then, or "": not at all."""
    more: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Further files of the platform: what each is for, and its text."""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    """Commands around the start."""
    notes: tuple[str, ...] = ()
    """What README.md says of this platform alone."""
    warnings: tuple[str, ...] = ()


def _modal(place: Place) -> Rendered:
    job, request = place.job, place.request
    if job.seconds > MODAL_MAX_SECONDS:
        raise ConfigurationError(
            f"Modal ends a call after 24 hours at most, and the job's time-out is {job.seconds / 3600:.4g}.",
            remedy="--hours 24 is the nearest; a job that was ended so is started again and resumes.",
        )
    region = request.region and checked_region("modal", request.region)
    file = "modal_job.py"
    code_here = os.path.relpath(job.code_root, place.folder)
    counted = f"{job.price_per_gpu_hour:g} an hour of a GPU ({job.price_from})" if job.price_from else "no money"
    text = render_plain(
        "clouds/templates/modal_job.py.j2",
        **place.values | {"region": region, "file": file, "code": "/code", "code_here": code_here, "counted": counted,
                          "python": "3.11", "left_out": [_docker_pattern(one) for one in job.left_out]},
    )  # fmt: skip
    return Rendered(file, text, f"modal run {file}", "/code", "/tmp/workspace", kept="copied")  # noqa: S108 - of a container


def _docker_pattern(left_out: str) -> str:
    return left_out.removeprefix("/") if left_out.startswith("/") else f"**/{left_out}"


def _skypilot(place: Place) -> Rendered:
    request, job = place.request, place.job
    volume = _sky_volume(place)
    if request.spot and not (request.bucket or volume):
        raise ConfigurationError(
            f"--spot on {request.platform} without --bucket: the workspace would go with the machine.",
            remedy=f"The same call with --bucket {place.job.name}-workspace, or without --spot.",
        )
    region = request.region and checked_region(request.platform, request.region)
    cloud: str | None = None if request.platform == "skypilot" else request.platform
    infra = f"{cloud or '*'}/{region}" if region else cloud
    verb = "jobs launch" if request.spot else "launch"
    secrets = "".join(f" --secret {name}" for name in job.variables)
    file = "skypilot.yaml"
    start = f"sky {verb}{secrets} {file}"
    text = render_plain(
        "clouds/templates/skypilot.yaml.j2",
        **place.values | {"infra": infra, "launch": start, "notes": _sky_notes(request), "job_here": str(place.folder),
                          "code_here": str(job.code_root), "volume": volume},
    )  # fmt: skip
    kept = "disk" if volume else "copied" if request.bucket else ""
    warnings = (*(() if kept else (UNKEPT,)), *_without_git(request, job), *sent_along(job.code_root, job.left_out))
    return Rendered(file, text, start, "~/sky_workdir", "~/workspace", kept=kept, warnings=warnings)


def _without_git(request: CloudRequest, job: Job) -> list[str]:
    if not (job.needs_git and request.spot):
        return []
    return [
        "The owner's require_git wants the code in a repository, and `sky jobs launch` leaves .git out where it copies "
        "the code through a bucket: planning there may refuse it. Without --spot it goes along."
    ]


def _sky_volume(place: Place) -> str | None:
    """Return the volume that keeps the workspace: on RunPod always, elsewhere a bucket, or nothing."""
    return str(place.values["volume"]) if place.request.platform == "runpod" else None


def _sky_notes(request: CloudRequest) -> list[str]:
    if request.platform == "runpod":
        return ["The network volume has to be there: sky volumes apply. A spot machine's notice comes seconds before."]
    return [] if request.bucket else [UNKEPT]


def _slurm(place: Place) -> Rendered:
    request, job = place.request, place.job
    gpu = f"{request.gpu_label or place.gpu.name}:{place.gpu.count}"
    file = "slurm.sh"
    hours, rest = divmod(max(job.seconds, MAX_DIVIDED), 3600)
    text = render_plain(
        "clouds/templates/slurm.sh.j2",
        **place.values | {"gpu": gpu, "file": file, "time": f"{hours:02d}:{rest // 60:02d}:00",
                          "notice_seconds": NOTICE_SECONDS, "job_here": shlex.quote(str(place.folder)),
                          "code_here": shlex.quote(str(job.code_root)),
                          "workspace_here": shlex.quote(str(place.folder / "workspace"))},
    )  # fmt: skip
    return Rendered(
        file, text, f"sbatch {file}", str(job.code_root), str(place.folder / "workspace"), notes=(PREEMPTION,)
    )


def _with_image(place: Place) -> str:
    if place.request.image is None:
        raise ConfigurationError(
            f"--on {place.request.platform} needs --image: a cluster starts containers, and there is no public one.",
            remedy="Build one with requirements.txt (its first line is Trainwright): --image REGISTRY/NAME:TAG.",
        )
    return place.request.image


def _kubernetes(place: Place) -> Rendered:
    return _on_cluster(place, "clouds/templates/kubernetes.yaml.j2", {})


def _kubeflow(place: Place) -> Rendered:
    secrets, variables = place.request.secrets, place.job.variables
    if secrets and not variables:
        raise ConfigurationError(
            f"--secret {', '.join(secrets)}: a TrainJob takes each variable from a secret by its name, and the "
            "project's data name none.",
            remedy="The same call without --secret.",
        )
    if len(secrets) > 1 or (variables and not secrets):
        raise ConfigurationError(
            f"A TrainJob names each variable's secret; these are {len(variables)} and {len(secrets)}.",
            remedy="Name exactly one --secret, which has a key for each of them.",
        )
    keyed = [(variable, secrets[0]) for variable in variables]
    own = {"keyed": keyed, "runtime": "torch-distributed"}
    return _on_cluster(place, "clouds/templates/trainjob.yaml.j2", own)


def _on_cluster(place: Place, template: str, own: dict[str, Any]) -> Rendered:
    """Return the job's file, and what has to be there before it: the claim, with code and job on it."""
    file = Path(template).stem
    values = place.values | {"image": _with_image(place), "file": file} | own
    more = {Path(name).stem: (what, render_plain(name, **values)) for name, what in BEFORE_A_CLUSTERS_JOB.items()}
    before, after = _copying(place)
    text = render_plain(template, **values)
    return Rendered(
        file, text, f"kubectl apply -f {file}", "/trainwright/code", "/trainwright/workspace",
        more=more, before=before, after=after, notes=_cluster_notes(place),
    )  # fmt: skip


def _cluster_notes(place: Place) -> tuple[str, ...]:
    request = place.request
    git = ", and git, since the owner wants the code in a repository" if place.job.needs_git else ""
    notes = [f"The image needs bash, tar and requirements.txt{git}."]
    if request.platform == "kubernetes":
        notes.append(f"{KEPT_DAYS} days after its end the job is deleted with its logs: read them before.")
    if request.spot:
        notes.append(
            f"The job tolerates the taint {request.spot_taint}. Another cluster has another: --spot-taint "
            "kubernetes.azure.com/scalesetpriority=spot:NoSchedule on AKS; EKS taints no spot nodes by itself. A "
            "toleration lets the job onto such a node, and sends it to none."
        )
    return tuple(notes)


def _copying(place: Place) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the commands that fill the volume, and those that bring the workspace home."""
    space, pod, job = place.request.namespace, f"{place.job.name}-copy", place.job
    patterns = [f"./{one[1:]}" if one.startswith("/") else one for one in job.left_out]
    without = " ".join(f"--exclude={shlex.quote(one)}" for one in patterns)
    opened = (
        "kubectl apply -f claim.yaml -f copy.yaml",
        f"kubectl -n {space} wait --for=condition=Ready pod/{pod} --timeout=900s",
    )
    closed = f"kubectl -n {space} delete pod {pod}"
    filled = (
        f"kubectl -n {space} exec {pod} -- mkdir -p /trainwright/code /trainwright/job",
        f"tar -C {shlex.quote(str(job.code_root))} {without} -cf - . | kubectl -n {space} exec -i {pod} -- "
        "tar --no-same-owner -xf - -C /trainwright/code",  # git trusts no repository of another user
        f"kubectl cp . {space}/{pod}:/trainwright/job",
    )
    home = (f"kubectl cp {space}/{pod}:/trainwright/workspace ./workspace",)
    return (*opened, *filled, closed), ("# and when it has ended, to bring the workspace home:", *opened, *home, closed)


RENDERERS: dict[str, Callable[[Place], Rendered]] = {
    "modal": _modal,
    "lambda": _skypilot,
    "runpod": _skypilot,
    "skypilot": _skypilot,
    "slurm": _slurm,
    "kubernetes": _kubernetes,
    "kubeflow": _kubeflow,
}
