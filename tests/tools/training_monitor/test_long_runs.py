"""A diagnosis of a long run reads its newest part, and the rest by what the store has summed up."""

from __future__ import annotations

import pytest

from trainwright.tools.training_monitor import diagnose
from trainwright.trainer.run.metrics import MetricStore

STEPS = 100_000


@pytest.mark.requirement("DIAG-1")
def test_a_diagnosis_reads_no_whole_series_of_a_long_run(make_run, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = make_run("long").ended(step=STEPS)
    for key, value in (("train/loss", 0.5), ("train/gradient_norm", 1.0), ("train/learning_rate", 1e-3)):
        recorder.steps(key, [value] * STEPS)
    recorder.steps("watch/update_ratio_median", [1e-3] * 200)
    read: list[int] = []
    points = MetricStore._points

    def counted(self, query, arguments):
        found = points(self, query, arguments)
        read.append(len(found))
        return found

    monkeypatch.setattr(MetricStore, "_points", counted)
    assert diagnose(recorder.run) == []
    assert 0 < sum(read) < STEPS / 2, "each window is 1,000 points, of which some signals read one"
