"""The planning documents are what is applied: rules of rates by size, an edit, and what a document may not say."""

from __future__ import annotations

import shutil

import pytest

from trainwright.tools.training_architect.documents import DOCUMENTS, load_rulebook
from trainwright.trainer.base.errors import ConfigurationError

FULL = {
    "task": "text_classification",
    "goal": "balanced",
    "start": "pretrained",
    "way": "full",
    "family": "transformers",
}


@pytest.mark.requirement("ARCH-2")
@pytest.mark.parametrize(
    ("parameters", "least", "most"),
    [
        (2e7, 5e-5, 1e-4),
        (4.9e8, 5e-5, 1e-4),
        (5e8, 1e-5, 5e-5),
        (2.9e9, 1e-5, 5e-5),
        (3e9, 5e-6, 1e-5),
        (7e10, 5e-6, 1e-5),
    ],
)
def test_the_rate_of_full_fine_tuning_falls_with_the_size(parameters, least, most):
    book = load_rulebook()
    rule = book.rule_for("optimizer.learning_rate", {**FULL, "parameters": parameters})
    assert least <= rule.decided({**FULL, "parameters": parameters}) <= most
    warmup = book.rule_for("schedule.warmup_fraction", FULL)
    assert {0.05 <= warmup.decided({**FULL, "goal": goal}) <= 0.1 for goal in ("fastest", "best_quality")} == {True}


@pytest.mark.requirement("ARCH-2")
def test_an_edited_document_is_what_holds(tmp_path):
    folder = shutil.copytree(DOCUMENTS, tmp_path / "planning")
    page = folder / "learning_rate.md"
    page.write_text(page.read_text().replace("value: 1.0e-3", "value: 2.0e-3"))
    rule = load_rulebook(folder).rule_for("optimizer.learning_rate", {"start": "scratch", "family": "table"})
    assert rule.decided({}) == 2e-3
    for old, new, word in (
        ("{start: scratch, family:", "{beginning: scratch, family:", "unknown fact 'beginning'"),
        ("key: optimizer.weight_decay", "key: optimizer.weight_decline", "no key"),
        ("value: adamw", "value: adamw\n    fact: rows", "exactly one"),
        ("({parameters} parameters)", "({parametres} parameters)", "unknown fact 'parametres'"),
    ):
        text = page.read_text()
        assert old in text
        page.write_text(text.replace(old, new, 1))
        with pytest.raises(ConfigurationError, match=word):
            load_rulebook(folder)
        page.write_text(text)


@pytest.mark.requirement("ARCH-1")
def test_every_rule_names_its_source_and_every_configuration_key_gets_a_value():
    book = load_rulebook()
    assert len({rule.id for rule in book.rules}) == len(book.rules)
    assert all(rule.source and rule.why for rule in book.rules)
    for key in ("optimizer.learning_rate", "schedule.name", "training.epochs", "loss", "training.precision"):
        assert book.rule_for(key, {"goal": "fastest"}), f"{key} has a rule without a condition"
