"""Pipelines written out: `dvc.yaml`, a Kubeflow pipeline, whose steps are `trainwright stage NAME`, and a container."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trainwright.tools.documents.rendering import Container, render_plain
from trainwright.tools.gates.decide import final_values
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.phase_status import phase_status_of
from trainwright.tools.ledger import Look
from trainwright.tools.pipeline.stages import STAGES, Stages
from trainwright.tools.projects import configure, create_project, settled_values
from trainwright.tools.reports.phase_reports import OWN, requirement_lines
from trainwright.tools.training_orchestrator import refresh_project
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_project, latest_config
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, NotFoundError
from trainwright.trainer.config import config_digest, flatten, parse_config
from trainwright.trainer.run import write_generated
from trainwright.trainer.run.evidence import Environment

RECORDS = "pipeline"
DVC, KUBEFLOW = "dvc.yaml", "kubeflow_pipeline.py"
DOCKERFILE, LOCK = "trainwright.Dockerfile", "trainwright.requirements.lock"
WHEEL = "trainwright-*.whl"
HOME, WORKSPACE = "/work", "/workspace"
"""In the container: the mounted code root, and the mounted workspace."""
HEAD = "# Written by `trainwright pipeline {project} --write`; {what}\n"
AFTER = {
    "ingestion": (),
    "validation": ("ingestion",),
    "features": ("ingestion",),
    "training": ("validation", "features"),
    "evaluation": ("training",),
    "registration": ("evaluation",),
}
OF_DATA = ("data", "task")


def pipeline_files(workspace: Workspace, project: str) -> dict[str, str]:
    """Return the text of each file of the pipeline by name: definition, dvc.yaml, Kubeflow pipeline, container, lock.

    Paths in them are relative to the project's code root.

    Raises:
        NotFoundError: no such project.
        ConflictError: nothing was ingested yet, so what the stages depend on is not known.
    """
    refresh_project(workspace, project)
    with workspace.session() as session:
        evidence = Evidence(session, workspace, project, inspection=Look())
        root = Path(evidence.project.code_root).resolve()
        run = Stages(evidence).ingested
        if run is None or not run.is_complete:
            raise ConflictError(
                "No smoke run has read the data yet: what the stages depend on is not known.",
                remedy=f"start_training(project={project!r}, kind='smoke')",
            )
        definition, environment = definition_of(evidence), run.environment
        is_portable = not environment.path  # else a container would lack the project's own environment
        data, code = sorted(run.data.files), sorted(run.code.files)
    place = os.path.relpath(workspace.path, root)
    return {
        FILE: HEAD.format(project=project, what="its stages read it.") + dumped(definition.model_dump(mode="json")),
        DVC: HEAD.format(project=project, what="run it with `dvc repro`.")
        + dumped(_dvc(definition, data, code, place)),
        KUBEFLOW: _kubeflow(project, place),
        **(_container(project, environment) if is_portable else {}),
    }


def write_pipeline(workspace: Workspace, project: str) -> list[Path]:
    """Write the files into the project's code root, and return their paths.

    Raises as `pipeline_files` and `write_generated`.
    """
    files = pipeline_files(workspace, project)
    with workspace.session() as session:
        root = Path(Evidence(session, workspace, project, inspection=Look()).project.code_root)
    return write_generated(root, files)


def definition_of(evidence: Evidence) -> Definition:
    """Return the project with the configuration to finalize, or else its present one, without what is usual."""
    values = final_values(evidence) if evidence.final_values is not None else evidence.version.values
    config = parse_config(values).model_dump(mode="json", exclude_none=True, exclude={"code_root"})
    own = evidence.project
    return Definition(project=own.name, intent=own.intent, goal=dict(own.goal), config=config)


def _dvc(definition: Definition, data: list[str], code: list[str], workspace: str) -> dict[str, Any]:
    of_data = [f"config.{name}" for name in OF_DATA if name in definition.config]
    code_of_data = (
        code if "task" in definition.config or ":" in str(definition.config.get("data", {}).get("use")) else []
    )
    stages: dict[str, Any] = {}
    for name in STAGES:
        command = ["trainwright", "stage", name, "--file", FILE, "--record", f"{RECORDS}/{name}.json"]
        stage: dict[str, Any] = {"cmd": shlex.join([*command, "--workspace", workspace])}
        deps = [f"{RECORDS}/{before}.json" for before in AFTER[name]]
        if name == "ingestion":
            stage |= {"deps": [*data, *code_of_data], "params": [{FILE: ["project", *of_data]}]}
        elif name == "training":
            stage |= {"deps": [*deps, *code], "params": [{FILE: ["goal", "config"]}]}
        else:
            stage |= {"deps": deps}
        kind = "metrics" if name == "evaluation" else "outs"
        stages[name] = {key: value for key, value in stage.items() if value} | {
            kind: [{f"{RECORDS}/{name}.json": {"cache": False}}]
        }
    return {"stages": stages}


def _kubeflow(project: str, workspace: str) -> str:
    steps = [{"name": name, "after": list(AFTER[name])} for name in STAGES]
    return render_plain(
        "pipeline/kubeflow_pipeline.py.j2", project=project, workspace=repr(workspace), file=FILE, steps=steps
    )


def _container(project: str, environment: Environment) -> dict[str, str]:
    """Return a Dockerfile, its ignore file, and the lock of the packages that the smoke run recorded."""
    name = f"trainwright-{project}"
    container = Container(
        what=f"Container for the stages of {project}; written by `trainwright pipeline {project} --write`.",
        usage=(
            f"pip wheel --no-deps --wheel-dir . PATH_OF_TRAINWRIGHT   # gives {WHEEL}; no index has it",
            f"docker build -f {DOCKERFILE} -t {name} .",
            f'docker run --rm -v "$PWD:{HOME}" -v {name}:{WORKSPACE} {name}',
        ),
        python=environment.python or "",
        lock=LOCK,
        command=("trainwright", "stage", STAGES[-1], "--file", FILE, "--workspace", WORKSPACE),
        folders=(HOME, WORKSPACE),
        wheel=WHEEL,
    )
    left_out = ", ".join(sorted({OWN, *environment.unreleased}))
    head = (
        f"# Every package of the environment in which {project}'s data were read, as recorded by that run.\n"
        f"# Versions were recorded and no digests of files: `pip install -r {LOCK}` trusts the index.\n"
        f"# Not on an index, and left out: {left_out}.\n"
    )
    return {
        DOCKERFILE: container.dockerfile(),
        f"{DOCKERFILE}.dockerignore": container.dockerignore(),
        LOCK: head + "".join(f"{line}\n" for line in requirement_lines(environment)),
    }


def dumped(value: Any) -> str:
    """Return a value as YAML, in its order."""
    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=120))


# Definition of a pipeline: one YAML file with the project, its goal and its configuration, beside the user's code.

FILE = "trainwright.yaml"


class Definition(BaseModel):
    """What a pipeline makes."""

    model_config = ConfigDict(extra="forbid")

    project: str
    intent: str = ""
    goal: dict[str, Any]
    config: dict[str, Any] = Field(default_factory=dict)
    """As `create_project` takes it; without `code_root`, which is the file's folder."""


def read_definition(path: Path) -> Definition:
    """Return the definition in a file. Raises NotFoundError, ConfigurationError."""
    remedy = "`trainwright pipeline PROJECT --write FOLDER` writes one."
    try:
        return Definition.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise NotFoundError(f"There is no pipeline at {path}.", remedy=remedy) from error
    except (yaml.YAMLError, ValidationError) as error:
        what = " ".join(str(error).split())[:300]
        raise ConfigurationError(f"{path.name} is no definition of a pipeline: {what}", remedy=remedy) from error


def apply_definition(workspace: Workspace, definition: Definition, folder: Path) -> bool:
    """Make the project, or configure it where the definition differs; return whether anything changed.

    A finished project that differs begins its next release. Raises as `create_project` and `configure`.
    """
    values = {**definition.config, "code_root": str(folder.resolve())}
    is_released = False
    with workspace.session() as session:
        try:
            get_project(session, definition.project)
        except NotFoundError:
            present = None
        else:
            present = dict(latest_config(session, definition.project).values)
            is_released = phase_status_of(Evidence(session, workspace, definition.project)).release is not None
    if present is None:
        goal, intent = definition.goal, definition.intent
        create_project(workspace, definition.project, intent=intent, goal=goal, config=values)
        return True
    settled = {**settled_values(values, definition.goal), "code_root": ""}
    both = [parse_config({**present, "code_root": ""}), parse_config(settled)]
    if config_digest(both[0]) == config_digest(both[1]) and both[0].deployment == both[1].deployment:
        return False
    before, after = (flatten(each.model_dump(mode="json")) for each in both)
    changes = {key: after.get(key) for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    configure(workspace, definition.project, changes=changes, reason=f"{FILE} differs", begin_release=is_released)
    return True
