"""Files of a job, rendered, checked, and only then written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trainwright.tools.clouds.checking import Checked, check
from trainwright.tools.clouds.gpus import Gpu, asked_gpu
from trainwright.tools.clouds.job import Job, job_of
from trainwright.tools.clouds.platforms import ONE_DEADLINE, RENDERERS, Place, Rendered
from trainwright.tools.clouds.request import TAKEN, CloudRequest
from trainwright.tools.documents.rendering import render_plain
from trainwright.tools.pipeline.writing import dumped
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConflictError
from trainwright.trainer.run import write_generated

ENTRY, README, ENV = "entry.sh", "README.md", ".env.example"
ENV_HEAD = """# Set these in the shell that starts the job, or in the platform's secret store;
# docs/security/SECURITY-RULES.md of Trainwright says where each comes from.
# Write no .env into this folder: all of it goes to the machine."""
SIGN_IN = {
    "modal": ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"), "lambda": ("LAMBDA_API_KEY",), "runpod": ("RUNPOD_API_KEY",),
}  # fmt: skip
"""Variables by which a platform knows whose account it is, where no sign-in was kept."""


@dataclass(frozen=True)
class CloudFiles:
    """Written files, the checks that they passed, and what is to be known before money is spent."""

    folder: Path
    files: list[Path]
    checked: list[Checked]
    start: str
    warnings: list[str]


def render_cloud(workspace: Workspace, request: CloudRequest, folder: Path) -> CloudFiles:
    """Write the files of a job into a new or empty folder.

    Raises:
        ConfigurationError: a GPU, a region or an option that the platform does not have, or a check that failed.
        LimitReachedError: the owner's limits leave too little.
        ConflictError: there are files in the folder.
        NotFoundError: no such project.
    """
    folder = folder.expanduser().resolve()
    if folder.exists() and any(folder.iterdir()):
        raise ConflictError(
            f"{folder.name} is not empty.", remedy="Name a new folder with --into; nothing is overwritten."
        )
    gpu = asked_gpu(request.platform, request.gpu)
    job = job_of(workspace, request, gpu)
    place = Place(request, job, gpu, folder)
    rendered = RENDERERS[request.platform](place)
    further = {name: text for name, (_, text) in rendered.more.items()}
    texts = {rendered.file: rendered.text, **further, **_common(place, rendered)}
    checked = check(request.platform, rendered.file, rendered.text)
    for name, by in ((ENTRY, f"{ENTRY}: bash -n"), *((name, f"{name}: parser") for name in further)):
        checked += [replace(one, by=by) for one in check("", name, texts[name])]
    texts[README] = render_plain("clouds/templates/readme.md.j2", **_readme(place, rendered, checked))
    return CloudFiles(folder, write_generated(folder, texts), checked, rendered.start, _warnings(place, rendered))


def _common(place: Place, rendered: Rendered) -> dict[str, str]:
    """Return the files that every platform's job has."""
    values = place.values | {"code": rendered.code, "workspace": rendered.workspace}
    job = place.job
    head = "# What the owner's limits leave, in the workspace that the job was written in. Runs stop there.\n"
    return {
        ENTRY: render_plain("clouds/templates/entry.sh.j2", **values),
        "trainwright.yaml": dumped(job.definition.model_dump(mode="json")),
        "settings.yaml": head + dumped(job.settings()),
        "requirements.txt": "\n".join(job.requirements) + "\n",
        ENV: _env_example(place),
    }


def _env_example(place: Place) -> str:
    """Return the variables that the job and its start want, each with a placeholder."""
    own = place.request.project
    names = [*SIGN_IN.get(place.request.platform, ()), *place.job.variables]
    wanted = [f"{name}={own}_prod_your_{name.lower().rpartition('_')[2]}_here" for name in names]
    return "\n".join([ENV_HEAD if wanted else "# This job and its start want no key.", *wanted]) + "\n"


def _warnings(place: Place, rendered: Rendered) -> list[str]:
    return [*place.job.warnings, *rendered.warnings]


def _readme(place: Place, rendered: Rendered, checked: list[Checked]) -> dict[str, Any]:
    job: Job = place.job
    gpu: Gpu = place.gpu
    return place.values | {
        "file": rendered.file, "start": rendered.start, "checked": checked,
        "warnings": _warnings(place, rendered), "kept": rendered.kept,
        "before": rendered.before, "after": rendered.after,
        "more": [(name, what) for name, (what, _) in rendered.more.items()], "workspace": rendered.workspace,
        "takes_idle": "idle_minutes" in TAKEN[place.request.platform], "notes": rendered.notes,
        "is_one_deadline": place.request.platform in ONE_DEADLINE,
        "hours": f"{job.seconds / 3600:.4g}", "device": gpu.device, "limits": job.limits,
        "price": job.price_per_gpu_hour, "price_from": job.price_from, "requirements": job.requirements,
    }  # fmt: skip
