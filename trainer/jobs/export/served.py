"""The model as an export calls it, and the rows that its program is compared on: real ones, or the user's example."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from trainwright.trainer.base.errors import ConfigurationError, TrainwrightError
from trainwright.trainer.engine.session import Session
from trainwright.trainer.jobs.export.inputs import Example, Inputs, Rows, batches_are_named, example_rows
from trainwright.trainer.jobs.export.parity import wanted_of
from trainwright.trainer.jobs.export.program import prepared, require_comparable
from trainwright.trainer.jobs.export.reasons import no_forward, unlike_example
from trainwright.trainer.jobs.export.serving import Serving

OTHER_INPUTS = ConfigurationError(
    "`example_input` has other inputs than the samples, so no program can be sent the samples.",
    remedy="Give samples that hold all inputs of the model, or defaults to the others, and leave example_input out.",
)


@dataclass(frozen=True)
class Served:
    """The serving model, the rows to compare it on, and why its program cannot be evaluated apart."""

    serving: Serving
    rows: Rows
    problem: TrainwrightError | None = None

    def require_servable(self) -> None:
        """Raise the problem of a model whose outputs are others each time, or in each batch: no program answers so."""
        if self.problem is not None and self.problem.details.get("is_servable") is False:
            raise self.problem


def rows_to_call_with(session: Session) -> tuple[Inputs, bool]:
    """Return raw inputs for the model on the CPU, and whether they are of samples.

    Raises:
        ConfigurationError: only its task's step knows how to call it, or it does not take the user's example.
    """
    if type(session.model).forward is nn.Module.forward:
        raise no_forward(session.model)
    rows, are_real = example_rows(session)
    if not are_real:
        try:
            wanted_of(_by_example(session, rows), rows)
        except Exception as error:
            raise unlike_example(session.model, rows, error) from error
    return rows, are_real


def served_of(session: Session, rows: Inputs, *, are_real: bool) -> Served:
    """Return how the model is served, for inputs as `rows_to_call_with` gave them."""
    problem: TrainwrightError = OTHER_INPUTS
    if are_real:
        try:
            serving, real, batch = prepared(session)
        except ConfigurationError as error:
            problem = error
        else:
            try:
                require_comparable(session, serving, real, batch)
            except ConfigurationError as error:
                return Served(serving, real, error)
            return Served(serving, real, real.caveat)
    return Served(_by_example(session, rows), Example(rows), problem)


def _by_example(session: Session, rows: Inputs) -> Serving:
    """Return the model called by keyword where the samples and any example of the user's name its inputs."""
    is_named = isinstance(session.work.example_input, Mapping | None) and batches_are_named(session)
    return Serving(session, list(rows) if is_named else None).eval()
