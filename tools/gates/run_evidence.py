"""Evidence of one run: its record, as its worker left it and the ledger sealed it."""

from __future__ import annotations

from functools import cached_property

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.next_after_run import onward
from trainwright.tools.gates.records import Records
from trainwright.tools.ledger import seal_differences
from trainwright.tools.ledger.events import RunEvaluated
from trainwright.tools.workspace.tables import Run
from trainwright.trainer.checkpoints.index import list_checkpoints
from trainwright.trainer.run import RunDirectory, RunKind, RunState, RunStatus
from trainwright.trainer.run import evidence as recorded
from trainwright.trainer.run.artifacts import FixedRows
from trainwright.trainer.run.results import Comparison, Export, TestSetAccess
from trainwright.trainer.run.split_rows import SplitRows


class RunEvidence:
    """One run's record, as its worker left it and the ledger sealed it."""

    def __init__(self, row: Run, directory: RunDirectory, project: Records) -> None:
        self.row = row
        self.directory = directory
        self.project = project
        self.facts = project.facts
        self._inspection = project.inspection
        self._seal = self.facts.seals.get(row.id)
        self.sealed: dict[str, str] | None = self._seal.digests if self._seal else None

    @property
    def id(self) -> str:
        """The run's id."""
        return self.row.id

    @cached_property
    def status(self) -> RunStatus:
        """The run's present state."""
        return self.directory.status()

    @property
    def is_complete(self) -> bool:
        """Whether the run ended by itself and its digests are in the ledger."""
        sealed_as_completed = self._seal is not None and self._seal.state == RunState.COMPLETED
        return sealed_as_completed and self.status.state is RunState.COMPLETED

    environment = recorded.PartOf(recorded.Environment)
    reproducibility = recorded.PartOf(recorded.Reproducibility)
    data = recorded.PartOf(recorded.Data)
    code = recorded.PartOf(recorded.Code)
    resolved = recorded.PartOf(recorded.Resolved)
    summary = recorded.PartOf(recorded.Summary)
    comparison = recorded.PartOf(Comparison)
    exported = recorded.PartOf(Export)
    split_rows = recorded.PartOf(SplitRows)
    test_access = recorded.PartOf(TestSetAccess)

    def part(self, kind: type[recorded.P]) -> recorded.P:
        """Return one part of the evidence; empty when the worker has not written it. Raises IntegrityError."""
        return self.directory.part(kind)

    @cached_property
    def imported(self) -> list[str]:
        """The packages that the run imported; empty where it did not end in order."""
        return self.part(recorded.Imported).packages

    @cached_property
    def differences(self) -> list[str]:
        """Changes since the run was sealed; damaged checkpoints included."""
        if self.sealed is None:
            return [f"run {self.id} is not sealed yet"]
        own = self.facts.rows.differences(self.row)
        changed = seal_differences(self.directory, self.sealed, self._inspection, self.untrusted)
        return own + changed + self.checkpoint_problems

    @property
    def untrusted(self) -> str:
        """Why the record of the sealed run is no evidence; empty where it is."""
        return self._seal.problem if self._seal is not None else ""

    @cached_property
    def checkpoint_problems(self) -> list[str]:
        """Problems of the run's checkpoints, digests compared."""
        own = self.facts.run_keys[self.id], self.facts.pruned[self.id]
        return self._inspection.checkpoint_problems(self.directory, *own)

    @cached_property
    def kept_tags(self) -> set[str]:
        """Tags (best, last, periodic) of the run's checkpoints whose weights are there."""
        pruned = {name for name, stone in self.facts.pruned[self.id].items() if self.facts.is_past(stone.sequence)}
        return {tag for record in list_checkpoints(self.directory) if record.name not in pruned for tag in record.tags}

    @property
    def lacks_rows(self) -> bool:
        """Whether this is a smoke run that was to fix rows and has not: its first attempt alone has the key for it."""
        start = self.facts.started.get(self.id)
        was_to = self.row.kind == RunKind.SMOKE and start is not None and start.rows_key is not None
        return was_to and self.status.state.is_ended and not self.part(FixedRows)

    @property
    def evaluation(self) -> RunEvaluated | None:
        """The independent evaluation of what the run exported; None where it exported nothing."""
        return self.facts.evaluations.get(self.id)

    def certified(self, split: str = "validation") -> dict[str, float]:
        """Return the metrics of a split that the clean room computed; empty where the run was not evaluated apart."""
        return self.evaluation.certified(split) if self.evaluation is not None else {}

    def best_value(self, metric: str) -> float | None:
        """Return a validation metric of the best epoch: certified, else as the training process reported it."""
        return self.certified().get(metric, self.reported_value(metric))

    def reported_value(self, metric: str) -> float | None:
        """Return a validation metric of the best epoch as the training process reported it."""
        return self.summary.best_metrics.get(metric)

    def tested_metrics(self) -> dict[str, float]:
        """Return an export's metrics of the test split: certified ones, else as it reported them; empty without."""
        reported = self.exported.test.metrics or {}
        certified = self.certified("test")
        return {name: certified.get(name, value) for name, value in reported.items()}

    @property
    def is_sealed(self) -> bool:
        """Whether the digests of the ended run are in the ledger."""
        return self._seal is not None

    def next_call(self) -> NextCall:
        """Return the call that completes this run, or starts another after the cause of its failure is fixed."""
        return onward(self)
