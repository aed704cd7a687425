"""Every rule of the schema, with the key, the value, the rule and the nearest valid key in the error."""

# ruff: noqa: E501 - tables of one case a line read better than wrapped ones

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Callable
from typing import Any

import pytest

from trainwright.trainer.base.canonical import canonical_json
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import apply_changes, config_digest, dump_yaml, load_yaml, parse_config
from trainwright.trainer.optimization.optimizers import OPTIMIZERS

BASE: dict[str, Any] = {"model": {"use": "mlp"}, "data": {"use": "digits"}}

BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "unknown key": ({"optimizer.learning_rat": 1.0}, "unknown key `optimizer.learning_rat`; did you mean `optimizer.learning_rate`?"),
    "unknown section": ({"trainng": {}}, "did you mean `training`"),
    "unknown key in a union": ({"loss": {"us": "x"}}, "did you mean `loss.use`?"),
    "unknown key of a range": ({"search.space": {"a": {"type": "float", "low": 0.0, "hig": 1.0}}}, "did you mean `search.space.a.high`?"),
    "text for a number": ({"training.epochs": "ten"}, "`training.epochs` = 'ten'"),
    "number for a flag": ({"early_stopping.enabled": 1}, "`early_stopping.enabled` = 1"),
    "float for an integer": ({"loader.batch_size": 3.5}, "`loader.batch_size` = 3.5"),
    "zero epochs": ({"training.epochs": 0}, "greater than or equal to 1"),
    "negative rate": ({"optimizer.learning_rate": -1.0}, "greater than 0"),
    "infinite rate": ({"optimizer.learning_rate": float("inf")}, "finite"),
    "unknown optimizer": ({"optimizer.name": "admw"}, "`optimizer.name` = 'admw': must be one of " + ", ".join(OPTIMIZERS) + "; did you mean `adamw`?"),
    "optimizer that is no section": ({"optimizer": "sgd"}, "`optimizer` = 'sgd': a section is needed, for example {name: sgd}; its names: adamw, sgd"),
    "option of another optimizer": ({"optimizer.momentum": 0.5}, "`optimizer.momentum` is not taken by adamw, only by sgd, lars, muon, schedule_free_sgd, rmsprop; adamw takes betas,"),
    "unknown key of an optimizer": ({"optimizer": {"name": "lars", "trust_coeficient": 1.0}}, "unknown key `optimizer.trust_coeficient`; did you mean `optimizer.trust_coefficient`?"),
    "momentum of an optimizer": ({"optimizer": {"name": "muon", "momentum": 1.0}}, "`optimizer.momentum` = 1.0"),
    "unknown key of a group": ({"optimizer.groups": [{"patterns": ["a"], "weight_deca": 0.0}]}, "did you mean `optimizer.groups.0.weight_decay`?"),
    "group with nothing of its own": ({"optimizer.groups": [{"patterns": ["a"]}]}, "a group needs learning_rate"),
    "group with two rates": ({"optimizer.groups": [{"patterns": ["a"], "learning_rate": 0.1, "learning_rate_factor": 0.1}]}, "not both"),
    "layers without layer decay": ({"optimizer.layers": ["a"]}, "only with optimizer.layer_decay"),
    "unknown schedule": ({"schedule.name": "cosin"}, "did you mean `cosine`?"),
    "option of another schedule": ({"schedule": {"name": "constant", "final_fraction": 0.1}}, "`schedule.final_fraction` is not taken by constant, only by cosine, linear"),
    "schedule-free with a schedule": ({"optimizer.name": "schedule_free_sgd"}, "set schedule.name constant (it is cosine)"),
    "momentum cycle without momentum": ({"optimizer.name": "adafactor", "schedule": {"name": "one_cycle", "momentum_range": [0.8, 0.9]}}, "needs an optimizer with momentum or betas, not adafactor"),
    "momentum range upside down": ({"schedule": {"name": "one_cycle", "momentum_range": [0.9, 0.8]}}, "is (lowest, highest)"),
    "nesterov without momentum": ({"optimizer": {"name": "sgd", "momentum": 0.0, "nesterov": True}}, "optimizer.nesterov needs"),
    "nothing left to train on": ({"data.split": {"validation": 0.6, "test": 0.4}}, "must leave data to train on"),
    "share above one": ({"data.split": {"validation": 1.5}}, "`data.split.validation` = 1.5"),
    "range upside down": ({"search.space": {"a": {"type": "float", "low": 2.0, "high": 1.0}}}, "`low < high` must hold"),
    "log from zero": ({"search.space": {"a": {"type": "int", "low": 0, "high": 9, "log": True}}}, "low >= 1"),
    "bounds upside down": ({"search": {"space": {"seed": {"type": "int", "low": 0, "high": 9}}, "objectives": [{"metric": "parameters", "direction": "minimize", "at_least": 9, "at_most": 1}]}}, "`at_least <= at_most` must hold; got 9 and 1"),
    "one choice": ({"search.space": {"a": {"type": "categorical", "choices": [1]}}}, "`search.space.a.choices`"),
    "unknown range": ({"search.space": {"a": {"type": "flot"}}}, "a range is {type: float, low: …, high: …, log: true}"),
    "two ways": ({"task": {"use": "a:b"}}, "`task` hands over the model and the data itself"),
    "no way": ({"model": None}, "give `model` and `data`, or one `task`"),
    "too few repeats": ({"search": {"space": {"a": {"type": "int", "low": 1, "high": 2}}, "confirmation_repeats": 2}}, "greater than or equal to 3"),
    "unknown model": ({"model.use": "mlpp"}, "`model.use` = 'mlpp' is no built-in name; did you mean `mlp`?"),
    "unknown data": ({"data.use": "digts"}, "did you mean `digits`?"),
    "unknown loss": ({"loss": {"use": "cross_entrpy"}}, "`loss` = 'cross_entrpy' is no built-in name; did you mean `cross_entropy`?"),
    "unknown metric": ({"metrics": ["f1", "acuracy"]}, "did you mean `accuracy`?"),
    "a file alone": ({"model.use": "net.py"}, "\"path/file.py:callable\""),
    "epochs without end": ({"training.epochs": 1_000_001}, "less than or equal to 1000000"),
    "batch beyond memory": ({"loader.batch_size": 2**20 + 1}, "less than or equal to 1048576"),
    "steps without end": ({"training.max_steps": 2**40 + 1}, "less than or equal to"),
    "unknown format": ({"deployment.formats": ["onx"]}, "'torch_export' or 'torchscript'"),
}  # fmt: skip


@pytest.mark.requirement("CONF-1")
@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_rule_names_key_value_and_rule(fault: str) -> None:
    changes, told = BROKEN[fault]
    with pytest.raises(ConfigurationError) as caught:
        parse_config(apply_changes(BASE, changes))
    assert told in caught.value.message
    assert "configure(" in caught.value.remedy
    for tag in (".str", ".Entry", ".float.", ".int.", ".adamw", ".lars", ".muon", ".constant"):
        assert tag not in caught.value.message


NOT_PLAIN: dict[str, tuple[Any, str]] = {
    "not a number": (float("nan"), "`{key}` = nan: a number must be finite"),
    "infinite inside": ({"a": [1.0, {"b": float("-inf")}]}, "`{key}.a.1.b` = -inf: a number must be finite"),
    "a date": (dt.date(2026, 1, 2), "`{key}` = datetime.date(2026, 1, 2): a date is no JSON type"),
    "bytes": ([b"x"], "`{key}.0` = b'x': a bytes is no JSON type"),
    "a set": ({1}, "a set is no JSON type"),
    "a number as a key": ({1: 2}, "`{key}.1`: keys must be text"),
    "half a character": ("a\ud800", r"`{key}` = 'a\ud800': text must be Unicode"),
    "half a character in a key": ({"\ud800": 1}, r"`{key}.'\ud800'`: keys must be text"),
    "beyond 64 bits": (2**63, "`{key}` = 9223372036854775808: an integer must fit into 64 bits"),
    "beyond printing": (10**5000, "`{key}` = an integer of 16610 bits: an integer must fit"),
    "too deep": (functools.reduce(lambda inner, _: [inner], range(40), 0), "nests deeper than 32 levels"),
    "far too deep": (functools.reduce(lambda inner, _: {"a": inner}, range(5000), 0), "nests deeper than 32 levels"),
}  # fmt: skip
FREE_PARTS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "model.args.x": lambda value: {"model": {"use": "mlp", "args": {"x": value}}},
    "data.args.x": lambda value: {"data": {"use": "digits", "args": {"x": value}}},
    "task.args.x": lambda value: {"model": None, "data": None, "task": {"use": "a:b", "args": {"x": value}}},
    "loss.args.x": lambda value: {"loss": {"use": "a:b", "args": {"x": value}}},
    "metrics.0.args.x": lambda value: {"metrics": [{"use": "a:b", "args": {"x": value}}]},
    "search.space.a.choices.1": lambda value: {
        "search": {"space": {"a": {"type": "categorical", "choices": [1, value]}}}
    },
}


@pytest.mark.requirement("CONF-1", "GATE-5")
@pytest.mark.parametrize("key", FREE_PARTS)
@pytest.mark.parametrize("fault", NOT_PLAIN)
def test_free_parts_hold_plain_values_only_and_the_error_names_the_dotted_key(fault: str, key: str) -> None:
    value, told = NOT_PLAIN[fault]
    with pytest.raises(ConfigurationError) as caught:
        parse_config({**BASE, **FREE_PARTS[key](value)})
    assert told.replace("{key}", key) in caught.value.message
    assert "configure(" in caught.value.remedy
    assert caught.value.message.isascii() or "…" in caught.value.message
    canonical_json(caught.value.as_dict()).encode()  # so that the error itself can be told


@pytest.mark.requirement("CONF-1", "GATE-5")
@pytest.mark.parametrize("fault", NOT_PLAIN)
def test_a_change_to_a_value_that_is_not_plain_is_refused_before_it_is_copied(fault: str) -> None:
    value, told = NOT_PLAIN[fault]
    with pytest.raises(ConfigurationError) as caught:
        apply_changes(BASE, {"model.args.x": value})
    assert told.replace("{key}", "model.args.x") in caught.value.message


@pytest.mark.requirement("CONF-1")
def test_a_configuration_of_more_than_256_kib_is_refused_and_its_largest_part_named() -> None:
    with pytest.raises(ConfigurationError, match=r"longer than 262144 bytes .* `model` takes 300\d\d\d") as caught:
        parse_config({**BASE, "model": {"use": "mlp", "args": {"x": ["é" * 1000] * 150}}})
    assert "into a file under code_root" in caught.value.remedy


@pytest.mark.requirement("CONF-1")
def test_whatever_is_plain_is_kept_and_has_a_digest() -> None:
    args = {
        "a": [1, -(2**63), 2**63 - 1, 1e300, None, True, {"b": "é"}],
        "c": functools.reduce(lambda x, _: [x], range(25), 0),
    }
    config = parse_config({**BASE, "model": {"use": "a:b", "args": args}})
    assert config.model is not None
    assert config.model.args == args
    assert config_digest(config).startswith("blake3:")


@pytest.mark.requirement("CONF-1")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [1, 2", "not valid YAML"),
        ("- a\n- b", "it must be a mapping"),
        ("", "it must be a mapping"),
        ("a: 1\na: 2", "key given twice: a"),
        ("a: &x [1]\nb: *x", "aliases are not allowed"),
        ("a: !!python/object/apply:os.system ['true']", "not valid YAML"),
        ("{[1]: 2}", "not valid YAML"),
        ("a: " + "x" * 300_000, "longer than"),
        ("[" * 5000, "not valid YAML"),
        ("a: \x00", "not valid YAML"),
    ],
)
def test_crafted_or_corrupt_yaml_is_refused(text: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        load_yaml(text)


@pytest.mark.requirement("CONF-1")
def test_a_configuration_survives_yaml_and_its_digest_is_of_the_values() -> None:
    config = parse_config(apply_changes(BASE, {"optimizer.learning_rate": 1e-4}))
    again = parse_config(load_yaml(dump_yaml(config.model_dump(mode="json"))))
    assert again == config
    assert config_digest(again) == config_digest(config)
    assert config_digest(parse_config(BASE)) != config_digest(config)
    assert load_yaml("a: 1e-3") == {"a": 1e-3}


@pytest.mark.requirement("CONF-5", "CONF-2")
def test_a_configuration_keeps_best_and_last_unless_told_otherwise() -> None:
    config = parse_config(BASE)
    assert (config.checkpoints.save_best, config.checkpoints.save_last) == (True, True)
    assert (config.training.epochs, config.optimizer.learning_rate) == (20, 1e-3)


def test_changes_replace_single_keys_and_none_removes_them() -> None:
    values = apply_changes(BASE, {"model.args.hidden": [8], "data.use": "iris", "model.use": None})
    assert values["model"] == {"args": {"hidden": [8]}}
    assert BASE["data"]["use"] == "digits"
    with pytest.raises(ConfigurationError, match="not a dotted key"):
        apply_changes(BASE, {"a..b": 1})
    with pytest.raises(ConfigurationError, match="holds a single value"):
        apply_changes(BASE, {"model.use.name": 1})
