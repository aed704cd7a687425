"""Versions of a project's model: listed with their figures, lineage and aliases, and found by a name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

from trainwright.tools.answers import Answer, NextCall
from trainwright.tools.gates.artifacts import WHOLE
from trainwright.tools.gates.releases import BEGUN, folder_of
from trainwright.tools.ledger import entries
from trainwright.tools.ledger.aliases import PRODUCTION, aliases_after, archived_after, moves_of
from trainwright.tools.ledger.events import ModelPromoted, ModelRegistered, in_utc
from trainwright.tools.registry.serving import lead, served
from trainwright.tools.workspace.records import get_project
from trainwright.trainer.base.errors import NotFoundError, near_matches

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from trainwright.tools.workspace import Workspace

MAX_LISTED = 12
MAX_MOVES = 6
NAME = re.compile(r"(?:(?P<project>[a-z0-9_-]+)@)?(?:v?(?P<version>[0-9]+)|(?P<alias>[A-Za-z][\w.-]*))")


class ModelVersion(BaseModel):
    """One version of a project's model."""

    version: int
    aliases: list[str] = []
    release: str = ""
    """In words, with its date."""
    figures: dict[str, str] = {}
    """By split the goal's metric with its interval and rows, as the clean room certified it."""
    lineage: dict[str, Any] = {}
    """{run, parent, data, configuration, code, …}, by digest."""
    digest: str = ""
    """Of the exported checkpoint."""
    folder: str | None = None
    """Where its final_model/ lies; None: no longer there."""


class Models(Answer):
    """The versions of a project's model, the newest first, and what moved last."""

    project: str
    versions: list[ModelVersion]
    older: int = 0
    """How many more there are."""
    production: str = "none: promote_model names the version that is served"
    moves: list[str] = Field(default_factory=list)
    """The last moves of aliases, the newest first."""


@dataclass(frozen=True)
class Registered:
    """The versions of a project as its ledger has them."""

    project: str
    metric: str
    """The goal's."""
    models: dict[int, tuple[int, dict[str, Any]]]
    """By number: sequence in the ledger, and the entry's body: of a thousand, a few are read."""
    moves: list[ModelPromoted]
    begun: list[int]
    """Sequences in the ledger at which further releases were begun."""

    @cached_property
    def aliases(self) -> dict[str, int]:
        """The version that each alias names."""
        return aliases_after(self.moves)

    def model(self, number: int) -> ModelRegistered:
        """Return what was registered as a version."""
        return ModelRegistered.model_validate(self.models[number][1])

    def version(self, name: str) -> int:
        """Return the version that a name means: `2`, `v2`, `churn@v2`, an alias, `latest`, or `previous`.

        `previous` is the version that production named before. Raises NotFoundError.
        """
        read = NAME.fullmatch(name.strip())
        if read is not None and read["project"] in (None, self.project):
            found = int(read["version"]) if read["version"] else self._named(str(read["alias"]))
            if found in self.models:
                return found
        known = [*(f"v{number}" for number in self.models), *self.aliases]
        raise NotFoundError(
            f"Project {self.project} has no version {name[:60]!r} of its model.{near_matches(name, known)}",
            remedy=f"There are: {', '.join(known[-20:])}."
            if known
            else f"The last gate registers one: advance(project={self.project!r}).",
        )

    def _named(self, alias: str) -> int | None:
        if alias == "latest":
            return max(self.models, default=None)
        return self.before(PRODUCTION) if alias == "previous" else self.aliases.get(alias)

    def before(self, alias: str) -> int | None:
        """Return the version that an alias's last move replaced, as its answer said."""
        return next((move.before for move in reversed(self.moves) if move.alias == alias), None)


def registered(session: Session, workspace: Workspace, project: str) -> Registered:
    """Return a project's versions, read once while nothing changes. Raises NotFoundError for an unknown project."""
    return workspace.kept.answer(session, project, "models", partial(_read, session, project))


def _read(session: Session, project: str) -> Registered:
    metric = str(get_project(session, project).goal["metric"])
    models = {body["version"]: (sequence, body) for sequence, body in entries(session, project, ModelRegistered.name)}
    begun = [sequence for sequence, _ in entries(session, project, BEGUN)]
    return Registered(project, metric, models, moves_of(session, project), begun)


def list_models(workspace: Workspace, project: str) -> Models:
    """Return the versions of a project's model, at most MAX_LISTED of them. Raises NotFoundError."""
    with workspace.snapshot() as session:
        found = registered(session, workspace, project)
        shown = sorted(found.models, reverse=True)[:MAX_LISTED]
    versions = [_listed(workspace, found, number) for number in shown]
    held = found.aliases.get(PRODUCTION)
    told = {"production": f"v{held}"} if held is not None else {}
    moves = [_told(move) for move in found.moves[: -MAX_MOVES - 1 : -1]]
    older = len(found.models) - len(shown)
    return Models(project=project, versions=versions, older=older, moves=moves, next=_next(found, held), **told)


def model_folder(workspace: Workspace, project: str, name: str) -> Path:
    """Return the folder of a version's final model, whose files never change; of an alias a link that follows it.

    Raises NotFoundError where there is no such version, or its files are gone.
    """
    with workspace.snapshot() as session:
        found = registered(session, workspace, project)
    number, alias = found.version(name), name.rpartition("@")[2].strip()
    folder = _folder(workspace, found, number)
    if folder is not None:
        kept = served(workspace, project, number, folder)
        return (lead(kept, alias) if alias in found.aliases else kept) / WHOLE[0]
    raise NotFoundError(
        f"The files of {project}@v{number} are not in the workspace.",
        remedy="Take them from a backup; `trainwright verify WORKSPACE` names what is missing.",
    )


def _next(found: Registered, held: int | None) -> NextCall:
    newest = max(found.models, default=None)
    if newest is None:
        why = "the last gate registers the first version"
        return NextCall(tool="advance", arguments={"project": found.project}, why=why)
    if held is None or held == newest:
        why = "where the project stands" if held == newest else "names the version that is served"
        tool = "project_status" if held == newest else "promote_model"
        arguments = {"project": found.project} | ({} if held == newest else {"version": f"v{newest}"})
        return NextCall(tool=tool, arguments=arguments, why=why)
    compared = [f"v{held}", f"v{newest}"]
    why = "both on the same rows, before the newer one is promoted"
    return NextCall(tool="models", arguments={"project": found.project, "compare": compared}, why=why)


def _listed(workspace: Workspace, found: Registered, number: int) -> ModelVersion:
    model = found.model(number)
    named = [alias for alias, version in found.aliases.items() if version == number]
    named += ["archived"] if number in archived_after(found.moves) else []
    folder = _folder(workspace, found, number)
    kept = {
        name: model.lineage[name]
        for name in ("run", "parent", "data", "configuration", "code")
        if model.lineage.get(name)
    }
    return ModelVersion(
        version=number,
        aliases=named,
        release=f"release {_release(found, number)} of {in_utc(model.created_at):%Y-%m-%d}",
        figures=_figures(model, found.metric),
        lineage=kept,
        digest=model.checkpoint_digest,
        folder=str(folder) if folder is not None else None,
    )


def _figures(model: ModelRegistered, metric: str) -> dict[str, str]:
    """Return the metric of each split in words, with interval and rows where it is certified."""
    told = {}
    for split in ("test", "validation"):
        certified = model.figures.get(split, {})
        value = certified.get("metrics", {}).get(metric)
        if value is not None:
            ends = certified.get("intervals", {}).get(metric)
            between = f" ({ends[0]:.4g} to {ends[1]:.4g})" if ends else ""
            told[split] = f"{metric} {value:.4g}{between} on {certified['rows']} rows"
        elif (value := model.metrics.get(split, {}).get(metric)) is not None:
            told[split] = f"{metric} {value:.4g}, as the run reported it"
    return told


def _release(found: Registered, number: int) -> int:
    """Return the number of the release that a version was registered with."""
    sequence, _ = found.models[number]
    return 1 + sum(start < sequence for start in found.begun)


def _folder(workspace: Workspace, found: Registered, number: int) -> Path | None:
    """Return where a version's final model lies: in the project's folder, or among its earlier releases."""
    home = workspace.project_folder(found.project)
    kept, now = folder_of(home, _release(found, number)) / WHOLE[0], home / WHOLE[0]
    is_last = number == max(found.models)
    return kept if kept.is_dir() else now if now.is_dir() and is_last else None


def _told(move: ModelPromoted) -> str:
    where = "taken away" if move.version is None else f"v{move.version}"
    before = f" (before: v{move.before})" if move.before is not None else ""
    why = f": {move.why}" if move.why else ""
    granted = " by the owner's grant" if move.grant else ""
    return f"{move.alias} {where}{before} by {move.by}{granted}{why}"
