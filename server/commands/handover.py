"""`trainwright handover`: a project handed over to another agent or person, and such a file checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from trainwright.server.workspace_path import WorkspaceOption, existing_workspace, workspace_path

MARKS = {"fits": "ok", "stale": "warn", "forged": "fail"}


def handover(  # noqa: PLR0917 - options of a command line
    project: Annotated[str, typer.Argument(help="A project")],
    by: Annotated[str, typer.Option("--by", help="Role that hands over, needed unless --check: owner, …")] = "",
    to: Annotated[str, typer.Option("--to", help="Role that takes over, needed unless --check")] = "",
    question: Annotated[list[str] | None, typer.Option("--question", help="What is open; may be repeated.")] = None,
    note: Annotated[list[str] | None, typer.Option("--note", help="What else to know; may be repeated.")] = None,
    file: Annotated[Path | None, typer.Option("--file", help="The file to check; default: the project's.")] = None,
    workspace: WorkspaceOption = None,
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Compare it with the ledger; exit with 1 unless it fits.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the check as JSON.")] = False,
) -> None:
    """Hand a project over by a file with facts from the ledger, or check one: fits, stale or forged."""
    if not check:
        _require_roles(project, {"--by": by, "--to": to})
    path = existing_workspace(workspace_path(workspace))
    if not check:
        _write(path, project, {"by": by, "to": to, "questions": question or [], "notes": note or []})
    elif not _fits(path, project, file, as_json=as_json):
        raise typer.Exit(1)


def _require_roles(project: str, given: dict[str, str]) -> None:
    """Raise ConfigurationError naming the options for a role that are not given."""
    from trainwright.tools.handover import ROLES
    from trainwright.trainer.base.errors import ConfigurationError

    missing = [option for option, role in given.items() if not role]
    if missing:
        example = " ".join(f"{option} {role or option.strip('-').upper()}" for option, role in given.items())
        raise ConfigurationError(
            f"{' and '.join(missing)} not given: a hand-over names who hands over and who takes over.",
            remedy=f"trainwright handover {project} {example}, with roles of {', '.join(ROLES)}; to check the file: "
            f"trainwright handover {project} --check",
        )


def _write(path: Path, project: str, given: dict[str, object]) -> None:
    from trainwright.server.commands.terminal import Terminal
    from trainwright.tools.handover import hand_over, read_words
    from trainwright.tools.workspace import Workspace

    words, workspace = read_words(given, project), Workspace.open(path)
    try:
        written = hand_over(workspace, project, words)
    finally:
        workspace.close()
    Terminal().marked("ok", f"{written.path}: {written.by} to {written.to}, ledger entry {written.entry}")


def _fits(path: Path, project: str, file: Path | None, *, as_json: bool) -> bool:
    """Check a hand-over, print what it is worth, and return whether it fits."""
    from trainwright.server.commands.terminal import Terminal
    from trainwright.tools.handover import check_handover
    from trainwright.tools.workspace import Workspace

    terminal, workspace = Terminal(), Workspace.open(path)
    try:
        found = check_handover(workspace, project, file)
    finally:
        workspace.close()
    if as_json:
        terminal.line(json.dumps(found.model_dump(mode="json"), indent=2))
        return found.state == "fits"
    terminal.marked(MARKS[found.state], f"{found.by or '?'} to {found.to or '?'}: {found.state}")
    for reason in found.reasons:
        terminal.line(f"      {reason}")
    if found.remedy:
        terminal.line(f"      {found.remedy}", "dim")
    return found.state == "fits"
