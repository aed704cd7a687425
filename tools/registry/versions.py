"""Versions of a project's model: listed with their figures, lineage and aliases, and found by a name."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field
from sqlalchemy import select
from sqlalchemy.orm import Session

from trainwright.tools.answers import Answer, NextCall
from trainwright.tools.gates.artifacts import WHOLE
from trainwright.tools.gates.releases import BEGUN, Entry, Release, folder_of, releases
from trainwright.tools.ledger import entries
from trainwright.tools.ledger.aliases import PRODUCTION, aliases_after, archived_after, moves_of
from trainwright.tools.ledger.events import ModelPromoted, ModelRegistered
from trainwright.tools.registry.serving import SERVED, lead, leads_to, served
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_project
from trainwright.tools.workspace.tables import LedgerEntry
from trainwright.trainer.base.errors import NotFoundError, TrainwrightError, near_matches

log = logging.getLogger(__name__)
MAX_LISTED = 12
MAX_MOVES = 6
NAME = re.compile(r"(?:(?P<project>[a-z0-9_-]+)@)?(?:v?(?P<version>[0-9]{1,9})|(?P<alias>[A-Za-z][\w.-]*))")


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
    decisions: list[Entry] = field(default_factory=list)
    """Of gates."""
    begun: list[int] = field(default_factory=list)
    """Sequences in the ledger at which further releases were begun."""

    @cached_property
    def aliases(self) -> dict[str, int]:
        """The version that each alias names."""
        return aliases_after(self.moves)

    def model(self, number: int) -> ModelRegistered:
        """Return what was registered as a version."""
        return ModelRegistered.model_validate(self.models[number][1])

    def version(self, name: str, of: str = PRODUCTION) -> int:
        """Return the version that a name means: `2`, `v2`, `churn@v2`, an alias, `latest`, or `previous`.

        `previous` is the version that the alias `of` named before. Raises NotFoundError.
        """
        read = NAME.fullmatch(name.strip())
        if read is not None and read["project"] in (None, self.project):
            found = int(read["version"]) if read["version"] else self._named(str(read["alias"]), of)
            if found in self.models:
                return found
        known = [*(f"v{number}" for number in self.models), *self.aliases]
        raise NotFoundError(
            f"Project {self.project} has no version {name[:60]!r} of its model.{near_matches(name, known)}",
            remedy=f"There are: {', '.join(known[-20:])}."
            if known
            else f"The last gate registers one: advance(project={self.project!r}).",
        )

    def _named(self, alias: str, of: str) -> int | None:
        if alias == "latest":
            return max(self.models, default=None)
        return self.before(of) if alias == "previous" else self.aliases.get(alias)

    def before(self, alias: str) -> int | None:
        """Return the version that an alias's last move replaced, as its answer said."""
        return next((move.before for move in reversed(self.moves) if move.alias == alias), None)

    def release(self, number: int) -> Release:
        """Return the release that a version was registered with: the decision just before it in the ledger.

        One without files where no gate has decided.
        """
        sequence, _ = self.models[number]
        found = releases((one for one in self.decisions if one[0] < sequence), self.begun)
        return found[-1] if found else Release(1, sequence, {"artifacts": {}})


def registered(session: Session, workspace: Workspace, project: str) -> Registered:
    """Return a project's versions, read once while nothing changes. Raises NotFoundError for an unknown project."""
    return workspace.kept.answer(session, project, "models", lambda _: read_versions(session, project))


def read_versions(session: Session, project: str) -> Registered:
    """Return a project's versions, read anew. Raises NotFoundError for an unknown project."""
    metric = str(get_project(session, project).goal["metric"])
    models = {body["version"]: (sequence, body) for sequence, body in entries(session, project, ModelRegistered.name)}
    begun = [sequence for sequence, _ in entries(session, project, BEGUN)]
    return Registered(project, metric, models, moves_of(session, project), entries(session, project, "gate"), begun)


def list_models(workspace: Workspace, project: str) -> Models:
    """Return the versions of a project's model, at most MAX_LISTED of them. Raises NotFoundError."""
    with workspace.snapshot() as session:
        found = registered(session, workspace, project)
        shown = sorted(found.models, reverse=True)[:MAX_LISTED]
    versions = [_listed(found, number) for number in shown]
    held = found.aliases.get(PRODUCTION)
    told = {"production": f"v{held}"} if held is not None else {}
    moves = [_told(move) for move in found.moves[: -MAX_MOVES - 1 : -1]]
    older = len(found.models) - len(shown)
    return Models(project=project, versions=versions, older=older, moves=moves, next=_next(found, held), **told)


def model_folder(workspace: Workspace, project: str, name: str) -> Path:
    """Return the folder of a version's final model, whose files never change; of an alias a link that follows it.

    Raises:
        NotFoundError: there is no such version, or its files are gone.
        IntegrityError: its files are not the released ones.
        StorageError: folder or link cannot be written.
    """
    with workspace.snapshot() as session:
        found = registered(session, workspace, project)
    number, alias = found.version(name), name.rpartition("@")[2].strip()
    folder = _served(workspace, found, number)
    if alias in found.aliases:
        follow(workspace, project)
        folder = folder.with_name(alias)
    return folder / WHOLE[0]


def follow(workspace: Workspace, project: str) -> None:
    """Let every alias's link lead where the ledger has the alias, which no other server moves meanwhile.

    Raises StorageError, NotFoundError or IntegrityError: one cannot be led there.
    """
    with workspace.session() as session:
        found = read_versions(session, project)
        for alias, number in found.aliases.items():
            if leads_to(_place(workspace, project, number).with_name(alias)) != f"v{number}":
                lead(_served(workspace, found, number), alias)


def follow_all(workspace: Workspace) -> None:
    """Lead the links that a killed server left behind. A server does it when it starts."""
    with workspace.snapshot() as session:
        names = list(
            session.scalars(select(LedgerEntry.project).where(LedgerEntry.kind == ModelPromoted.name).distinct())
        )
    for name in names:
        try:
            follow(workspace, str(name))
        except (TrainwrightError, ValueError, LookupError, TypeError) as error:  # `verify` names it; a server goes on
            log.warning("links of %s's versions: %s", name, error)


def _served(workspace: Workspace, found: Registered, number: int) -> Path:
    """Return the folder of a version's released files. Raises as `served`."""
    release, home = found.release(number), workspace.project_folder(found.project)
    kept, now = folder_of(home, release.number) / WHOLE[0], home / WHOLE[0]
    there = kept if kept.is_dir() else now if now.is_dir() and number == max(found.models) else None
    return served(_place(workspace, found.project, number), there, release.files)


def _place(workspace: Workspace, project: str, number: int) -> Path:
    return workspace.project_folder(project) / SERVED / f"v{number}"


def _next(found: Registered, held: int | None) -> NextCall:
    newest = max(found.models, default=None)
    if newest is None:
        why = "the last gate registers the first version"
        return NextCall(tool="advance", arguments={"project": found.project}, why=why)
    other = held if held is not None else max((one for one in found.models if one < newest), default=None)
    if other == newest:
        return NextCall(tool="project_status", arguments={"project": found.project}, why="where the project stands")
    if other is None:
        arguments: dict[str, Any] = {"project": found.project, "version": f"v{newest}"}
        return NextCall(tool="promote_model", arguments=arguments, why="names the version that is served")
    why = "both on the same rows, before the newer one is promoted"
    arguments = {"project": found.project, "compare": [f"v{other}", f"v{newest}"]}
    return NextCall(tool="models", arguments=arguments, why=why)


def _listed(found: Registered, number: int) -> ModelVersion:
    model = found.model(number)
    named = [alias for alias, version in found.aliases.items() if version == number]
    named += ["archived"] if number in archived_after(found.moves) else []
    kept = {
        name: model.lineage[name]
        for name in ("run", "parent", "data", "configuration", "code")
        if model.lineage.get(name)
    }
    return ModelVersion(
        version=number,
        aliases=named,
        release=str(found.release(number)),
        figures=_figures(model, found.metric),
        lineage=kept,
        digest=model.checkpoint_digest,
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


def _told(move: ModelPromoted) -> str:
    where = "taken away" if move.version is None else f"v{move.version}"
    before = f" (before: v{move.before})" if move.before is not None else ""
    why = f": {move.why}" if move.why else ""
    granted = " by the owner's grant" if move.grant else ""
    return f"{move.alias} {where}{before} by {move.by}{granted}{why}"
