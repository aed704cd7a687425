"""The documents are what is enforced: read strictly, and nothing else decides."""

from __future__ import annotations

import pytest

from trainwright.tools.training_monitor import DOCUMENTS, diagnose, load_diagnostics
from trainwright.trainer.base.errors import ConfigurationError, NotFoundError


def change(documents, name, old, new):
    path = documents / f"{name}.md"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.mark.requirement("DIAG-8")
def test_the_six_required_diagnostics_have_their_thresholds():
    found = {d.requirement: d.triggers[0] for d in load_diagnostics()}
    thresholds = {name: (trigger.comparison, trigger.threshold) for name, trigger in found.items() if name != "DIAG-7"}
    assert thresholds == {
        "DIAG-1": ("above", 0),
        "DIAG-2": ("above", 0.15),
        "DIAG-3": ("above", 100),
        "DIAG-4": ("below", 0.001),
        "DIAG-5": ("below", 70),
        "DIAG-6": ("at_least", 10),
    }


@pytest.mark.requirement("DIAG-8")
def test_a_number_changed_in_the_document_changes_what_the_monitor_does(make_run, documents):
    run = make_run().steps("train/gradient_norm", [50.0] * 10).run
    assert diagnose(run, documents) == []
    change(documents, "exploding_gradients", "threshold: 100", "threshold: 40")
    (alert,) = diagnose(run, documents)
    assert (alert.id, alert.threshold) == ("exploding_gradients", 40)


@pytest.mark.requirement("DIAG-8")
def test_a_fix_changed_in_the_document_changes_what_is_proposed(make_run, documents):
    run = make_run().steps("train/gradient_norm", [500.0] * 10).run
    change(documents, "exploding_gradients", "training.clip_norm: {lower_to: 1.0}", "training.clip_norm: {set: 0.5}")
    (alert,) = diagnose(run, documents)
    assert alert.fixes[0].changes == {"training.clip_norm": 0.5}


@pytest.mark.requirement("DIAG-8")
@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("signal: applied_gradient_norm", "signal: gradient_size", "gradient_size"),
        ("training.clip_norm:", "training.clip_normal:", "training.clip_normal"),
        ("optimizer.learning_rate: {multiply: 0.1}", "optimizer.learning_rate: {multiply: 0.1, add: 1}", "exactly one"),
        ("comparison: above", "comparison: over", "comparison"),
        ("threshold: 100", "threshold: high", "threshold"),
        ("window: 200", "window: 2", "points"),
        ("{measured:.4g}", "{value}", "message"),
        ("severity: warning", "severity: warning\nurgent: true", "urgent"),
        ("requirement: DIAG-3", "requirement: DIAGNOSTICS", "requirement"),
        ("id: exploding_gradients", "id: exploding", "file and id must agree"),
    ],
)
def test_a_document_that_does_not_fit_is_refused_by_name(make_run, documents, old, new, named):
    change(documents, "exploding_gradients", old, new)
    with pytest.raises(ConfigurationError) as caught:
        diagnose(make_run().run, documents)
    assert named in caught.value.message
    assert "exploding_gradients.md" in caught.value.message


def test_an_empty_folder_is_an_error_and_not_a_clean_bill_of_health(make_run, tmp_path):
    (tmp_path / "none").mkdir()
    with pytest.raises(NotFoundError, match="holds no diagnostic documents"):
        diagnose(make_run().run, tmp_path / "none")


def test_the_index_lists_every_document_with_its_requirement_and_severity():
    index = (DOCUMENTS / "README.md").read_text(encoding="utf-8")
    for diagnostic in load_diagnostics():
        row = f"| [{diagnostic.id}]({diagnostic.id}.md) | {diagnostic.requirement} | {diagnostic.severity} |"
        assert row in index


@pytest.mark.parametrize("diagnostic", load_diagnostics(), ids=lambda diagnostic: diagnostic.id)
def test_a_document_says_causes_or_meaning_and_fix_to_its_reader(diagnostic):
    text = (DOCUMENTS / f"{diagnostic.id}.md").read_text(encoding="utf-8")
    assert f"# {diagnostic.title}\n" in text
    assert "\n## Fix" in text
    assert len(text.splitlines()) < 90
