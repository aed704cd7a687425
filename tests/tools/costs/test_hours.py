"""Hours on other hardware as honest intervals, what a pruner saves, and when a spot machine is cheaper."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from trainwright.tools.costs.hours import (
    Epochs,
    bounded_epochs,
    epochs_on,
    restart_seconds,
    searched_epochs,
    spot_costs,
    with_interruptions,
)
from trainwright.tools.costs.measured import Measured, Restart
from trainwright.tools.costs.pricing import device_of_row
from trainwright.tools.costs.scaling import COUNTED, MEASURED, SCALED, Interval, Steps, is_same_device, step_on
from trainwright.tools.training_architect.hardware import Device, named_device, probed_device
from trainwright.trainer.config.search import SearchSection
from trainwright.trainer.estimation.duration import estimate_time
from trainwright.trainer.estimation.prices import Price
from trainwright.trainer.estimation.results import Work

pytestmark = pytest.mark.requirement("COST-1")
ON_GPU = Measured(
    run="r", kind="baseline", step_seconds=1.0, steps_per_epoch=100.0, other_seconds=10.0, start_seconds=8.0,
    data_wait_share=0.2, spread=0.05, is_on_gpu=True, gpus=1, hardware={},
)  # fmt: skip
WORK = Work(
    flops_per_step=1e14, bytes_per_step=4e11, forward_flops=3e13, forward_bytes=1e11, operations_per_step=4000,
    update_bytes=1e11, exchanged_bytes=1.4e9, steps=1000, epochs=2, validation_batches=50, validations=2,
    samples_per_step=8,
)  # fmt: skip
A100, H100, T4 = named_device("A100 80GB"), named_device("H100 SXM"), named_device("T4")
CPU = Device("CPU", "cpu", 1, 2**34)


def on(target: Device, gpus: int = 1, **changed: object) -> Steps | None:
    given = {"measured": ON_GPU, "source": A100, "work": None, "precision": "bf16", **changed}
    return step_on(target, gpus, **given)  # type: ignore[arg-type]


def test_the_measured_device_keeps_its_seconds_and_another_gets_an_interval_that_says_so() -> None:
    own, faster, slower = on(A100), on(H100), on(T4, precision="fp16")
    assert own == Steps(Interval(0.95, 1.05), MEASURED)
    assert faster is not None
    assert slower is not None
    arithmetic, bandwidth = 312 / 989, 2039 / 3350
    assert faster.basis == slower.basis == SCALED
    assert faster.seconds.low == pytest.approx(0.95 * (0.2 + 0.8 * arithmetic)), "what waits does not get faster"
    assert faster.seconds.high == pytest.approx(1.05), "a step that is bound by neither is as long as before"
    assert faster.seconds.low < 0.2 + 0.8 * bandwidth < faster.seconds.high
    assert slower.seconds.low == pytest.approx(0.95)
    assert slower.seconds.high > 1.05 * (0.2 + 0.8 * 312 / 65)


def test_counted_work_narrows_the_interval_and_stands_alone_between_a_processor_and_a_gpu() -> None:
    scaled, both = on(H100), on(H100, work=WORK)
    assert scaled is not None
    assert both is not None
    assert scaled.seconds.low <= both.seconds.low <= both.seconds.high <= scaled.seconds.high
    alone = on(H100, source=CPU, measured=replace(ON_GPU, is_on_gpu=False, gpus=0), work=WORK)
    assert alone is not None
    assert H100.accelerator is not None
    counted = estimate_time(WORK, H100.accelerator, precision="bf16")
    assert (alone.basis, alone.seconds) == (COUNTED, Interval(counted.step_seconds_low, counted.step_seconds_high))
    assert on(H100, source=CPU, measured=replace(ON_GPU, is_on_gpu=False, gpus=0)) is None, "nothing says how long"
    assert on(CPU, source=CPU) == Steps(Interval(0.95, 1.05), MEASURED)
    assert on(CPU, measured=None, source=None) is None


def test_several_devices_are_between_the_ideal_and_half_of_it() -> None:
    four = on(A100, 4)
    assert four is not None
    assert four.seconds.low == pytest.approx(0.95 / 4)
    assert four.seconds.high == pytest.approx(1.05 / 2)
    of_four = replace(ON_GPU, gpus=4)
    one, two = on(A100, 1, measured=of_four), on(A100, 2, measured=of_four)
    assert one is not None
    assert two is not None
    assert one == Steps(Interval(0.95 * 2, 1.05 * 4), SCALED), "the four may have reached half of their speed-up"
    assert two == Steps(Interval(0.95, 1.05 * 2), SCALED), "two are no faster than four"
    assert on(A100, 4, measured=of_four) == Steps(Interval(0.95, 1.05), MEASURED)
    counted = on(H100, 8, measured=None, source=None, work=WORK)
    assert counted is not None
    assert counted.seconds.low < counted.seconds.high


def test_another_processor_is_not_the_one_that_measured() -> None:
    def row(platform: str) -> Device:
        values = {"platform": platform, "accelerator": "CPU", "date": "2026-11-01", "source": "s", "price_per_hour": 1}
        return device_of_row(Price.model_validate(values), Path("none.yaml"))

    own, rented = (on(row(name), source=CPU, measured=replace(ON_GPU, is_on_gpu=False)) for name in ("own", "Modal"))
    assert own == Steps(Interval(0.95, 1.05), MEASURED)
    assert rented == Steps(Interval(0.95 / 4, 1.05 * 4), SCALED)


@pytest.mark.parametrize(
    ("told", "gib", "meant"),
    [("NVIDIA H100 80GB HBM3", 79, H100), ("NVIDIA A100-SXM4-80GB", 79, A100), ("Tesla T4", 14.6, T4)],
)
def test_a_device_is_known_by_the_drivers_name(told: str, gib: float, meant: Device) -> None:
    found = probed_device({"gpus": [{"name": told, "memory_bytes": int(gib * 2**30)}], "ram_bytes": 2**36})
    assert is_same_device(found, meant)
    assert not is_same_device(found, named_device("B200"))


def test_an_epoch_has_its_validation_and_a_run_its_start() -> None:
    steps = on(A100)
    assert steps is not None
    epochs = epochs_on(steps, ON_GPU, None)
    assert epochs.seconds(1) == Interval(95 + 9.5, 105 + 10.5)
    own, rented = epochs.hours(10, is_rented=False), epochs.hours(10, is_rented=True)
    assert own.low == pytest.approx((10 * 104.5 + 7.6) / 3600)
    assert rented.high == pytest.approx(own.high + 600 / 3600)
    assert epochs.hours(10, 3, is_rented=False).high == pytest.approx(3 * own.high)
    unmeasured = epochs_on(Steps(Interval(1.0, 2.0), COUNTED), None, WORK)
    assert unmeasured == Epochs(Interval(500.0, 1000.0), Interval(0.0, 500.0), Interval(5.0, 60.0))


def test_a_run_ends_at_max_steps_and_validates_the_epoch_that_it_cuts_short() -> None:
    assert bounded_epochs(10, None, 100.0) == 10.0
    assert bounded_epochs(10, 5_000, 100.0) == 10.0
    assert bounded_epochs(10, 250, 100.0) == 2.5
    steps = on(A100)
    assert steps is not None
    epochs = epochs_on(steps, ON_GPU, None)
    assert epochs.seconds(2.5) == Interval(2.5 * 95 + 3 * 9.5, 2.5 * 105 + 3 * 10.5)
    assert epochs.seconds(0.01).low == pytest.approx(0.95 + 9.5), "one step, and all of a validation"


def test_a_pruner_saves_what_it_plans_at_best_and_nothing_at_worst() -> None:
    halving = {"name": "successive_halving", "warmup_epochs": 1, "reduction_factor": 3, "bracket": 9}
    space = {"optimizer.learning_rate": {"type": "float", "low": 0.001, "high": 0.1}}
    search = SearchSection.model_validate({"trials": 9, "space": space, "pruning": halving})
    found, said = searched_epochs(search, 9, 9)
    assert found == Interval(9 * 1 + 3 * 2 + 1 * 6, 81.0), "9 trials to epoch 1, 3 on to 3, 1 on to 9"
    assert "saves 74%" in said
    assert searched_epochs(None, 5, 10)[0] == Interval(50.0, 50.0)
    cut, _ = searched_epochs(search, 9, 9, 4.5)
    assert cut == Interval(9 * 1 + 3 * 2 + 1 * 1.5, 9 * 4.5), "max_steps ends what the rungs let go on"
    assert searched_epochs(search, 9, 9, 0.5)[0] == Interval(4.5, 4.5)
    assert searched_epochs(None, 5, 10, 2.5)[0] == Interval(12.5, 12.5)


def test_below_the_break_even_a_spot_machine_is_cheaper_and_above_it_is_not() -> None:
    common = {"platform": "p", "accelerator": "H100 SXM", "date": "2026-11-01", "source": "invented"}
    lasting = Price.model_validate({**common, "price_per_hour": 4.0})
    spot = Price.model_validate({**common, "price_per_hour": 1.0, "spot": True})
    lost, said = restart_seconds(Restart(seconds=30.0, resumes=3))
    assert "3 resumes" in said
    assert "assumed: no run" in restart_seconds(None)[1]
    [found] = spot_costs([lasting, spot], lost, 10.0)
    even = found.break_even_interruptions_per_day
    assert found.saves_percent == 75.0
    assert found.worth_it is True
    assert 1.0 * with_interruptions(100.0, even, lost) == pytest.approx(4.0 * 100.0, rel=1e-3)
    [beyond] = spot_costs([lasting, spot], lost, even + 1)
    assert beyond.worth_it is False
    assert spot_costs([spot], lost, None) == [], "nothing to compare with"
