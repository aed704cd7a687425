"""Failures of a conductor: those that leave a study stopped, so that it can go on later, and those that end it."""

from __future__ import annotations

import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trainwright.tools.hyperparameter_tuner.lost_workers import WorkersLostError
from trainwright.tools.training_orchestrator.resume import CodeAwayError
from trainwright.trainer.base.errors import GateRefusedError, LimitReachedError, StorageError, TrainwrightError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STOPPING = (GateRefusedError, LimitReachedError, StorageError, WorkersLostError, CodeAwayError)
"""Errors whose cause lies outside of the study: it goes on once that is put right."""


@contextmanager
def recorded_failures(study_id: str, end: Callable[[str, TrainwrightError], None]) -> Iterator[None]:
    """Record in a study what fails inside; what is no error of Trainwright's is printed, recorded and raised again.

    Args:
        end: writes the study's state, `stopped` or `failed`, with the failure.
    """
    try:
        yield
    except STOPPING as error:
        end("stopped", error)
    except TrainwrightError as error:
        end("failed", error)
    except Exception as error:
        traceback.print_exc()
        remedy = f"Read {study_id}/conductor.log in the project folder; the same start_tuning goes on."
        text = f"The conductor failed: {type(error).__name__}: {error}"
        end("stopped", TrainwrightError(text, remedy=remedy))
        raise
