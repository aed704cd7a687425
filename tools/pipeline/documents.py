"""Documents on a project's stages and data, as resources show them: Markdown, and the files of its pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.documents.rendering import render
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.ledger import Look
from trainwright.tools.pipeline.stages import Stages, version_text
from trainwright.tools.training_orchestrator import refresh_project
from trainwright.tools.versions import card_of, diff_text, diff_versions, version_named

if TYPE_CHECKING:
    from trainwright.tools.workspace import Workspace

TO = ".."


def pipeline_document(workspace: Workspace, project: str) -> str:
    """Return the stages of a project in Markdown. Raises NotFoundError."""
    refresh_project(workspace, project)
    with workspace.session() as session:
        evidence = Evidence(session, workspace, project, inspection=Look())
        stages = Stages(evidence)
        return render(
            "pipeline/pipeline.md.j2", project=project, stages=stages.all(), version=version_text(evidence, stages)
        )


def data_document(workspace: Workspace, project: str, which: str) -> str:
    """Return the card of a data version (`v2`, `latest`), or what differs between two (`v1..v2`).

    Raises NotFoundError.
    """
    refresh_project(workspace, project)
    with workspace.session() as session:
        evidence = Evidence(session, workspace, project, inspection=Look())
        versions, facts = evidence.data_versions, evidence.facts
    first, _, second = which.partition(TO)
    version = version_named(versions, first, project)
    if not second:
        return card_of(workspace, facts, project, versions, version)
    other = version_named(versions, second, project)
    return f"# Data of {project}\n\n{diff_text(diff_versions(workspace, facts, project, version, other))}"
