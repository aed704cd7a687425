"""The diagnostic report: evidence, alerts, fixes, and exactly one recommendation."""

from __future__ import annotations

import re

import pytest

from trainwright.tools.figures.curves import learning_curves
from trainwright.tools.figures.gradients import gradient_health
from trainwright.tools.training_monitor import Goal, diagnostic_report

GOAL = Goal(metric="accuracy", direction="maximize", target=0.95)


def recommendations(text):
    return re.findall(r"^Recommendation: (deploy|optimize|debug)$", text, flags=re.MULTILINE)


@pytest.mark.requirement("PHASE-4")
def test_the_report_has_one_recommendation_and_links_that_resolve(healthy, tmp_path):
    run = healthy().run
    pictures = [
        learning_curves([run], tmp_path / "plots" / "learning_curves.png"),
        gradient_health(run, tmp_path / "plots" / "gradient_health.png"),
    ]
    text = diagnostic_report(run, GOAL, pictures)
    assert recommendations(text) == ["deploy"]
    links = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert len(links) == 2
    assert all((tmp_path / link).is_file() for link in links)
    assert "None of the diagnostic documents' triggers holds." in text
    assert "not applicable: no GPU was used" in text


@pytest.mark.requirement("PHASE-4", "DIAG-2", "DIAG-8")
def test_each_alert_has_its_numbers_its_document_and_the_exact_call(make_run):
    recorder = make_run().epochs(train_accuracy=[1.0] * 3, validation_accuracy=[0.75] * 3)
    text = diagnostic_report(recorder.run, GOAL, [])
    assert recommendations(text) == ["optimize"]
    assert "| 0.25 | 0.15 | share |" in text
    assert "`diagnostics/overfitting.md`" in text
    assert '`configure(project="digits", changes={"model.args.dropout": 0.2})`' in text


@pytest.mark.requirement("PHASE-4")
def test_a_run_without_any_metric_is_reported_as_it_is(make_run):
    text = diagnostic_report(make_run().run, GOAL, [])
    assert recommendations(text) == ["debug"]
    assert "not recorded" in text
