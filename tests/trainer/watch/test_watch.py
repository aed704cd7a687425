"""The watch sees the layers at some steps and changes none; its alerts do what is configured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.trainer.killing import kill_at_call

from trainwright.trainer.base.errors import AlertError
from trainwright.trainer.checkpoints.store import DirectoryStore
from trainwright.trainer.engine.observers.recorder import Recorder
from trainwright.trainer.engine.trackers import Trackers
from trainwright.trainer.run import RunDirectory, RunKind, RunState
from trainwright.trainer.run.conditions import FINDINGS, WORKER_SIGNALS, Trigger, Watched
from trainwright.trainer.supervision.sampling import SystemSampler
from trainwright.trainer.watch.alerts import MAX_EVENTS, REPEATING, Alerts
from trainwright.trainer.watch.signals import SIGNALS
from trainwright.trainer.watch.watch import Watch, watching

GRADIENTS, RATIOS = "layers/gradient_norm/", "layers/update_ratio/"


def always(severity: str) -> Watched:
    """A diagnostic that every run raises at once."""
    trigger = Trigger(
        signal="applied_gradient_norm", comparison="above", threshold=0, unit="norm",
        message="{measured} is above {threshold}.",
    )  # fmt: skip
    return Watched(
        id="moving", severity=severity, document="diagnostics/x.md", remedy="Rest.", triggers=[trigger]
    )  # fmt: skip


def weights_of(run: RunDirectory) -> dict[str, bytes]:
    """The newest checkpoint's files, bit by bit."""
    from safetensors.torch import load_file

    folder = max(DirectoryStore(run).run.checkpoints.glob("step-*"))
    tensors = {name: value for file in folder.glob("*.safetensors") for name, value in load_file(file).items()}
    return {name: value.numpy().tobytes() for name, value in tensors.items()}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: Any, make_run: Any, work: Any, digits: dict[str, Any]) -> dict[str, RunDirectory]:
    """The same run with inspection and without."""
    folder = tmp_path_factory.mktemp("pair")
    runs = {}
    for inspect in ("auto", "off"):
        values = {**digits, "training": {"epochs": 2, "clip_norm": 0.1}, "monitoring": {"inspect": inspect}}
        runs[inspect] = make_run(folder / inspect, values, kind=RunKind.TRIAL)
        assert work(runs[inspect]) == 0, runs[inspect].log.read_text()
    return runs


@pytest.mark.requirement("DIAG-11")
def test_a_run_that_is_inspected_is_the_same_to_the_bit(pair: dict[str, RunDirectory], recorded: Any) -> None:
    keys = ("train/loss", "train/gradient_norm", "validation/loss", "validation/accuracy")
    assert recorded(pair["auto"], *keys) == recorded(pair["off"], *keys)
    assert weights_of(pair["auto"]) == weights_of(pair["off"])
    keys_of_off = pair["off"].metrics().keys()
    assert not [key for key in keys_of_off if key.startswith(("layers/", "watch/"))]


@pytest.mark.requirement("DIAG-7")
def test_a_baseline_is_inspected_whatever_is_configured(open_session: Any, digits: dict[str, Any]) -> None:
    session = open_session({**digits, "monitoring": {"inspect": "off"}})
    before, _ = watching(
        session, Recorder(session.run.metrics(writer=True), Trackers(session.run, session.config, {}), SystemSampler())
    )
    assert [type(each) for each in before] == [Watch]


@pytest.mark.requirement("TRACK-3", "DIAG-3", "DIAG-4")
def test_norms_by_parameter_are_those_before_clipping(pair: dict[str, RunDirectory]) -> None:
    store = pair["auto"].metrics()
    keys = store.keys()
    names = [key.removeprefix(GRADIENTS) for key in keys if key.startswith(GRADIENTS)]
    assert sorted(names) == ["layers.1.bias", "layers.1.weight", "layers.3.bias", "layers.3.weight"]
    steps = [point.step for point in store.series(GRADIENTS + names[0])]
    assert steps[:3] == [1, 2, 3]
    total = {point.step: point.value for point in store.series("train/gradient_norm")}
    for step in steps:
        squares = [at.value**2 for name in names if (at := store.at(GRADIENTS + name, step)) is not None]
        assert sum(squares) ** 0.5 == pytest.approx(total[step], rel=1e-4)
        assert total[step] > 0.1, "it was clipped to a tenth"
    assert all(0 < point.value < 1 for point in store.series(RATIOS + "layers.1.weight"))


@pytest.mark.requirement("DIAG-11")
def test_a_critical_alert_fails_the_run_with_its_document(
    tmp_path: Path, make_run: Any, work: Any, digits: dict[str, Any]
) -> None:
    run = make_run(tmp_path / "run", digits, watch=[always("critical")])
    assert work(run) == 1
    failure = run.status().failure
    assert failure is not None
    assert (failure.category, failure.document) == ("alert", "diagnostics/x.md")
    assert failure.details["id"] == "moving"
    assert failure.remedy.startswith("Rest.")
    [alert] = run.events("alert")
    assert alert.data["severity"] == "critical"
    assert alert.data["measured"] > alert.data["threshold"] == 0
    assert run.metrics().count("train/loss") > 0


@pytest.mark.requirement("DIAG-11")
@pytest.mark.parametrize("policy", ["checkpoint", pytest.param("tell", marks=pytest.mark.long)])
def test_an_alert_saves_and_stops_or_only_tells(
    tmp_path: Path, make_run: Any, work: Any, digits: dict[str, Any], policy: str
) -> None:
    run = make_run(tmp_path / "run", {**digits, "monitoring": {"on_warning": policy}}, watch=[always("warning")])
    assert work(run) == 0, run.log.read_text()
    status = run.status()
    if policy == "checkpoint":
        assert (status.state, status.stop_reason) == (RunState.STOPPED, "alert: moving")
        assert run.events("checkpoint")[-1].data["step"] == status.step < 120
        assert work(run) == 0, "resumed: the alert is open, and stops it no more"
    assert run.status().state is RunState.COMPLETED
    assert len(run.events("alert")) == len(run.events("started")), "once an attempt"
    steps = [point.step for point in run.metrics().series("train/loss")]
    assert steps == list(range(1, 121)), "each step once"


@pytest.mark.requirement("DIAG-11")
def test_a_critical_alert_is_cleared_after_a_resume_and_acts_however_often_it_came(
    open_session: Any, digits: dict[str, Any]
) -> None:
    session = open_session(digits)
    run = session.run
    recorder = Recorder(run.metrics(writer=True), Trackers(run, session.config, {}), SystemSampler())
    alerts = Alerts(session, recorder)
    trigger = Trigger(
        signal=FINDINGS, comparison="at_least", threshold=1, unit="steps", message="{measured}, {threshold}"
    )
    alerts.watched = [always("critical").model_copy(update={"triggers": [trigger]})]
    for _ in range(MAX_EVENTS - 1):
        run.append_event("alert", id="moving", severity="critical")
        run.append_event("alert_cleared", id="moving")
    run.append_event("alert", id="moving", severity="critical")
    alerts.start(session)
    alerts.evaluate()
    alerts.evaluate()
    assert len(run.events("alert_cleared")) == MAX_EVENTS
    alerts.found({"id": "moving", "measured": 2.0, "step": 1})
    with pytest.raises(AlertError):
        alerts.evaluate()
    assert len(run.events("alert")) == MAX_EVENTS + 1


@pytest.mark.requirement("DIAG-11")
def test_a_replay_goes_as_far_as_its_source() -> None:
    assert RunKind.REPLAY in REPEATING


def test_the_worker_has_every_signal_that_the_documents_may_leave_to_it() -> None:
    assert {*SIGNALS, FINDINGS} == WORKER_SIGNALS


@pytest.mark.requirement("DIAG-11", "DIAG-3")
def test_a_run_that_diverges_says_what_grew_first(tmp_path: Path, make_run: Any, work: Any) -> None:
    values = {
        "model": {"use": "mlp", "args": {"hidden": [16]}},
        "data": {"use": "diabetes"},
        "loss": "mse",
        "optimizer": {"name": "sgd", "learning_rate": 1.0, "momentum": 0.0},
        "schedule": {"name": "constant"},
    }
    run = make_run(tmp_path / "run", values)
    assert work(run) == 1
    failure = run.status().failure
    assert failure is not None
    assert failure.category == "divergence"
    [finding] = run.events("finding")
    assert finding.data["id"] == "nan_loss"
    assert finding.data["step"] <= failure.details["step"]
    assert finding.data["layers"][0].startswith("layers.")
    assert finding.data["layers"][0] in finding.data["detail"]
    assert set(finding.data["rows"]) <= set(failure.details["batch_indices"])


@pytest.mark.requirement("MON-1", "TRACK-3", "TRAIN-9")
def test_a_killed_run_records_what_it_repeats_once(
    tmp_path: Path, make_run: Any, work: Any, digits: dict[str, Any]
) -> None:
    values = {**digits, "checkpoints": {"checkpoint_every_n_steps": 10}, "logging": {"every_n_steps": 5}}
    run = make_run(tmp_path / "run", values, watch=[always("warning")])
    assert work(run, kill_at_call(Recorder.step, 37)) < 0
    assert work(run) == 0, run.log.read_text()
    assert run.status().state is RunState.COMPLETED
    steps = [point.step for point in run.metrics().series("watch/update_ratio_median")]
    assert steps == sorted(set(steps))
    assert {1, 2, 3, 31, 32, 33} <= set(steps), "the first of each attempt"
    assert len(run.events("alert")) == 2, "once an attempt"
    assert (run.path / "tensorboard").is_dir(), "the trackers get the summaries too"
