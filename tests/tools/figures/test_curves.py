"""Curves: real PNG files, from any run, with the run's moments marked, fast on a million points."""

from __future__ import annotations

import math
import sqlite3
import subprocess
import sys

import pytest

from trainwright.server import app
from trainwright.tools import training_monitor
from trainwright.tools.figures import curves, drawing, gradients, kinds
from trainwright.tools.figures.style import plain
from trainwright.tools.training_monitor import assess
from trainwright.trainer.base.errors import NotFoundError
from trainwright.trainer.run import MetricStore

pytestmark = pytest.mark.slow

MILLION = 1_000_000


def size_of(path):
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


@pytest.mark.requirement("MON-1", "PHASE-4")
def test_learning_curves_are_readable_at_1200_by_800(healthy, tmp_path):
    assert size_of(curves.learning_curves([healthy().run], tmp_path / "new folder" / "a.png")) == (1200, 800)


@pytest.mark.requirement("MON-3")
def test_curves_of_many_runs_overlay(healthy, tmp_path):
    runs = [healthy(f"run-{number}").run for number in range(4)]
    assert size_of(curves.comparison(runs, tmp_path / "b.png"))
    assert size_of(curves.learning_curves(runs, tmp_path / "c.png"))


@pytest.mark.requirement("MON-1")
def test_gradient_health_is_drawn_with_values_that_are_not_finite(make_run, tmp_path):
    recorder = make_run().steps("train/gradient_norm", [0.5, 3.0, math.inf, math.nan, 0.0])
    assert size_of(gradients.gradient_health(recorder.run, tmp_path / "d.png"))


def test_a_run_without_metrics_still_gives_a_picture(make_run, tmp_path):
    run = make_run().run
    assert size_of(curves.learning_curves([run], tmp_path / "e.png"))
    assert size_of(gradients.gradient_health(run, tmp_path / "f.png"))
    assert size_of(curves.comparison([run], tmp_path / "g.png"))


def test_a_metric_that_no_run_recorded_is_named_with_those_that_are(healthy, tmp_path):
    run = healthy().run
    assert size_of(curves.comparison([run], tmp_path / "h.png", "validation/accuracy"))
    with pytest.raises(NotFoundError, match="validation/f1") as caught:
        curves.comparison([run], tmp_path / "i.png", "validation/f1")
    assert "validation/accuracy" in caught.value.remedy


@pytest.mark.requirement("GATE-6")
def test_a_metric_named_like_a_formula_is_drawn_as_text(make_run, tmp_path):
    run = make_run().epochs(**{"validation_$\\frac{a$\x1b[2J": [0.5, 0.6]}).run
    assert size_of(curves.learning_curves([run], tmp_path / "k.png"))
    assert plain("$\\frac{a$\u202e") == r"\$\frac{a\$"


@pytest.mark.long
@pytest.mark.requirement("MON-4")
def test_a_million_points_are_read_in_few_buckets_and_never_one_by_one(make_run, tmp_path, monkeypatch):
    recorder = make_run().epochs(train_loss=[1.0, 0.5], validation_loss=[1.1, 0.6], validation_accuracy=[0.8, 0.9])
    with sqlite3.connect(recorder.run.path / "metrics.sqlite") as database:
        for key in ("train/loss", "train/gradient_norm"):
            steps = "WITH RECURSIVE s(step) AS (SELECT 1 UNION ALL SELECT step + 1 FROM s WHERE step < ?)"
            rows = "SELECT ?, step, 1.0 + step % 7, 0.0 FROM s"
            database.execute(f"{steps} INSERT INTO metrics {rows}", (MILLION // 2, key))
    read = []
    real = MetricStore._read
    monkeypatch.setattr(MetricStore, "_read", lambda *arguments: read.append(rows := real(*arguments)) or rows)
    assert size_of(curves.learning_curves([recorder.run], tmp_path / "j.png"))
    found = assess(recorder.run)
    assert found.gradient.steps == MILLION // 2
    assert max(len(rows) for rows in read) <= 2_000


def test_matplotlib_stays_out_of_the_servers_start():
    code = f"import sys, {app.__name__}, {training_monitor.__name__} as _;"
    code += "sys.exit(any(name in sys.modules for name in ('matplotlib', 'torch', 'numpy')))"
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0


def labels(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


@pytest.mark.requirement("MON-2")
def test_best_epoch_resumes_stop_and_alerts_are_marked_and_named(healthy, drawn, tmp_path):
    recorder = healthy()
    recorder.run.append_event("resumed", step=20)
    recorder.run.append_event("resumed", step=40)
    recorder.run.append_event("alert", id="loss_spike", severity="warning", step=55)
    recorder.ended(stop_reason="early_stopping", step=100)
    curves.learning_curves([recorder.run], tmp_path / "a.png")
    named = labels(drawn[0])
    assert "best: epoch 10" in named
    assert "resumed 2 times, first (step 20)" in named
    assert "stopped: early_stopping (step 100)" in named
    assert "alert: loss_spike (step 55)" in named
    assert [axes.get_ylabel() for axes in drawn[0].axes] == ["loss", "value", "norm", "rate"]
    assert all(axes.get_xlabel() == "optimizer step (10 epochs)" for axes in drawn[0].axes[2:])


@pytest.mark.requirement("MON-2")
def test_a_spike_of_one_step_among_many_stays_in_the_picture(make_run, drawn, tmp_path):
    values = [1.0] * 30_000
    values[12_345] = 77.0
    curves.comparison([make_run().steps("train/loss", values).run], tmp_path / "a.png", "train/loss")
    (band,) = drawn[0].axes[0].collections
    assert max(y for path in band.get_paths() for _, y in path.vertices) == 77.0


@pytest.mark.requirement("MON-2")
def test_runs_are_overlaid_by_epoch_with_their_names(healthy, drawn, tmp_path):
    runs = [healthy(f"run-{number}").run for number in range(3)]
    curves.comparison(runs, tmp_path / "a.png")
    assert labels(drawn[0]) == [f"run-{number} (baseline)" for number in range(3)]
    assert {axes.get_xlabel() for axes in drawn[0].axes} == {"epoch"}


@pytest.mark.requirement("MON-2")
def test_the_legend_lies_outside_of_the_curves(healthy, drawn, tmp_path):
    curves.learning_curves([healthy().run], tmp_path / "a.png")
    (legend,) = drawn[0].legends
    lowest = min(axes.get_tightbbox().y0 for axes in drawn[0].axes)
    assert legend.get_window_extent().y1 <= lowest
    assert all(axes.get_legend() is None for axes in drawn[0].axes)


@pytest.mark.requirement("MON-2")
def test_every_kind_of_the_schema_is_drawn():
    assert {*kinds.Kind.__args__, "importance"} == {"curves", *drawing.DRAWN}  # which is a kind of studies too
    assert set(kinds.Kind.__args__) >= drawing.OVERLAID


@pytest.mark.requirement("MON-2")
def test_losses_of_other_scales_are_not_drawn_over_one_another(make_run, tmp_path, drawn, texts):
    options = {"loss": "mse", "metrics": ["r2"], "selection": {}}
    runs = [
        make_run("raw", **options).epochs(validation_loss=[900.0, 800.0], validation_r2=[0.1, 0.2]).run,
        make_run("scaled", **options, target_scaling="standardize")
        .epochs(validation_loss=[0.9, 0.8], validation_r2=[0.3, 0.4]).run,
    ]  # fmt: skip
    curves.comparison(runs, tmp_path / "a.png")
    left, right = drawn[0].axes
    assert "target_scaling" in " ".join(texts(drawn[0]))
    assert (len(left.get_lines()), [line.get_label() for line in right.get_lines()]) == (
        0, ["raw (baseline)", "scaled (baseline)"],
    )  # fmt: skip


@pytest.mark.requirement("MON-2")
def test_a_title_shows_the_handle_whole(healthy, tmp_path, drawn):
    run = healthy("baseline-digits-20261123-101500-abcdef").run
    name = "a-long-name-of-a-project-that-goes-on/baseline-1"
    curves.learning_curves([run], tmp_path / "a.png", {run.run_id: name})
    assert drawn[0].get_suptitle().replace("\n", " ") == f"{name} (baseline, completed)"
