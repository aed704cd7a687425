"""Which GPU a run gets: the least loaded of a given inventory, in turn, and never two runs on one place."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from trainwright.tools.gpus import Device, Need, Waiter
from trainwright.tools.gpus.assign import Claim
from trainwright.tools.gpus.choice import choose
from trainwright.tools.launchers.environment import Gpu

pytestmark = pytest.mark.requirement("TUNE-3")
GIB = 1024**3
WAITS = Need(waits=True)


def device(number: int, name: str = "A100", free: int | None = 80) -> Device:
    gpu = Gpu(id=f"GPU-n{number}", index=number, name=name, memory_bytes=80 * GIB)
    return Device(gpu, None if free is None else free * GIB)


def ids(devices: list[Device], claims: list[Claim], me: Waiter, need: Need, waiters: list[Waiter]) -> list[str] | None:
    found = choose(devices, claims, me, need, waiters)
    return None if found is None else [gpu.id for gpu in found.gpus]


def on(number: int, project: str = "ours", share: int = 1) -> Claim:
    return Claim(f"run-{project}-{number}", project, (f"GPU-n{number}",), Fraction(1, share))


def test_runs_spread_over_the_gpus_and_the_next_one_waits() -> None:
    devices, claims, ours = [device(0), device(1)], list[Claim](), Waiter("ours")
    for expected in ("GPU-n0", "GPU-n1"):
        assert ids(devices, claims, ours, WAITS, []) == [expected]
        claims.append(on(int(expected[-1])))
    assert ids(devices, claims, ours, WAITS, []) is None
    claims.pop(0)
    assert ids(devices, claims, ours, WAITS, []) == ["GPU-n0"]


def test_trials_that_share_fill_every_gpu_evenly_up_to_their_number() -> None:
    devices, claims = [device(0), device(1)], list[Claim]()
    half = replace(WAITS, runs_per_gpu=2)
    found = []
    while (given := ids(devices, claims, Waiter("ours"), half, [])) is not None:
        found += given
        claims.append(on(int(given[0][-1]), share=2))
    assert found == ["GPU-n0", "GPU-n1", "GPU-n0", "GPU-n1"]
    claims = [on(0, share=2)]
    assert ids(devices, claims, Waiter("other"), WAITS, []) == ["GPU-n1"], "a whole GPU is not one that is half taken"
    assert ids(devices[:1], claims, Waiter("other"), WAITS, []) is None


def test_a_run_that_does_not_wait_shares_the_least_loaded_gpu_and_names_whom_with() -> None:
    devices, claims = [device(0), device(1)], [on(0), on(1), on(0, "other")]
    found = choose(devices, claims, Waiter("ours"), Need())
    assert found is not None
    assert [gpu.id for gpu in found.gpus] == ["GPU-n1"]
    assert found.beside == ("run-ours-1",)


def test_a_project_that_has_none_comes_before_one_that_has_some() -> None:
    devices, theirs = [device(0), device(1)], Waiter("theirs", since=100.0)
    assert ids(devices, [on(0)], Waiter("ours"), WAITS, [theirs]) is None, "the free one is theirs"
    assert ids(devices, [on(0)], Waiter("theirs"), replace(WAITS, since=100.0), [theirs]) == ["GPU-n1"]
    assert ids(devices, [], Waiter("ours"), WAITS, [theirs]) == ["GPU-n1"], "there is one for each"


def test_of_projects_with_as_many_the_one_that_waits_longest_is_next() -> None:
    devices, claims = [device(0), device(1), device(2)], [on(0, "ours"), on(1, "theirs")]
    waiters = [Waiter("ours", since=200.0), Waiter("theirs", since=100.0)]
    assert ids(devices, claims, waiters[0], replace(WAITS, since=200.0), waiters) is None
    assert ids(devices, claims, waiters[1], replace(WAITS, since=100.0), waiters) == ["GPU-n2"]


def test_a_run_of_several_processes_gathers_its_gpus_while_others_pass_none_of_them_on() -> None:
    devices, pair = [device(0), device(1)], Waiter("pairs", count=2, since=1.0)
    assert ids(devices, [on(0)], pair, replace(WAITS, since=1.0), [pair]) is None
    assert ids(devices, [on(0)], Waiter("ours"), WAITS, [pair]) is None, "it would never have both"
    assert ids(devices, [], pair, replace(WAITS, since=1.0), [pair]) == ["GPU-n0", "GPU-n1"]


def test_processes_of_one_run_are_on_one_kind_of_gpu() -> None:
    devices = [device(0, "A100"), device(1, "H100"), device(2, "H100")]
    assert ids(devices, [], Waiter("ours", count=2), WAITS, []) == ["GPU-n1", "GPU-n2"]


def test_memory_that_other_programs_hold_is_no_room() -> None:
    devices = [device(0, free=10), device(1, free=40)]
    needs = replace(WAITS, needed_bytes=20 * GIB)
    assert ids(devices, [], Waiter("ours"), needs, []) == ["GPU-n1"]
    assert ids(devices, [], Waiter("ours"), replace(needs, needed_bytes=60 * GIB), []) is None
    unknown = [device(0, free=None)]
    assert ids(unknown, [], Waiter("ours"), needs, []) == ["GPU-n0"]


def test_a_waiter_that_lacks_memory_keeps_no_idle_gpu_from_others() -> None:
    devices, large = [device(0, free=30), device(1, free=80)], Waiter("theirs", since=1.0, needed_bytes=60 * GIB)
    ours, theirs = Waiter("ours"), replace(WAITS, since=1.0, needed_bytes=60 * GIB)
    assert ids(devices[:1], [], ours, WAITS, [large]) == ["GPU-n0"], "another program holds the memory that it needs"
    assert ids(devices, [], ours, WAITS, [large]) == ["GPU-n0"], "it has its place on the other"
    assert ids(devices, [], large, theirs, [large]) == ["GPU-n1"]
    assert ids(devices, [on(1, "others")], ours, WAITS, [replace(large, count=2)]) == ["GPU-n0"], "it cannot have both"
    half = replace(WAITS, runs_per_gpu=2)
    assert ids(devices[:1], [on(0, "others", 2)], ours, half, [large]) is None, "that run's memory will be free"
    assert ids(devices[:1], [on(0, "others", 2)], ours, half, [replace(large, needed_bytes=90 * GIB)]) == ["GPU-n0"]
