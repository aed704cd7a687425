"""Definition of a pipeline: one YAML file with the project, its goal and its configuration, beside the user's code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.phase_status import phase_status_of
from trainwright.tools.projects import configure, create_project, settled_values
from trainwright.tools.workspace.records import get_project, latest_config
from trainwright.trainer.base.errors import ConfigurationError, NotFoundError
from trainwright.trainer.config import config_digest, flatten, parse_config

if TYPE_CHECKING:
    from trainwright.tools.workspace import Workspace

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
