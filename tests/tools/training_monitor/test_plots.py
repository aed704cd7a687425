"""Figures: real PNG files, from any run, fast on a million points."""

from __future__ import annotations

import math
import sqlite3
import subprocess
import sys

import pytest

from trainwright.tools import training_monitor
from trainwright.tools.training_monitor import assess, plots
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
    assert size_of(plots.learning_curves([healthy().run], tmp_path / "new folder" / "a.png")) == (1200, 800)


@pytest.mark.requirement("MON-3")
def test_curves_of_many_runs_overlay(healthy, tmp_path):
    runs = [healthy(f"run-{number}").run for number in range(4)]
    assert size_of(plots.comparison(runs, tmp_path / "b.png"))
    assert size_of(plots.learning_curves(runs, tmp_path / "c.png"))


@pytest.mark.requirement("MON-1")
def test_gradient_health_is_drawn_with_values_that_are_not_finite(make_run, tmp_path):
    recorder = make_run().steps("train/gradient_norm", [0.5, 3.0, math.inf, math.nan, 0.0])
    assert size_of(plots.gradient_health(recorder.run, tmp_path / "d.png"))


def test_a_run_without_metrics_still_gives_a_picture(make_run, tmp_path):
    run = make_run().run
    assert size_of(plots.learning_curves([run], tmp_path / "e.png"))
    assert size_of(plots.gradient_health(run, tmp_path / "f.png"))
    assert size_of(plots.comparison([run], tmp_path / "g.png"))


def test_a_metric_that_no_run_recorded_is_named_with_those_that_are(healthy, tmp_path):
    run = healthy().run
    assert size_of(plots.comparison([run], tmp_path / "h.png", "validation/accuracy"))
    with pytest.raises(NotFoundError, match="validation/f1") as caught:
        plots.comparison([run], tmp_path / "i.png", "validation/f1")
    assert "validation/accuracy" in caught.value.remedy


@pytest.mark.requirement("GATE-6")
def test_a_metric_named_like_a_formula_is_drawn_as_text(make_run, tmp_path):
    run = make_run().epochs(**{"validation_$\\frac{a$\x1b[2J": [0.5, 0.6]}).run
    assert size_of(plots.learning_curves([run], tmp_path / "k.png"))
    assert plots.plain("$\\frac{a$\u202e") == r"\$\frac{a\$"


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
    assert size_of(plots.learning_curves([recorder.run], tmp_path / "j.png"))
    found = assess(recorder.run)
    assert found.gradient.steps == MILLION // 2
    assert max(len(rows) for rows in read) <= 2_000


def test_matplotlib_stays_out_of_the_servers_start():
    code = f"import sys, {training_monitor.__name__}, {plots.__name__} as _;"
    code += "sys.exit(any(name in sys.modules for name in ('matplotlib', 'torch', 'numpy')))"
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0
