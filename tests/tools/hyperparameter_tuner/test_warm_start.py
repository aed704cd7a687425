"""A search that begins with the results of earlier ones: which trials it takes, and that they stay what they were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select
from tests.tools.hyperparameter_tuner.conftest import tried
from tests.worlds.records import Script

from trainwright.tools.hyperparameter_tuner import start_study, stop_study
from trainwright.tools.hyperparameter_tuner.conductor import next_wave
from trainwright.tools.hyperparameter_tuner.suggest import suggest
from trainwright.tools.hyperparameter_tuner.trials import trials_of
from trainwright.tools.hyperparameter_tuner.warm_start import known_trials
from trainwright.tools.workspace.records import get_study
from trainwright.tools.workspace.tables import Trial
from trainwright.trainer.base.errors import ConfigurationError, ConflictError
from trainwright.trainer.config import SearchSection

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.worlds.scripted import Scripted

    from trainwright.tools.workspace import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

RATE, BATCH = "optimizer.learning_rate", "loader.batch_size"
RANGE = {"type": "float", "low": 1e-4, "high": 1e-1, "log": True}
SEARCH: dict[str, Any] = {"trials": 8, "width": 2, "space": {RATE: RANGE}, "pruning": {"name": "none"}}
WIDER: dict[str, Any] = SEARCH | {
    "seed": 5,
    "space": {RATE: {**RANGE, "low": 2e-4}, BATCH: {"type": "categorical", "choices": [16, 32]}},
}


def search_of(workspace: Workspace, study_id: str) -> SearchSection:
    with workspace.session() as session:
        return SearchSection.model_validate(get_study(session, study_id).search)


@pytest.mark.requirement("TUNE-5", "TUNE-3")
def test_trials_of_an_earlier_study_are_known_results_of_a_later_one(
    by_hand: Scripted, workspace: Workspace, make_project: Callable[..., str]
) -> None:
    by_hand.script = Script(curve=lambda plan, _: {"loss": 0.1, "accuracy": plan.config.optimizer.learning_rate or 0})
    make_project(workspace, training={"epochs": 1})
    first = start_study(workspace, "digits", search=SEARCH).study_id
    tried(workspace, first)
    stop_study(workspace, first)
    with workspace.session() as session:
        earlier = trials_of(session, first)

    warm = start_study(workspace, "digits", search=WIDER | {"warm_start": True}).study_id
    search = search_of(workspace, warm)
    fits = [trial for trial in earlier if trial.parameters[RATE] >= 2e-4]
    assert isinstance(search.warm_start, dict)
    assert search.warm_start[first].trials == [trial.number for trial in fits]
    with workspace.session() as session:
        base = get_study(session, warm).base_values
        known = known_trials(session, search, base)
    assert [(trial.parameters, trial.value) for trial in known] == [
        ({BATCH: 32, RATE: trial.parameters[RATE]}, trial.parameters[RATE]) for trial in fits
    ], "the batch size that they ran with was the configuration's"

    (trial, *_) = next_wave(workspace, warm)
    cold = suggest(search, "maximize", [], base_values=base)[0]
    assert trial.parameters == suggest(search, "maximize", [], base_values=base, known=known)[0]
    assert len(known) >= 6, "TPE models from so many on"
    assert trial.parameters != cold
    for asked in (True, [first]):
        assert start_study(workspace, "digits", search=WIDER | {"warm_start": asked}).study_id == warm
    assert start_study(workspace, "digits", search=WIDER).study_id != warm
    with pytest.raises(ConfigurationError, match="not one of the project's ended studies") as caught:
        start_study(workspace, "digits", search=WIDER | {"seed": 6, "warm_start": ["study-digits-none"]})
    assert "warm_start=true" in caught.value.remedy

    with workspace.session() as session:
        row = session.scalars(select(Trial).where(Trial.study == first, Trial.number == fits[0].number)).one()
        row.value = 0.999
    with workspace.session() as session, pytest.raises(ConflictError, match="no longer those"):
        known_trials(session, search, base)
