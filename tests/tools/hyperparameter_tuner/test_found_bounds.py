"""Ranges whose ends a probe finds: recorded with its id, found again, and derived again."""

from __future__ import annotations

from typing import Any

import pytest
from tests.worlds.records import Script
from tests.worlds.scripted import Scripted

from trainwright.tools import ledger
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.study_check import bound_differences, found_range
from trainwright.tools.hyperparameter_tuner import start_study, stop_study
from trainwright.tools.training_orchestrator import start_run, wait_for_run
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_study
from trainwright.trainer.base.errors import ConfigurationError, ConflictError
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.results import Probe, RateTest, SizeTest

pytestmark = pytest.mark.usefixtures("by_hand")

RATE, SIZE, SCHEDULE = "optimizer.learning_rate", "loader.batch_size", "schedule.name"
SPACE: dict[str, Any] = {
    RATE: {"type": "float", "from": "range_test"},
    SIZE: {"from": "batch_size_finder", "when": {SCHEDULE: "constant"}},
    SCHEDULE: {"type": "categorical", "choices": ["constant", "cosine"]},
}


TRIED = [
    {"batch_size": 32, "samples_per_second": 1.0}, {"batch_size": 64, "samples_per_second": 2.0},
    {"batch_size": 128, "failure": "memory ran out"},
]  # fmt: skip
FOUND = Probe(
    learning_rate=RateTest(suggested=0.003), batch_size=SizeTest(suggested=64, tried=TRIED, why="memory ran out")
)


def probed(workspace: Workspace, name: str) -> str:
    run_id = start_run(workspace, name, RunKind.PROBE, max_steps=3).run_id
    assert wait_for_run(workspace, run_id).state == "completed"
    return run_id


@pytest.mark.requirement("TUNE-6", "TUNE-5")
def test_a_probe_gives_the_ends_which_are_recorded_with_its_id_and_not_measured_anew(
    digits: Workspace, by_hand: Scripted
) -> None:
    by_hand.script = Script(further=lambda _: [FOUND])
    first = probed(digits, "digits")
    view = start_study(digits, "digits", search={"trials": 2, "space": SPACE})
    with digits.session() as session:
        study = get_study(session, view.study_id)
        (body,) = [body for _, body in ledger.entries(session, "digits", "study")]
    rates, sizes = study.search["space"][RATE], study.search["space"][SIZE]
    assert (rates["low"], rates["high"], rates["log"]) == (0.0003, 0.03, True)
    assert (sizes["choices"], sizes["when"]) == ([8, 16, 32, 64], {SCHEDULE: "constant"})
    assert body["bounds"][RATE] == {"from": "range_test", "probe": first}
    assert any(first in note for note in view.taken_as or [])

    stop_study(digits, view.study_id)
    by_hand.script = Script(further=lambda _: [FOUND.model_copy(update={"learning_rate": RateTest(suggested=0.5)})])
    probed(digits, "digits")
    again = start_study(digits, "digits", search={"trials": 2, "space": SPACE})
    assert again.study_id == view.study_id, "the newer probe has measured other ends"
    with digits.session() as session:
        assert get_study(session, view.study_id).search == study.search
        evidence = Evidence(session, digits, "digits")
        assert bound_differences(evidence, study.search, body["bounds"]) == []
        wider = {**study.search, "space": {**study.search["space"], RATE: {**rates, "high": 9.0}}}
        assert bound_differences(evidence, wider, body["bounds"])[0].startswith(f"the bounds of {RATE} are not those")


@pytest.mark.requirement("TUNE-6", "MCP-3")
def test_without_a_probe_of_this_configuration_the_error_names_the_call(digits: Workspace) -> None:
    with pytest.raises(ConflictError, match="No probe has measured this configuration") as caught:
        start_study(digits, "digits", search={"trials": 2, "space": SPACE})
    assert caught.value.details["next"]["tool"] == "start_training"
    assert caught.value.details["next"]["arguments"]["kind"] == "probe"
    with digits.session() as session:
        assert ledger.entries(session, "digits", "study") == []


@pytest.mark.requirement("TUNE-6", "MCP-3")
@pytest.mark.parametrize(
    ("space", "told", "right"),
    [
        ({RATE: {"type": "float", "from": "range_tset"}}, "no test 'range_tset'", {RATE: SPACE[RATE]}),
        ({"optimizer.weight_decay": {"from": "range_test"}}, f"`{RATE}` alone", {RATE: SPACE[RATE]}),
        ({RATE: {"type": "int", "from": "range_test"}}, "of type float", {RATE: SPACE[RATE]}),
        ({RATE: {"from": "range_test", "low": 1e-5}}, "leave low out", {RATE: SPACE[RATE]}),
        (
            {SIZE: {"type": "float", "from": "batch_size_finder"}},
            "categorical or int",
            {SIZE: {"type": "categorical", "from": "batch_size_finder"}},
        ),
    ],
)
def test_what_no_test_finds_is_refused_with_what_it_finds(
    digits: Workspace, space: dict[str, Any], told: str, right: dict[str, Any]
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        start_study(digits, "digits", search={"trials": 2, "space": space})
    assert told in caught.value.message
    assert caught.value.details["amend"]["search"]["space"] == right


@pytest.mark.requirement("TUNE-6")
def test_the_ends_follow_from_the_record_alone() -> None:
    assert found_range(FOUND, "batch_size_finder", "int", 32)[0] == {"type": "int", "low": 8, "high": 64, "log": True}
    fell = RateTest(why="the loss did not fall at any rate")
    assert found_range(Probe(learning_rate=fell), "range_test", "float", 32) == (
        {},
        "the loss did not fall at any rate",
    )
    one = SizeTest(suggested=1, tried=[{"batch_size": 1, "samples_per_second": 1.0}])
    assert "only a batch size of 1" in found_range(Probe(batch_size=one), "batch_size_finder", "categorical", 1)[1]
