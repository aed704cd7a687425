"""Runs that need not be trained again: of the same configuration, data, code and packages, and unchanged since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools import ledger
from trainwright.tools.gates import permits
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.workspace.records import runs_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainwright.tools.workspace import Workspace
    from trainwright.tools.workspace.tables import Run
    from trainwright.trainer.run import RunDirectory, RunKind


def earlier_runs(
    workspace: Workspace, project: str, digest: str, *kinds: RunKind
) -> Iterator[tuple[Run, RunDirectory]]:
    """Give the project's sealed runs of these kinds that trained this very configuration, in order.

    Args:
        digest: of the configuration, seed included.
    """
    with workspace.session() as session:
        rows = [row for row in runs_of(session, project, *kinds) if row.config_digest == digest and row.sealed]
        if not rows:
            return
        seals = {body["run_id"]: body["digests"] for _, body in ledger.entries(session, project, "run_sealed")}
        expected = permits.expected_digests(Evidence(session, workspace, project))
    for row in rows:
        directory = workspace.run_directory(project, row.id)
        specification = directory.specification()
        is_whole = specification.max_steps is None and specification.expected == expected
        if is_whole and row.id in seals and not ledger.seal_differences(directory, seals[row.id]):
            yield row, directory
