"""Changes are meant as they read: sections merge, and a new choice brings its own arguments."""

from __future__ import annotations

from typing import Any

import pytest

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import merge_changes, parse_config

VALUES: dict[str, Any] = {
    "model": {"use": "mlp", "args": {"hidden": [8], "dropout": 0.1}},
    "data": {"use": "iris", "args": {"standardize": False}, "split": {"validation": 0.2}},
    "optimizer": {"name": "sgd", "learning_rate": 0.1, "momentum": 0.9},
    "search": {"trials": 4, "space": {"optimizer.learning_rate": {"type": "float", "low": 0.1, "high": 1.0}}},
}


def laid(changes: dict[str, Any]) -> dict[str, Any]:
    return merge_changes(changes, VALUES, argument="changes").values


@pytest.mark.requirement("CONF-5")
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"optimizer": {"learning_rate": 0.01}}, {"name": "sgd", "learning_rate": 0.01, "momentum": 0.9}),
        ({"optimizer.learning_rate": 0.01}, {"name": "sgd", "learning_rate": 0.01, "momentum": 0.9}),
        ({"optimizer": {"momentum": None}}, {"name": "sgd", "learning_rate": 0.1}),
        ({"optimizer": {"name": "adamw"}}, {"name": "adamw", "learning_rate": 0.1}),
        ({"optimizer.name": "sgd"}, VALUES["optimizer"]),
    ],
)
def test_sections_merge_into_what_stands(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    merged = laid(changes)
    assert merged["optimizer"] == expected
    assert {key: merged[key] for key in merged if key != "optimizer"} == {
        key: VALUES[key] for key in VALUES if key != "optimizer"
    }
    parse_config(merged)


@pytest.mark.requirement("CONF-5")
def test_another_choice_brings_its_own_args() -> None:
    pictures = {"data.use": "digits"}
    assert laid({"model": {"use": "cnn"}, **pictures})["model"] == {"use": "cnn"}
    told = {"model.args.channels": [4], "model.use": "cnn", **pictures}
    assert laid(told)["model"] == {"use": "cnn", "args": {"channels": [4]}}
    assert laid({"data.use": "wine"})["data"] == {"use": "wine", "split": {"validation": 0.2}}


@pytest.mark.requirement("CONF-5")
def test_a_search_space_is_one_value() -> None:
    space = {"loader.batch_size": {"type": "categorical", "choices": [8, 16]}}
    assert laid({"search": {"space": space}})["search"] == {"trials": 4, "space": space}


@pytest.mark.requirement("CONF-5")
def test_what_was_asked_for_is_never_taken_out() -> None:
    """An option that the new choice does not take is the caller's mistake, and is refused."""
    with pytest.raises(ConfigurationError, match="momentum"):
        laid({"optimizer": {"name": "adamw", "momentum": 0.5}})


@pytest.mark.requirement("CONF-1", "GATE-2")
def test_of_two_ways_to_fix_a_clash_the_one_that_keeps_what_was_asked_for_is_named() -> None:
    averaging = {**VALUES, "optimizer": {"name": "schedule_free_adamw"}, "schedule": {"name": "constant"}}
    for changes, base in (
        ({"schedule.name": "cosine"}, averaging),
        ({"optimizer.name": "schedule_free_adamw"}, {**VALUES, "schedule": {"name": "cosine"}}),
    ):
        with pytest.raises(ConfigurationError) as caught:
            merge_changes(changes, base, argument="changes")
        assert changes.items() <= caught.value.details["amend"]["changes"].items()


@pytest.mark.requirement("CONF-1")
def test_folds_of_given_splits_are_refused_with_a_change_that_leads_on() -> None:
    split = {"by": "given", "column": "part"}
    base = {**VALUES, "data": {"use": "csv", "args": {"path": "t.csv", "target": "y"}, "split": split}}
    with pytest.raises(ConfigurationError) as caught:
        merge_changes({"data.split.folds": 5}, base, argument="changes")
    remedy = {"data.split.folds": 5, "data.split.by": "random", "data.split.column": None}
    assert caught.value.details["amend"]["changes"] == remedy
    merge_changes(remedy, base, argument="changes")
