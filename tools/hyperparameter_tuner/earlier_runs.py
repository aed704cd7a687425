"""Runs that need not be trained again: of the same configuration, data, code and packages, and unchanged since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select

from trainwright.tools import gpus, ledger
from trainwright.tools.gates import permits
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.hyperparameter_tuner.gpu_share import usable_kinds
from trainwright.tools.workspace.records import latest_config, runs_of
from trainwright.tools.workspace.tables import Run
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import config_digest, parse_config

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.orm import Session

    from trainwright.tools.workspace import Workspace
    from trainwright.tools.workspace.tables import Study
    from trainwright.trainer.run import RunDirectory, RunKind


def earlier_runs(
    workspace: Workspace, project: str, digest: str, *kinds: RunKind, study: str
) -> Iterator[tuple[Run, RunDirectory]]:
    """Give the project's sealed runs of these kinds that trained this very configuration, in order.

    Args:
        digest: of the configuration, seed included.
        study: the one that is to take them over: of runs on GPUs, those of its kind of GPU alone.
    """
    with workspace.session() as session:
        rows = [row for row in runs_of(session, project, *kinds) if row.config_digest == digest and row.sealed]
        if not rows:
            return
        seals = {body["run_id"]: body["digests"] for _, body in ledger.entries(session, project, "run_sealed")}
        evidence = Evidence(session, workspace, project)
        expected, usable = permits.expected_digests(evidence), usable_kinds(evidence, study)
        rows = [row for row in rows if gpus.kind_of_run(session, project, row.id) in {None, *usable}]
    for row in rows:
        directory = workspace.run_directory(project, row.id)
        specification = directory.specification()
        is_whole = specification.max_steps is None and specification.expected == expected
        if is_whole and row.id in seals and not ledger.seal_differences(directory, seals[row.id]):
            yield row, directory


def depends_on_present(evidence: Evidence, study: Study) -> bool:
    """Return whether a study's runs were made under what planning fixes now; its table must not mix two data sets."""
    run = evidence.session.scalars(select(Run).where(Run.study == study.id).order_by(Run.created_at).limit(1)).first()
    if run is None:
        return True
    plan = evidence.workspace.run_directory(evidence.name, run.id).specification()
    return plan.expected == permits.expected_digests(evidence)


def digests_of(session: Session, study: Study) -> set[str]:
    """Return the digests of a study's configuration: of the present one also that which an earlier schema gave it."""
    version, own = latest_config(session, study.project), {study.base_config_digest}
    try:
        present = {config_digest(parse_config(version.values)), version.digest}
    except ConfigurationError:  # an earlier release kept what today's schema refuses
        return own
    return present if own <= present else own
