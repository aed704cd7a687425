"""What an open page is sent: only what is new, and after a break from where it was."""

from __future__ import annotations

import pytest

from trainwright.trainer.run import RunState


def curves(served):
    return served.read(f"/api/runs/{served.growing.directory.run_id}/curves?keys=train/loss")


def events(served, cursor):
    return f"/api/runs/{served.growing.directory.run_id}/events?keys=train/loss&after={cursor}"


@pytest.mark.requirement("MON-1")
def test_a_stream_sends_the_new_points_alone(served):
    read = curves(served)
    assert read["curves"]["train/loss"]["steps"] == list(range(1, served.growing.step + 1))
    with served.stream(events(served, read["cursor"])) as stream:
        begin = served.growing.step
        served.growing.grow(3)
        points = next(data["points"] for _, data in stream if "points" in data)
        assert [step for step, _ in points["points"]["train/loss"]] == [begin + 1, begin + 2, begin + 3]


@pytest.mark.requirement("MON-1")
def test_a_broken_stream_continues_behind_its_last_event(served):
    with served.stream(events(served, curves(served)["cursor"])) as stream:
        served.growing.grow(2)
        last = next(place for place, data in stream if "points" in data)
    begin = served.growing.step
    served.growing.grow(4)
    with served.stream(events(served, "0:0"), last=last) as stream:
        points = next(data["points"] for _, data in stream if "points" in data)
    assert [step for step, _ in points["points"]["train/loss"]] == list(range(begin + 1, begin + 5))


def test_a_run_that_was_resumed_at_an_earlier_step_is_read_again(served):
    cursor = curves(served)["cursor"]
    growing = served.growing
    with growing.directory.metrics(writer=True) as store:
        store.forget_after(growing.step - 5)
    growing.step, growing.attempt = growing.step - 5, growing.attempt + 1
    growing.tell()
    with served.stream(events(served, cursor)) as stream:
        assert next(data["points"] for _, data in stream if "points" in data)["restart"]
    assert curves(served)["curves"]["train/loss"]["steps"][-1] == growing.step


def test_values_that_are_no_numbers_arrive_as_what_they_are(served):
    growing = served.growing
    cursor = curves(served)["cursor"]
    growing.grow(1, float("nan"))
    with served.stream(events(served, cursor)) as stream:
        points = next(data["points"] for _, data in stream if "points" in data)
    assert points["points"]["train/loss"] == [[growing.step, "nan"]]
    assert curves(served)["curves"]["train/loss"]["non_finite"] == [growing.step]


@pytest.mark.requirement("MON-2")
def test_the_overview_goes_on_with_the_runs_and_the_ledger(served):
    found = served.read("/api/overview")
    [project] = found["projects"]
    assert [run["run_id"] for run in found["living"]] == [served.growing.directory.run_id]
    with served.stream(f"/api/events?after={found['sequence']}") as stream:
        first = next(stream)[1]
        assert first["projects"] == []
        served.growing.grow(1)
        news = next(stream)[1]
    assert news["projects"] == []
    assert [run["step"] for run in news["living"]] == [served.growing.step]
    with served.stream("/api/events?after=0") as stream:
        assert [one["name"] for one in next(stream)[1]["projects"]] == [project["name"]]


def test_an_end_of_a_run_makes_its_page_read_again(served):
    with served.stream(events(served, curves(served)["cursor"])) as stream:
        next(stream)
        served.growing.tell(RunState.STOPPED, stop_reason="requested")
        assert next(data for _, data in stream if data["reload"])["progress"]["state"] == "stopped"
    served.growing.tell()
