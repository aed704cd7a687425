"""Studies that end before their last trial: the estimate by hand, limits, seeds' noise; and the time left."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.orm import Session
from tests.worlds.records import Script
from tests.worlds.scripted import Scripted

from trainwright.tools import ledger
from trainwright.tools.hyperparameter_tuner import ends, start_study, study_status, tuning_report
from trainwright.tools.hyperparameter_tuner.conductor import next_wave
from trainwright.tools.hyperparameter_tuner.ends import end_early, ended_by, expected_gain
from trainwright.tools.hyperparameter_tuner.room_notes import time_notes
from trainwright.tools.hyperparameter_tuner.trial_run import carry_out
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, PRUNED
from trainwright.tools.hyperparameter_tuner.views import PRUNED_SHARE, estimated_seconds
from trainwright.tools.ledger.events import StudyChanged
from trainwright.tools.limits import Amounts
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_study
from trainwright.tools.workspace.tables import Run, Trial, now
from trainwright.trainer.base.errors import ConfigurationError, LimitReachedError
from trainwright.trainer.config import SearchSection, parse_config
from trainwright.trainer.run import RunKind, RunState

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("by_hand")]


SEARCH: dict[str, Any] = {
    "trials": 40,
    "space": {"optimizer.learning_rate": {"type": "float", "low": 1e-4, "high": 1.0, "log": True}},
    "pruning": {"name": "none"},
}


@pytest.fixture
def begun(workspace: Workspace, make_project: Callable[..., str], by_hand: Scripted) -> Callable[..., str]:
    """Begin a study that the test conducts itself."""

    def begin(**search: Any) -> str:
        by_hand.script = Script(curve=lambda plan, _: {"loss": 0.1, "accuracy": plan.config.seed % 10 / 10})
        make_project(workspace, training={"epochs": 1})
        return start_study(workspace, "digits", search=SEARCH | search).study_id

    return begin


def filled(workspace: Workspace, study_id: str, values: list[float]) -> None:
    """Write ended trials into the table, as if they had been trained."""
    with workspace.session() as session:
        for number, value in enumerate(values):
            parameters = {"optimizer.learning_rate": 0.01}
            session.add(Trial(study=study_id, number=number, parameters=parameters, state="completed", value=value,
                              intermediate={"1": value}, attributes={}))  # fmt: skip


@pytest.mark.requirement("TUNE-7")
def test_the_expected_gain_is_the_mean_over_all_orders_or_that_of_the_order_there_was() -> None:
    # Of three values, all pairs: bests 2, 4, 4 with mean 10/3; one trial more after two makes three.
    assert expected_gain([4.0, 1.0, 2.0], 1) == pytest.approx(4.0 - 10.0 / 3.0)
    assert expected_gain([1.0, 2.0, 4.0], 1) == pytest.approx(2.0), "the last trial has just found the best"
    assert expected_gain([5.0, 5.0, 5.0], 10) == 0.0
    climbing = [float(n) for n in range(20)]
    assert expected_gain(climbing, 20) == pytest.approx(10.0)
    draw, gains, truth = random.Random(0), [], []
    for _ in range(300):
        values = [draw.random() for _ in range(40)]
        gains.append(expected_gain(values[:20], 20))
        truth.append(max(values) - max(values[:20]))
    assert statistics.fmean(gains) > statistics.fmean(truth), "it errs towards going on"


@pytest.mark.requirement("TUNE-7", "TUNE-5")
def test_a_search_ends_when_more_trials_promise_less_than_another_seed(
    workspace: Workspace, begun: Callable[..., str]
) -> None:
    study_id = begun(stop_below_noise=True)
    filled(workspace, study_id, [0.5 + 0.05 * n for n in range(9)])
    assert not end_early(workspace, study_id), "nine values are too few"
    with workspace.session() as session:
        session.add(Trial(study=study_id, number=9, parameters={"optimizer.learning_rate": 0.01}, state="completed",
                          value=0.95, intermediate={"1": 0.95}, attributes={}))  # fmt: skip
    assert not end_early(workspace, study_id), "it still climbs"
    with workspace.session() as session:
        for row in session.query(Trial).filter(Trial.study == study_id):
            row.value, row.intermediate = 0.9, {"1": 0.9}
    assert end_early(workspace, study_id)
    assert end_early(workspace, study_id), "what was decided stays decided"
    with workspace.session() as session:
        found = ended_by(session, get_study(session, study_id))
    assert found is not None
    assert found["expected_gain"] == 0.0
    assert len(found["baseline"]) == 3, "each seed's own value"
    assert all(value * 10 == pytest.approx(round(value * 10)) for value in found["baseline"])
    assert found["seed_noise"] >= statistics.stdev(found["baseline"])
    view = study_status(workspace, study_id)
    assert view.ended_by == found
    assert "After 10 trials the 30 left are expected to gain 0" in found["message"]


@pytest.mark.requirement("TUNE-7", "GATE-4")
def test_a_limit_of_the_search_ends_it_with_room_for_the_repetitions(
    workspace: Workspace, begun: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    study_id = begun(stop_after={"wall_clock_hours": 0.002})
    monkeypatch.setattr(ends, "_study_seconds", lambda *_: 0.0)
    assert not end_early(workspace, study_id)
    (trial,) = next_wave(workspace, study_id)
    carry_out(workspace, study_id, trial)
    monkeypatch.setattr(ends, "_study_seconds", lambda *_: 7.1)  # of 7.2: one more trial and six repetitions do not fit
    assert end_early(workspace, study_id)
    with workspace.session() as session:
        found = ended_by(session, get_study(session, study_id))
    assert found is not None
    assert (found["limit"], found["trials"], found["allowed"]) == ("search.stop_after.wall_clock_hours", 1, 0.002)
    assert found["used"] + found["reserved"] > found["allowed"]
    assert next_wave(workspace, study_id), (
        "asked directly, there would be another wave; the conductor asks the end first"
    )


@pytest.mark.requirement("TUNE-7", "GATE-4")
def test_only_time_in_which_a_run_was_under_way_counts(workspace: Workspace, begun: Callable[..., str]) -> None:
    study_id = begun(stop_after={"wall_clock_hours": 1.0})
    (trial,) = next_wave(workspace, study_id)
    carry_out(workspace, study_id, trial)
    with workspace.session() as session:
        study = get_study(session, study_id)
        seconds = ends._study_seconds(session, study)
        [seal] = ledger.ProjectFacts(session, study.project).seals.values()
        time.sleep(0.3)
        assert study.state == "running", "as it stays where a conductor dies, or the machine is off for a night"
        assert ends._study_seconds(session, study) == seconds == pytest.approx(seal.used["wall_clock_seconds"])
    assert seconds > 0.0


@pytest.mark.requirement("TUNE-7")
def test_runs_side_by_side_count_once_and_an_earlier_attempt_until_the_next() -> None:
    assert ends.united_seconds([]) == 0.0
    assert ends.united_seconds([(10.0, 14.0), (0.0, 5.0), (2.0, 3.0), (4.0, 6.0)]) == 10.0
    assert list(ends._attempts([], 10.0)) == []
    assert list(ends._attempts([100.0, 102.0, 500.0], 10.0)) == [(100.0, 102.0), (102.0, 110.0), (500.0, 500.0)]


@pytest.mark.requirement("TUNE-7", "CONF-3")
def test_limits_are_bounded_and_leave_earlier_searches_what_they_were() -> None:
    values = {"model": {"use": "mlp"}, "data": {"use": "digits"}, "search": SEARCH}
    plain = parse_config(values)
    assert plain.search is not None
    assert (plain.search.stop_after, plain.search.stop_below_noise) == (None, False)
    for limits in ({"wall_clock_hours": 0.0}, {"gpu_hours": -1.0}, {"money": 1e12}, {"hours": float("nan")}):
        with pytest.raises(ConfigurationError):
            parse_config(values | {"search": SEARCH | {"stop_after": limits}})


@pytest.mark.requirement("TUNE-7", "GATE-4")
def test_a_limit_without_room_for_the_first_wave_is_refused_with_figures(
    workspace: Workspace, begun: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    study_id = begun(stop_after={"wall_clock_hours": 0.01})
    monkeypatch.setattr(ends, "seconds_a_trial", lambda _evidence: 60.0)  # the baseline's, which this project lacks
    with pytest.raises(LimitReachedError, match="Not one trial was started") as refused:
        end_early(workspace, study_id)
    assert "start_tuning(project='digits'" in refused.value.remedy
    assert refused.value.details["reserved"] == pytest.approx(7 * 60 / 3600)


@pytest.mark.requirement("TUNE-7", "TUNE-5")
def test_a_limit_says_before_the_first_trial_how_many_fit_and_what_makes_room() -> None:
    search = SearchSection.model_validate(SEARCH | {"trials": 15, "stop_after": {"wall_clock_hours": 0.5}})
    (said,) = time_notes(search, 180.0)  # ten runs in all, six of them repetitions
    assert said.startswith("stop_after.wall_clock_hours 0.5 leaves about 4 of 15 trials: a run takes 180 s")
    assert "confirmation_repeats 1" in said
    assert time_notes(search, 60.0) == time_notes(search, None) == []
    assert time_notes(search.model_copy(update={"stop_after": None}), 180.0) == []


@pytest.mark.requirement("TUNE-7", "GATE-4")
def test_one_slow_trial_is_no_measure_of_the_repetitions_and_the_estimate_keeps_the_limit(
    workspace: Workspace, begun: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    study_id = begun(stop_after={"wall_clock_hours": 0.05})
    with workspace.session() as session:
        study = get_study(session, study_id)
        quick, slow = Amounts(wall_clock_seconds=5.0), Amounts(wall_clock_seconds=60.0)
        monkeypatch.setattr(ends, "_use", lambda *_: (quick, slow, quick))
        monkeypatch.setattr(ends, "_study_seconds", lambda *_: 80.0)
        search = SearchSection.model_validate(study.search)
        assert ends._limit_reached(session, workspace, study, search, []) is None, "60 s and six times 5 of 100"
        assert ends.seconds_allowed(session, study) == pytest.approx(100.0)


FOUR: dict[str, Any] = {
    "trials": 4, "width": 2, "space": SEARCH["space"], "pruning": {"name": "none"},
}  # fmt: skip


def add_run(session: Session, name: str, seconds: float, digest: str, **fields: Any) -> None:
    began = now()
    fields = {"kind": RunKind.BASELINE, "state": RunState.COMPLETED, "config_digest": digest} | fields
    ended = began + timedelta(seconds=seconds)
    session.add(Run(id=name, project="digits", base_config_digest=digest, seed=1, created_at=began, ended_at=ended,
                    **fields))  # fmt: skip
    session.flush()


def add_trial(session: Session, study_id: str, number: int, seconds: float, state: RunState) -> None:
    name = f"trial-{number}"
    add_run(session, name, seconds, "", kind=RunKind.TRIAL, state=state, study=study_id)
    outcome = COMPLETED if state is RunState.COMPLETED else PRUNED
    session.add(Trial(study=study_id, number=number, parameters={}, attributes={}, intermediate={}, state=outcome,
                      run=name))  # fmt: skip
    session.flush()


@pytest.mark.requirement("TUNE-4", "TUNE-5")
def test_the_baseline_and_the_studies_of_the_same_configuration_count(digits: Workspace) -> None:
    study_id = start_study(digits, "digits", search=FOUR).study_id
    with digits.session() as session:
        study = get_study(session, study_id)
        body = StudyChanged(
            study_id="study-digits-of-another", state="stopped", search=study.search, objective=study.objective,
            base_config_digest="blake3:another", created_at=now(),
        )  # fmt: skip
        ledger.record(session, "digits", body)
        add_run(session, "baseline-of-another", 77.0, "blake3:another")
        assert estimated_seconds(session, study) is None
        assert "has run 1 study on this configuration" in tuning_report(session, digits, study)

        add_run(session, "baseline", 10.0, study.base_config_digest)
        assert estimated_seconds(session, study) == 10.0 * (2 + 3), "two waves of trials, three of six repetitions"


@pytest.mark.requirement("TUNE-5")
def test_repetitions_are_timed_by_what_ran_to_its_end_and_not_by_pruned_trials(digits: Workspace) -> None:
    study_id = start_study(digits, "digits", search=FOUR | {"pruning": {"name": "median"}}).study_id
    with digits.session() as session:
        study = get_study(session, study_id)
        add_run(session, "baseline", 10.0, study.base_config_digest)
        assert estimated_seconds(session, study) == 10.0 * (2 * PRUNED_SHARE + 3), "nothing prunes a repetition"
        for number in (0, 1):
            add_trial(session, study_id, number, 2.0, RunState.STOPPED)
        assert estimated_seconds(session, study) == 1 * 2.0 + 3 * 10.0
        add_trial(session, study_id, 2, 8.0, RunState.COMPLETED)
        assert estimated_seconds(session, study) == 1 * 2.0 + 3 * 8.0
