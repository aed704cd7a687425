"""What a broken configuration is answered with: words of its own keys, a call that mends it, the document that fits."""

# ruff: noqa: E501 - tables of one case a line read better than wrapped ones

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import pytest
from annotated_types import BaseMetadata
from pydantic import BaseModel

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.catalog.names import BUILT_IN
from trainwright.trainer.config import TrainingConfig, apply_changes, merge_changes, parse_config
from trainwright.trainer.config.error_text import EXPLAINED_IN, OVERVIEW, document_for

BASE: dict[str, Any] = {"model": {"use": "mlp"}, "data": {"use": "digits"}}
SKILL = Path(__file__).parents[3] / "skills" / "ml-trainer"

MENDED: dict[str, tuple[dict[str, Any], str, dict[str, Any] | None]] = {
    "a flag for a choice": ({"mixing": True}, "for example {name: mixup}, or null for none; its names: mixup, cutmix", {"mixing.name": "mixup"}),
    "a number for a choice of forms": ({"loss": 3, "seed": 3}, "`loss` = 3: Input should be a valid string or a section of keys", {"seed": 3}),
    "a number for ranges": ({"search": {"space": 3}, "seed": 3}, "a mapping of names to sections is needed", None),
    "a near key": ({"optimizer.learning_rat": 0.5}, "did you mean `optimizer.learning_rate`?", {"optimizer.learning_rate": 0.5}),
    "a near argument": ({"model.args": {"hiden": [8]}}, "did you mean `model.args.hidden`?", {"model.args.hidden": [8]}),
    "a key of two sections": ({"full_after_epochs": 2, "seed": 3}, "did you mean `curriculum.full_after_epochs` or `progressive_resizing.full_after_epochs`?", None),
    "nothing alike": ({"epsilom_greedy": 16, "seed": 3}, "known: adapter, ", {"seed": 3}),
    "an unknown name in a list": ({"metrics": ["f1", "acuracy"]}, "did you mean `accuracy`?", {"metrics": ["f1", "accuracy"]}),
    "an unknown name under use": ({"loss": {"use": "cross_entrpy"}}, "did you mean `cross_entropy`?", {"loss.use": "cross_entropy"}),
    "a range without its type": ({"search": {"space": {"dropout": 3}}}, "a range is {type: float, low: …, high: …, log: true}", None),
    "beside good ones": ({"training.epochs": 0, "seed": 3}, "`training.epochs` = 0", {"seed": 3, "training.epochs": 1}),
    "an option of another form": ({"optimizer": {"name": "sgd", "betas": [0.9, 0.9]}}, "is not taken by sgd", {"optimizer.name": "sgd"}),
    "what is missing": ({"objective.name": "adversarial"}, "`objective.epsilon` is required, and missing", None),
    "a rule between sections": ({"schedule.warmup_steps": 50, "training.max_steps": 50}, "schedule.warmup_steps 50 never ends: training.max_steps is 50", {"training.max_steps": 50, "schedule.warmup_steps": 5}),
    "a key below a single value": ({"training.epochs.most": 5, "seed": 3}, "goes through `epochs`, which holds a single value", {"seed": 3}),
    "a key given twice": ({"lr": 0.1, "optimizer.learning_rate": 0.2}, "`optimizer.learning_rate` is given twice: 0.1 as `lr`, 0.2 as `optimizer.learning_rate`", {"optimizer.learning_rate": 0.2}),
}  # fmt: skip


@pytest.mark.requirement("CONF-1", "GATE-2")
@pytest.mark.parametrize("fault", MENDED)
def test_a_broken_key_is_answered_with_the_changes_that_mend_it(fault: str) -> None:
    given, told, mended = MENDED[fault]
    base = apply_changes(BASE, {"training.epochs": 20})
    with pytest.raises(ConfigurationError) as caught:
        merge_changes(given, base, argument="changes")
    assert told in caught.value.message
    amend = caught.value.details.get("amend")
    assert amend == (None if mended is None else {"changes": mended})
    if mended is None:
        assert caught.value.remedy.startswith("Make the same call with `")
        assert "…" not in caught.value.remedy, "no call is proposed that cannot be made as it stands"
    else:
        assert caught.value.remedy == f"The same call with changes={json.dumps(mended)}."
        merge_changes(mended, base, argument="changes")


TAKEN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "training.epochs \"10\" taken as 10": ({"training.epochs": "10"}, {"training.epochs": 10}),
    "lr \"1e-3\" taken as optimizer.learning_rate 0.001": ({"lr": "1e-3"}, {"optimizer.learning_rate": 0.001}),
    "optimizer \"AdamW\" taken as {\"name\": \"adamw\"}": ({"optimizer": "AdamW"}, {"optimizer.name": "adamw"}),
    "metrics \"accuracy\" taken as [\"accuracy\"]": ({"metrics": "accuracy"}, {"metrics": ["accuracy"]}),
    "model.hidden [8] taken as model.args.hidden": ({"model.hidden": [8]}, {"model.args.hidden": [8]}),
    "training.compile true taken as {}": ({"training.compile": True}, {"training.compile": {}}),
    "early_stopping false taken as {\"enabled\": false}": ({"early_stopping": False}, {"early_stopping.enabled": False}),
}  # fmt: skip


@pytest.mark.requirement("CONF-1")
@pytest.mark.parametrize("note", TAKEN)
def test_what_has_one_reading_is_taken_as_meant_and_said_so(note: str) -> None:
    given, changes = TAKEN[note]
    settled = merge_changes(given, BASE, argument="changes")
    assert (settled.notes, settled.changes) == ([note], changes)


@pytest.mark.requirement("CONF-1")
def test_what_is_written_in_the_schemas_own_words_is_kept_as_it_is() -> None:
    own = {"optimizer.name": "sgd", "optimizer.momentum": 0.5, "model.args.hidden": [8], "training.compile": None}
    settled = merge_changes(own, BASE, argument="changes")
    assert (settled.notes, settled.changes) == ([], own)


@pytest.mark.requirement("CONF-1")
def test_a_new_form_leaves_out_what_only_the_old_one_took_and_says_so() -> None:
    base = apply_changes(BASE, {"optimizer.name": "adamw", "optimizer.betas": [0.9, 0.95], "optimizer.eps": 1e-6})
    settled = merge_changes({"optimizer.name": "lion"}, base, argument="changes")
    assert settled.values["optimizer"] == {"name": "lion", "betas": [0.9, 0.95]}
    assert settled.notes == ["optimizer.eps 1e-06 of before left out: lion does not take it"]


@pytest.mark.requirement("CONF-1")
def test_the_one_table_names_keys_and_parts_that_exist_and_nothing_twice_in_a_section() -> None:
    from trainwright.trainer.base.errors import folded
    from trainwright.trainer.config import key_aliases

    everywhere = {key for key, _, _ in KEYS} | {f"{of}.args.{key}" for of in PARTS for s in PARTS[of] for key in s}
    everywhere |= {f"data.args.{key}" for part in BUILT_IN["data.use"].values() for key, _, _ in _fields(part)}
    assert not [key for key in key_aliases.KEYS if key not in everywhere]
    meant: dict[tuple[str, str], str] = {}
    for key, names in key_aliases.KEYS.items():
        for name in map(folded, names):
            assert meant.setdefault((key.rpartition(".")[0], name), key) == key


PARTS = {of: [list(part.model_fields) for part in BUILT_IN[key].values()] for of, key in (("model", "model.use"), ("data", "data.use"), ("loss", "loss"))}  # fmt: skip


def _fields(model: type[BaseModel], path: str = "", forms: dict[str, Any] | None = None) -> Iterator[Any]:
    """Yield (dotted key, annotation with its rules, names of the forms that it belongs to) of every key."""
    named = model.model_fields["name"].default if "name" in model.model_fields else None
    forms = {**(forms or {}), **({f"{path}name": named} if isinstance(named, str) else {})}
    for name, about in model.model_fields.items():
        annotation = Annotated[about.annotation, *about.metadata] if about.metadata else about.annotation
        yield f"{path}{name}", annotation, forms
        for inner in _sections(about.annotation):
            yield from _fields(inner, f"{path}{name}.", forms)


def _sections(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _sections(argument)


KEYS = list(_fields(TrainingConfig))
ODD: tuple[Any, ...] = (True, False, "x", -1, 2**60, 1.5, [], [True], {"zz": 1}, [[1]])


@pytest.mark.slow
@pytest.mark.requirement("CONF-1")
def test_no_answer_shows_our_class_names_or_python_types() -> None:
    """Every key of the schema gets every odd value."""
    refused = 0
    for key, _, forms in KEYS:
        for value in ODD:
            told = _refusal({**forms, key: value})
            refused += told is not None
            assert not OF_OURS.search(told or ""), told
            assert told is None or re.search(r"configure\(|Put what", told), told
    assert refused > 2 * len(KEYS)


OF_OURS = re.compile(r"Section|instance of|dictionary|tuple|Args\b|function-|Entry\b|tagged")


def _refusal(changes: dict[str, Any]) -> str | None:
    try:
        parse_config(apply_changes(BASE, changes))
    except ConfigurationError as error:
        return f"{error.message} {error.remedy}"
    return None


def _numbers(annotation: Any, rules: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the rules of every number in an annotation."""
    if get_origin(annotation) is Annotated:
        inner, *own = get_args(annotation)
        yield from _numbers(inner, (*rules, *own))
    elif annotation in {int, float}:
        yield rules
    elif not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        for argument in get_args(annotation):
            yield from _numbers(argument, rules)


def _bounds(rules: tuple[Any, ...]) -> set[str]:
    flat = [part for rule in rules for part in (getattr(rule, "metadata", None) or [rule])]
    names = {"ge": "low", "gt": "low", "le": "high", "lt": "high"}
    return {names[name] for rule in flat if isinstance(rule, BaseMetadata) for name in names if hasattr(rule, name)}


FREE = {
    "search.space.low",
    "search.space.high",
    "objective.clip_range",
    "evaluation_gate.minimum",
    "evaluation_gate.maximum",
    "evaluation_gate.least_gain",
    "evaluation_gate.slices",
    "evaluation_gate.groups",
    "data.split.borders",
}
"""Ends of a range are held against the key's own bounds; inputs may have any scale."""
ANY_SCALE = "data.expectations."
"""As data, of which these are the bounds."""


@pytest.mark.requirement("CONF-1")
def test_every_number_has_a_lowest_and_a_highest_value() -> None:
    arguments = [field for parts in BUILT_IN.values() for section in parts.values() for field in _fields(section)]
    unbounded = {
        key
        for key, annotation, _ in KEYS + arguments
        for rules in _numbers(annotation)
        if _bounds(rules) != {"low", "high"}
    }
    assert {key for key in unbounded if not key.startswith(ANY_SCALE)} == FREE


@pytest.mark.requirement("CONF-1")
@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize(
    "key",
    [
        "optimizer.learning_rate",
        "optimizer.weight_decay",
        "objective.clip_range",
        "model.args.dropout",
        "search.space.a.high",
    ],
)
def test_a_number_that_is_not_finite_is_refused_anywhere(key: str, value: float) -> None:
    with pytest.raises(ConfigurationError, match="a number must be finite") as caught:
        parse_config(apply_changes(BASE, {key: [value] if key.endswith("range") else value}))
    assert f"`{key}" in caught.value.message


@pytest.mark.requirement("CONF-1")
def test_the_document_of_a_key_tells_of_it() -> None:
    for key, _, _ in KEYS:
        text = (SKILL / document_for([key])).read_text()
        section = key.partition(".")[0]
        assert f"`{section}" in text or f"{section}:" in text or f"{section}." in text, key
    assert all((SKILL / document).is_file() for document in EXPLAINED_IN.values())
    assert document_for(["training.compile.mode"]) == "configs/performance.md"
    assert document_for([]) == document_for(["seed"]) == OVERVIEW
