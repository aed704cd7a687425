"""What every tracker promises, and what a run promises whatever its trackers do: it goes on, with the same bits."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.trainer.whole_runs import Halted, assert_same_end, train_here
from tests.variants import variants

from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.config.schema import LoggingSection
from trainwright.trainer.engine.trackers import TRACKERS, Tracker, Trackers
from trainwright.trainer.engine.trackers.tensorboard import TensorBoard
from trainwright.trainer.run import RunDirectory

FOLDER = "tensorboard"
"""Of the tracker that the configuration asks for; the tests put each in its place."""


Read = Callable[[RunDirectory], dict[str, dict[int, float]]]


class Lines:
    """The tests' own: a line for each call; it draws from every generator, as libraries do for their names."""

    def start(self, run: RunDirectory, config: TrainingConfig) -> None:
        self.draw()
        (run.path / FOLDER).mkdir(exist_ok=True)
        self.file = (run.path / FOLDER / "lines.jsonl").open("a")

    def log(self, values: Mapping[str, float], step: int, time: float) -> None:
        self.draw()
        self.file.write(json.dumps([dict(values), step, time]) + "\n")

    def close(self) -> None:
        self.draw()
        self.file.close()

    def alert(self, event: Any) -> None:
        self.draw()

    def draw(self) -> None:
        assert random.random() + np.random.rand() + torch.rand(1).item() >= 0


def read_lines(run: RunDirectory) -> dict[str, dict[int, float]]:
    shown: dict[str, dict[int, float]] = {}
    for line in (run.path / FOLDER / "lines.jsonl").read_text().splitlines():
        values, step, *_ = json.loads(line)
        for key, value in values.items():
            shown.setdefault(key, {})[step] = value
    return shown


def read_events(run: RunDirectory) -> dict[str, dict[int, float]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    shown: dict[str, dict[int, float]] = {}
    for file in sorted((run.path / FOLDER).iterdir()):  # one for each attempt
        events = EventAccumulator(str(file), size_guidance={"scalars": 0})
        events.Reload()
        for key in events.Tags()["scalars"]:
            shown.setdefault(key, {}).update({point.step: point.value for point in events.Scalars(key)})
    return shown


IMPLEMENTATIONS: dict[str, tuple[type, Read]] = {
    "tensorboard": (TensorBoard, read_events),
    "lines": (Lines, read_lines),
}
"""A new tracker is one line here: what makes it, and how its numbers are read."""
VALUES: dict[str, Any] = {
    "model": {"use": "mlp", "args": {"hidden": [8], "dropout": 0.3}},
    "data": {"use": "iris"},
    "metrics": ["accuracy"],
    "training": {"epochs": 3},
    "logging": {"every_n_steps": 1},
}
KEYS = ("train/loss", "train/gradient_norm", "train/epoch_loss", "validation/loss", "validation/accuracy")


FAILING = [f"{name} {moment}" for name in IMPLEMENTATIONS for moment in ("start", "log", "close")]


@pytest.fixture(scope="module", params=IMPLEMENTATIONS)
def made(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, make_run: Any, work: Any) -> RunDirectory:
    """The run without any tracker."""
    values = {**VALUES, "logging": {**VALUES["logging"], "tensorboard": False}}
    run: RunDirectory = make_run(tmp_path_factory.mktemp("alone") / "run", values)
    assert work(run) == 0, run.log.read_text()
    return run


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory, made: str, make_run: Any, work: Any) -> RunDirectory:
    """The run with the tracker."""
    run: RunDirectory = make_run(tmp_path_factory.mktemp(made) / "run", VALUES)
    assert work(run, before=in_place(IMPLEMENTATIONS[made][0])) == 0, run.log.read_text()
    return run


def in_place(tracker: Callable[[], Tracker]) -> Callable[[], None]:
    def arrange() -> None:
        TRACKERS[FOLDER] = tracker

    return arrange


def test_every_tracker_of_the_registry_is_held_to_this_and_has_its_switch() -> None:
    assert TRACKERS.keys() <= IMPLEMENTATIONS.keys()
    assert TRACKERS.keys() <= LoggingSection.model_fields.keys()
    assert all(IMPLEMENTATIONS[name][0] is made for name, made in TRACKERS.items())


@pytest.mark.requirement("TRAIN-9")
def test_what_was_recorded_is_shown(made: str, shown: RunDirectory) -> None:
    found, store = IMPLEMENTATIONS[made][1](shown), shown.metrics()
    for key in KEYS:
        points = {point.step: point.value for point in store.series(key)}
        assert points
        assert found[key] == pytest.approx(points)
    assert not [key for key in found if key.startswith(("throughput/", "system/"))]


@pytest.mark.requirement("TRAIN-9", "REPRO-6")
def test_a_tracker_changes_no_bit_of_the_run_and_writes_into_its_own_folder_alone(
    shown: RunDirectory, alone: RunDirectory
) -> None:
    assert_same_end(shown, alone, *KEYS)
    files = {path.relative_to(shown.path).as_posix() for path in shown.path.rglob("*") if path.is_file()}
    without = {path.relative_to(alone.path).as_posix() for path in alone.path.rglob("*") if path.is_file()}
    assert {name for name in files - without if not name.startswith(f"{FOLDER}/")} == set()
    assert not shown.events("note")


@pytest.mark.requirement("TRAIN-9")
@pytest.mark.parametrize("case", variants(FAILING, quick=["tensorboard log"]))
def test_a_tracker_that_fails_is_reported_once_and_the_run_goes_on(
    case: str, tmp_path: Path, alone: RunDirectory, make_run: Any, work: Any
) -> None:
    name, moment = case.split()

    def fail(*_: Any) -> None:
        torch.rand(1)
        raise ConnectionError("the server of the tracker is gone")

    failing = type("Failing", (IMPLEMENTATIONS[name][0],), {moment: fail})
    run = make_run(tmp_path / "run", VALUES)
    assert work(run, before=in_place(failing)) == 0, run.log.read_text()
    assert_same_end(run, alone, *KEYS)
    (note,) = run.events("note")
    assert "tensorboard failed" in note.data["text"]
    assert "ConnectionError: the server of the tracker is gone" in note.data["text"]


@pytest.mark.requirement("TRAIN-9")
def test_a_folder_that_cannot_be_made_ends_the_tracker_and_not_the_run(
    made: str, tmp_path: Path, alone: RunDirectory, make_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TRACKERS, FOLDER, IMPLEMENTATIONS[made][0])
    run = make_run(tmp_path / "run", VALUES)
    (run.path / FOLDER).write_text("in the way")
    train_here(run)
    assert_same_end(run, alone, *KEYS)
    assert len(run.events("note")) == 1


@pytest.mark.requirement("TRAIN-9", "REPRO-6")
def test_a_run_that_was_halted_and_resumed_shows_the_steps_from_its_checkpoint_on(
    made: str, tmp_path: Path, alone: RunDirectory, make_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, read = IMPLEMENTATIONS[made]
    monkeypatch.setitem(TRACKERS, FOLDER, make)
    run = make_run(tmp_path / "run", VALUES)
    with pytest.raises(Halted):
        train_here(run, halt_at=7)
    train_here(run)
    assert_same_end(run, alone, *KEYS)
    points = {point.step: point.value for point in run.metrics().series("train/loss")}
    found = read(run)["train/loss"]
    assert found == pytest.approx({step: points[step] for step in found})
    assert found.keys() >= {step for step in points if step > run.events("resumed")[0].data["step"]} > set()


@pytest.mark.requirement("TRAIN-9", "TRACK-1")
def test_tensorboard_shows_hyperparameters_and_each_alert_once(tmp_path: Path, make_run: Any) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = make_run(tmp_path / "run", VALUES)
    trackers = Trackers(run, run.specification().config, {"tensorboard": TensorBoard()})
    run.append_event("alert", id="gradient_explosion", severity="critical", step=7, measured=1e9)
    trackers.log([({"train/loss": 1.0}, 7, 1e9)])
    run.append_event("note", text="no alert")
    trackers.close()
    assert not [event for event in run.events("note") if "tensorboard failed" in event.data["text"]]
    (file,) = (run.path / FOLDER).iterdir()
    events = EventAccumulator(str(file), size_guidance={"tensors": 0})
    events.Reload()
    (text,) = [name for name in events.Tags()["tensors"] if name.startswith("alert/")]
    (shown,) = events.Tensors(text)
    assert text == "alert/gradient_explosion/text_summary"
    assert shown.step == 7
    assert b"- severity: critical" in shown.tensor_proto.string_val[0]
    content = file.read_bytes()
    assert b"_hparams_/session_start_info" in content
    assert b"optimizer.learning_rate" in content
