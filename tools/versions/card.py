"""Data card: a version of the data in Markdown, under the head that Hugging Face's dataset cards have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.tools.documents.rendering import Markdown, render
from trainwright.tools.versions.diff import VersionDiff, diff_versions

if TYPE_CHECKING:
    from trainwright.tools.ledger import ProjectFacts
    from trainwright.tools.versions.versions import DataVersion
    from trainwright.tools.workspace import Workspace

MOST_COLUMNS = 100
MOST_VALUES = 8


def data_card(project: str, version: DataVersion, since: VersionDiff | None = None) -> str:
    """Return the card of a version.

    Args:
        project: whose data they are.
        since: what differs from its parent; None of the first version.
    """
    return render(
        "versions/data_card.md.j2",
        project=project,
        version=version,
        licence=version.licence or "not stated",
        columns=_columns(version),
        more=max(0, len(version.profile.columns) - MOST_COLUMNS),
        since=since,
        difference=diff_text(since) if since is not None else "",
    )


def card_of(
    workspace: Workspace, facts: ProjectFacts, project: str, versions: list[DataVersion], version: DataVersion
) -> str:
    """Return the card of one of a project's versions, with what is new since its parent."""
    parent = next((one for one in versions if one.number == version.parent), None)
    since = diff_versions(workspace, facts, project, parent, version) if parent is not None else None
    return data_card(project, version, since)


def diff_text(diff: VersionDiff) -> Markdown:
    """Return what differs between two versions, in Markdown."""
    return render("versions/data_diff.md.j2", diff=diff)


def _columns(version: DataVersion) -> list[list[Any]]:
    """Return (name, missing, content) of each column, as the train split has it."""
    found = []
    for name, column in list(version.profile.columns.items())[:MOST_COLUMNS]:
        listed = ", ".join(f"{value} {100 * share:.3g} %" for value, share in list(column.shares.items())[:MOST_VALUES])
        more = " …" if len(column.shares) > MOST_VALUES else ""
        span = f"{column.quantiles[0]:g} to {column.quantiles[-1]:g}" if column.quantiles else ""
        numbers = f"{span}, mean {column.mean:g}, deviation {column.deviation:g}" if column.quantiles else ""
        is_listed = bool(listed) and (not numbers or len(column.shares) <= MOST_VALUES)
        found.append([name, column.missing, listed + more if is_listed else numbers])
    return found
