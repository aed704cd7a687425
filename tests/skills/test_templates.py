"""The three templates and the table of keys are what the schema says."""

from __future__ import annotations

import json
import re
from types import UnionType
from typing import Annotated, Union, get_args, get_origin

import pytest
from pydantic import BaseModel

from trainwright.tools.documents import SKILL
from trainwright.trainer.config import TrainingConfig, load_yaml, parse_config

CONFIGS = SKILL / "configs"
WORK = {"model": {"use": "mlp"}, "data": {"use": "digits"}}


def template(name):
    values = load_yaml((CONFIGS / f"{name}_template.yaml").read_text(encoding="utf-8"))
    return values, parse_config({**WORK, **values})


@pytest.mark.requirement("CONF-2")
def test_the_baseline_template():
    _, config = template("baseline")
    assert (config.optimizer.learning_rate, config.training.epochs) == (1e-3, 20)
    assert (config.early_stopping.enabled, config.early_stopping.patience_epochs) == (True, 10)
    assert config.training.validate_every_n_epochs == 1
    assert config.search is None


@pytest.mark.requirement("CONF-3")
def test_the_tuning_template():
    _, config = template("tuning")
    rate, batch = config.search.space["optimizer.learning_rate"], config.search.space["loader.batch_size"]
    assert (rate.type, rate.log, batch.type) == ("float", True, "categorical")
    assert rate.low < 1e-3 < rate.high, "the baseline's rate lies inside the search"
    assert config.loader.batch_size in batch.choices
    assert config.search.pruning.name == "successive_halving"
    assert config.search.confirmation_repeats >= 3


@pytest.mark.requirement("CONF-4")
def test_the_production_template():
    _, config = template("production")
    _, baseline = template("baseline")
    assert 100 <= config.training.epochs <= 200
    assert config.early_stopping.patience_epochs > baseline.early_stopping.patience_epochs
    assert config.deployment.formats == ["safetensors", "onnx"]


@pytest.mark.requirement("CONF-5")
@pytest.mark.parametrize("name", ["baseline", "tuning", "production"])
def test_every_template_says_which_checkpoints_are_kept(name):
    values, _ = template(name)
    assert values["checkpoints"]["checkpoint_every_n_epochs"] >= 1
    assert values["checkpoints"]["save_best"] is True
    assert values["checkpoints"]["save_last"] is True


@pytest.mark.parametrize("name", ["baseline", "tuning", "production"])
def test_a_template_leaves_the_work_to_the_project(name):
    values, _ = template(name)
    assert not {"model", "data", "task", "returns", "code_root", "selection"} & set(values)


def rows_of(model, prefix=""):
    """The schema's keys with their defaults and, of a section of several forms, the forms that take them."""
    for name, field in model.model_fields.items():
        forms = _forms(field.annotation)
        if len(forms) > 1:
            yield from _rows_of_forms(forms, field.get_default(call_default_factory=True), f"{prefix}{name}.")
        elif forms:
            yield from rows_of(forms[0], f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _default_of(field), None


def _rows_of_forms(forms, chosen, prefix):
    """Each key with each of its defaults once, the name first."""
    default = type(chosen) if chosen is not None else forms[0]
    yield f"{prefix}name", _default_of(default.model_fields["name"]), None
    takers = {}
    for form in forms:
        for key, default, _ in rows_of(form, prefix):
            if key != f"{prefix}name":
                takers.setdefault(key, {}).setdefault(default, []).append(form.model_fields["name"].default)
    for key, defaults in takers.items():
        for default, names in defaults.items():
            yield key, default, None if len(names) == len(forms) else names


def _default_of(field):
    return "required" if field.is_required() else json.dumps(field.get_default(call_default_factory=True))


def _forms(annotation):
    """The sections that a key may hold; none for a value."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    choices = [part for part in get_args(annotation) or (annotation,) if part is not type(None)]
    choices = [get_args(part)[0] if get_origin(part) is Annotated else part for part in choices]
    if len(choices) == 1 and get_origin(choices[0]) in {Union, UnionType}:
        return _forms(choices[0])  # a section of several forms, or null
    all_sections = all(isinstance(part, type) and issubclass(part, BaseModel) for part in choices)
    return choices if all_sections and get_origin(annotation) not in {list, dict} else []


@pytest.mark.requirement("CONF-1")
def test_the_documents_list_every_key_of_the_schema_with_its_default():
    listed, places = [], {}
    names = (
        "README.md", "adapters.md", "optimizers.md", "schedules.md", "averaging.md", "losses.md", "curriculum.md",
        "objective_keys.md", "environment.md", "distributed.md", "performance.md", "pipeline.md", "splits.md",
        "own_trainer.md", "monitoring.md", "trackers.md", "searches.md",
    )  # fmt: skip
    for document in names:
        text = (CONFIGS / document).read_text(encoding="utf-8")
        found = re.findall(r"^\| `([^`]+)` \| `([^`]*)` \| (\S.*) \|$", text, flags=re.MULTILINE)
        places |= {key: names.index(document) for key, _, _ in found}
        listed += found
    apart = {"freezing": 0.5}  # stands behind `optimizer` on one page, and before it in the schema
    rows = list(rows_of(TrainingConfig))
    assert {row[0] for row in rows} == set(places)
    rows.sort(key=lambda row: places[row[0]] + apart.get(row[0].split(".")[0], 0))
    assert [row[:2] for row in listed] == [row[:2] for row in rows]
    for (key, _, said), (_, _, forms) in zip(listed, rows, strict=True):
        assert forms is None or said.startswith(f"{', '.join(forms)}: "), key
