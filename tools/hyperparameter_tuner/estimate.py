"""Estimate of the time a study still takes, by measured runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.searches import seconds_a_trial
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.config import SearchSection

if TYPE_CHECKING:
    from trainwright.tools.workspace import Workspace
    from trainwright.tools.workspace.tables import Study

PRUNED_SHARE = 0.6
"""Of a whole run, what a trial takes on average under pruning, before any trial was measured."""


def estimated_seconds(workspace: Workspace, study: Study, trials_done: int) -> float | None:
    """Return the training seconds that are left: trials, and the repetitions of the best and of the baseline.

    By the mean time of the newest sealed trials, and before there is one by the baseline's, shortened roughly for
    pruning. None where nothing was measured.
    """
    search = SearchSection.model_validate(study.search)
    try:
        with workspace.session() as session:
            seconds = seconds_a_trial(Evidence(session, workspace, study.project))
    except TrainwrightError:  # an edited record is told where the study is judged
        return None
    if seconds is None:
        return None
    pruned = PRUNED_SHARE if search.pruning.name != "none" and not trials_done else 1.0
    repetitions = 2 * search.confirmation_repeats
    return round(seconds * ((search.trials - trials_done) * pruned + repetitions), 1)
