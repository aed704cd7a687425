"""The deterministic settings that a run records are those that held to its end: user code may not switch them."""

from __future__ import annotations

from typing import Any

import pytest

from trainwright.trainer.run import RunState

pytestmark = pytest.mark.requirement("REPRO-2", "GATE-1")
IN_FORWARD = """
class Net(Net):
    def forward(self, x):
        CALL
        return super().forward(x)
"""
IN_BUILDING = """
torch.use_deterministic_algorithms(False)
torch.backends.cudnn.benchmark = True
class Net(Net):
    def __init__(self):
        super().__init__()
        torch.backends.cudnn.deterministic = False
        torch.set_num_threads(2)
"""


ALGORITHMS = "torch.use_deterministic_algorithms"
MORE = [
    (f"{ALGORITHMS}(True, warn_only=True)", "warns_only is True, it was False"),
    ("torch.backends.cudnn.deterministic = False", "cudnn_deterministic is False, it was True"),
    ("torch.backends.cudnn.benchmark = True", "cudnn_benchmark is True, it was False"),
    (f"{ALGORITHMS}(self.training)", "deterministic_algorithms is False, it was True"),
]


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (f"{ALGORITHMS}(False)", "deterministic_algorithms is False, it was True"),
        ("torch.set_num_threads(2)", "threads is 2, it was 1"),
        (f"{ALGORITHMS}(not self.training)", "deterministic_algorithms is False, it was True"),
        *(pytest.param(*each, marks=pytest.mark.long) for each in MORE),
    ],
)
def test_a_setting_that_training_switches_fails_the_run_before_its_epoch_counts(
    ended: Any, call: str, named: str
) -> None:
    run = ended(IN_FORWARD.replace("CALL", call))
    status = run.status()
    assert (status.state, status.failure.category) == (RunState.FAILED, "reproducibility")
    assert status.failure.message.endswith(f"{named}.")
    assert not {"epoch", "checkpoint"} & {event.kind for event in run.events()}


def test_what_is_switched_while_the_code_is_imported_and_built_is_put_right(ended: Any) -> None:
    run = ended(IN_BUILDING)
    assert run.status().state is RunState.COMPLETED, run.log.read_text()


def test_a_step_that_sets_what_is_set_anyway_is_no_offence(ended: Any) -> None:
    run = ended(IN_FORWARD.replace("CALL", "torch.use_deterministic_algorithms(True); torch.set_num_threads(1)"))
    assert run.status().state is RunState.COMPLETED, run.log.read_text()


def test_a_thread_that_limits_itself_as_the_one_that_pins_memory_does_is_no_offence(ended: Any) -> None:
    call = "import threading; t = threading.Thread(target=torch.set_num_threads, args=(1,)); t.start(); t.join()"
    values = {
        "model": {"use": "mine:Net"},
        "data": {"use": "mine:data"},
        "loader": {"batch_size": 8},
        "training": {"epochs": 2},
        "reproducibility": {"threads": 2},
        "logging": {"tensorboard": False},
    }
    run = ended(IN_FORWARD.replace("CALL", call), values)
    assert run.status().state is RunState.COMPLETED, run.log.read_text()
