"""What needs no training: names of versions, aliases by their moves, rows read for an earlier program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from trainwright.tools import ledger, registry
from trainwright.tools.ledger.aliases import aliases_after, archived_after, way_back
from trainwright.tools.ledger.events import ModelPromoted
from trainwright.tools.registry import comparing, promoting
from trainwright.tools.registry.comparing import Asked, Comparison, Difference, KeptRows, OnRows, require_same_question
from trainwright.tools.registry.encodings import recoding
from trainwright.tools.registry.promoting import not_worse
from trainwright.tools.registry.versions import Registered, registered
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import (
    ConfigurationError,
    ConflictError,
    GateRefusedError,
    IntegrityError,
    NotFoundError,
)
from trainwright.trainer.clean_room.recoded import Recoded
from trainwright.trainer.clean_room.rows import RefusalError
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.run.evidence import Data
from trainwright.trainer.run.split_rows import Became, Unseen

At = Callable[[str], Workspace]
pytestmark = pytest.mark.requirement("REG-1")


def moves(*steps: tuple[str, int | None]) -> list[ModelPromoted]:
    return [
        ModelPromoted(alias=alias, version=version, before=before, outcome="moved", by="x")
        for place, (alias, version) in enumerate(steps)
        for before in [next((one for name, one in reversed(steps[:place]) if name == alias), None)]
    ]


def versions(*steps: tuple[str, int | None]) -> Registered:
    return Registered("churn", "accuracy", dict.fromkeys(range(1, 6), (0, None)), moves(*steps))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "version"),
    [("2", 2), ("v2", 2), ("churn@v2", 2), (" staging ", 4), ("churn@production", 3), ("latest", 5), ("previous", 1)],
)
def test_a_version_is_found_by_number_alias_and_place(name: str, version: int) -> None:
    assert versions(("production", 1), ("staging", 4), ("production", 3)).version(name) == version


@pytest.mark.parametrize("name", ["v6", "canary", "other@v2", "v2; rm", "", "previous", "v" + "9" * 5000])
def test_an_unknown_version_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(NotFoundError, match="has no version") as met:
        versions(("production", 1)).version(name)
    assert "v1, v2, v3, v4, v5, production" in met.value.remedy


def test_previous_is_what_the_last_move_replaced_however_often_it_was_there() -> None:
    steps = [("production", version) for version in (2, 1, 2)]
    assert versions(*steps).version("previous") == 1
    assert versions(*steps, ("staging", 4), ("production", 1)).version("previous") == 2


def test_an_alias_names_one_version_and_archived_is_a_mark_that_another_alias_takes_back() -> None:
    done = moves(
        ("production", 1), ("archived", 1), ("archived", 2), ("production", 3), ("canary", 3), ("canary", None)
    )
    assert aliases_after(done) == {"production": 3}
    assert archived_after(done) == {1, 2}
    assert archived_after([*done, *moves(("staging", 2))]) == {1}


def test_a_promotion_is_taken_back_freely_and_not_put_there_again() -> None:
    *done, back = moves(("production", 1), ("production", 2), ("production", 1))
    assert way_back(done, "production") == 1
    assert way_back([*done, back.model_copy(update={"back": True})], "production") is None
    assert way_back(done[:1], "production") is None
    assert way_back(done, "staging") is None


@pytest.mark.parametrize(
    ("difference", "interval", "counts", "max_drop", "holds"),
    [
        (-0.02, (-0.05, 0.01), (100, 0), None, True),
        (-0.05, (-0.09, -0.01), (100, 0), None, False),
        (-0.05, None, (100, 0), None, False),
        (None, None, (100, 0), None, False),
        (0.0, (-0.6, 0.6), (5, 0), None, True),
        (0.0, (-0.6, 0.6), (5, 60), None, False),
        (-0.005, (-0.009, -0.001), (9000, 0), 0.02, True),
        (0.05, (-0.04, 0.14), (100, 0), 0.02, False),
        (-0.05, (-0.09, -0.01), (100, 0), 1.0, True),
    ],
)
@pytest.mark.parametrize("maximize", [True, False])
def test_a_split_holds_where_it_does_not_show_the_second_to_be_worse_or_shows_it_within_the_owners_bound(
    difference: float | None, interval: tuple[float, float] | None, counts: tuple[int, int], max_drop: float | None,
    *, holds: bool, maximize: bool,
) -> None:  # fmt: skip
    ends = sorted(interval) if interval and maximize else sorted(-end for end in interval) if interval else None
    left = {"v1 was trained on them": counts[1]} if counts[1] else {}
    one = OnRows(
        rows=counts[0], left_out=left, first={"m": 0.8}, second={"m": 0.8}, interval=ends,
        difference=difference if difference is None or maximize else -difference,
    )  # fmt: skip
    compared = Comparison(project="p", first="v1", second="v2", metric="m", rows_of="v2", splits={"test": one})
    checks = not_worse(compared, "test", max_drop, maximize=maximize)
    assert {check.check for check in checks} == {"not_worse_on_test"}
    assert all(check.passed for check in checks) is holds


def test_a_comparison_without_the_rows_that_decide_does_not_pass() -> None:
    one = OnRows(rows=50, first={"m": 0.8}, second={"m": 0.8}, interval=[-0.1, 0.1], difference=0.0)
    head = {"project": "p", "first": "v1", "second": "v2", "metric": "m"}
    checks = not_worse(Comparison(**head, splits={"validation": one}), "test", None, maximize=True)
    assert [(check.check, check.passed) for check in checks] == [
        ("not_worse_on_validation", True),
        ("not_worse_on_test", False),
    ]
    worse = {"rows": 20, "difference": -0.3, "interval": [-0.5, -0.1], "verdict": "not told apart (3 rows)"}
    slices = {"plan=family": worse, "plan=basic": worse | {"interval": [-0.5, 0.1]}}
    tested = one.model_copy(update={"slices": {name: Difference(**each) for name, each in slices.items()}})
    *_, check = not_worse(Comparison(**head, splits={"test": tested}), "test", None, maximize=True)
    assert (check.check, check.passed) == ("not_worse_on_slice", False)
    assert check.measured == "test, plan=family: -0.3 (-0.5 to -0.1), not told apart (3 rows), on 20 rows"
    (none,) = not_worse(Comparison(**head, not_compared="why not"), "test", None, maximize=True)
    assert (none.passed, none.measured) == (False, "nothing, for they cannot be compared: why not")


def beside(**more: Any) -> Comparison:
    """v2, released later, beside v1: alike on 50 test rows."""
    one = OnRows(rows=50, first={"m": 0.8}, second={"m": 0.8}, interval=[-0.1, 0.1], difference=0.0)
    head: dict[str, Any] = {"project": "p", "first": "v1", "second": "v2", "metric": "m", "rows_of": "v2"}
    return Comparison(**head | {"splits": {"test": one}} | more)


def failed(compared: Comparison, max_drop: float | None = None) -> list[tuple[str, str]]:
    checks = not_worse(compared, "test", max_drop, maximize=True)
    return [(check.check, check.measured) for check in checks if not check.passed]


def test_rows_that_were_added_outvote_none_of_those_that_tested_the_version_in_production() -> None:
    own = Difference(rows=60, interval=[-1.0, -0.8], difference=-0.9, verdict="worse")
    swamped = beside(on_tested=own)
    measured = "test rows of v1: m -0.9 (-1 to -0.8), worse, on 60 rows that neither trained on"
    assert failed(swamped) == [("not_worse_on_kept_rows", measured)]
    assert "On the 60 rows that tested v1 it is worse: -0.9 (-1 to -0.8)." in swamped.in_words()
    near = own.model_copy(update={"interval": [-0.03, -0.01]})
    assert failed(beside(on_tested=near)), "worse by the whole interval"
    assert failed(beside(on_tested=near), max_drop=0.2) == [], "and by less than a fifth of 0.8"


def test_a_version_that_lost_on_the_rows_that_tested_the_other_is_not_proposed() -> None:
    better = OnRows(
        rows=50, first={"m": 0.8}, second={"m": 0.9}, interval=[0.01, 0.1], difference=0.1, verdict="better"
    )
    for verdict, tool in (("worse", "models"), ("better", "promote_model")):
        own = Difference(rows=60, interval=[-1.0, -0.8], difference=-0.9, verdict=verdict)
        assert comparing.followed_by(beside(splits={"test": better}, on_tested=own)).tool == tool
    assert beside(splits={"test": better}).in_words().endswith("difference +0.1 (+0.01 to +0.1).")


def test_rows_to_train_on_later_are_kept_where_time_splits_them() -> None:
    unseen = Unseen({}, {}, Became(same=40, moved=18, changed=1, columns=("a", "b", "c", "d"), gone=1))
    told = [str(comparing.kept_rows(unseen, are_for_training_later=later)) for later in (True, False)]
    others = "1 hold other values in a, b, c …, 1 are gone: test rows"
    assert told == [
        f"58 of 60 are as they were, {others}",
        f"40 of 60 are as they were, 18 are for training or validation now, {others}",
    ]
    drawn = comparing.kept_rows(unseen._replace(are_drawn=True), are_for_training_later=True)
    assert str(drawn).endswith("recorded test rows")


def test_time_splits_two_versions_alike_where_no_border_is_fixed() -> None:
    def config(**split: Any) -> TrainingConfig:
        data = {"use": "csv", "args": {"path": "rows.csv", "target": "y"}, "split": split}
        return TrainingConfig.model_validate({"model": {"use": "mlp"}, "data": data})

    by_time = config(by="time", time="day")
    assert comparing.are_split_by_time_alike([by_time, config(by="time", time="day")])
    others = (config(by="time", time="hour"), config(by="random"), TrainingConfig(task={"use": "a.py:build"}))
    assert not any(comparing.are_split_by_time_alike([by_time, other]) for other in others)
    fixed = config(by="time", time="day", borders=["2026-01-01", "2026-02-01"])
    assert not comparing.are_split_by_time_alike([fixed, fixed])
    assert not comparing.are_split_by_time_alike([config(), config()])


def test_a_few_rows_that_are_left_of_many_say_how_many_are_needed() -> None:
    few = beside().splits["test"].model_copy(update={"rows": 20, "left_out": {"v1 was trained on them": 60}})
    told = "20 rows, and at least 30 are needed where others are left out"
    assert failed(beside(splits={"test": few})) == [("not_worse_on_test", told)]
    assert failed(beside(splits=beside().splits | {"validation": few})) == [], "test rows decide"


def test_a_later_version_keeps_the_rows_that_tested_the_one_it_is_to_replace() -> None:
    gone = beside(tested=KeptRows(rows=100, kept=94, instead={"are gone": 6}), slices_gone=["plan=family"])
    assert failed(gone) == [
        ("not_worse_on_slice", "plan=family: no row of the later version is in it"),
        ("rows_kept", "94 of 100 are as they were, 6 are gone: test rows of v1"),
    ]
    assert failed(beside(tested=KeptRows(rows=100, kept=95, instead={"are gone": 5}))) == []
    assert gone.in_words().endswith("But 94 of 100 are as they were, 6 are gone: test rows of v1.")
    assert "not as they were" in comparing.followed_by(gone).why
    older = gone.model_copy(update={"rows_of": "v1", "slices_gone": []})
    assert failed(older) == [], "rows of the version in production favour no older one"


def test_versions_of_two_losses_have_no_loss_in_common_and_of_two_attacks_no_robust_accuracy() -> None:
    first: dict[str, Any] = {"loss": {"name": "cross_entropy", "args": {"smoothing": 0.0}}, "attack": {"steps": 3}}
    second = {"loss": first["loss"] | {"args": {"smoothing": 0.95}}, "attack": {"steps": 1}}
    require_same_question(first, second, "accuracy", "v1")
    require_same_question(first, dict(first), "loss", "v1")
    for metric in ("loss", "robust_accuracy"):
        with pytest.raises(ConflictError, match="is of another"):
            require_same_question(first, second, metric, "v1")


@pytest.mark.parametrize("maximize", [True, False])
def test_few_rows_show_no_version_better_or_worse_and_the_interval_keeps_the_worse_one_out(*, maximize: bool) -> None:
    sign, table = 1 if maximize else -1, {"only_first": 0, "only_second": 4}
    later = {"rows": 110, "classes": table, "intervals": {"accuracy": sorted(sign * end for end in (-0.07, -0.01))}}
    direction = "maximize" if maximize else "minimize"
    down, up = (
        Asked("accuracy", direction, ("v2", "v1"), second_is_later=is_later).of(later, -0.036 * sign)
        for is_later in (True, False)
    )
    few = "not told apart (0 rows right by v2 alone, 4 by v1 alone: McNemar's exact test, p = 0.125)"
    assert (down["verdict"], up["verdict"]) == (few, few)
    assert down["interval"] == [-end for end in reversed(up["interval"])] == later["intervals"]["accuracy"]
    head = {"project": "p", "first": "v1", "second": "v2", "metric": "accuracy"}
    for told, holds in ((down, False), (up, True)):
        one = OnRows(rows=110, first={"accuracy": 0.8}, second={"accuracy": 0.8}, **told)
        (check,) = not_worse(Comparison(**head, splits={"test": one}), "test", None, maximize=maximize)
        assert check.passed is holds
    shown = Asked("accuracy", direction, ("v2", "v1"), second_is_later=True)
    assert shown.of(later | {"classes": {"only_first": 0, "only_second": 6}}, 0.0)["verdict"] == "worse"
    assert shown.of({"rows": 9}, 0.0)["verdict"] == "no interval can be computed"


def test_what_a_comparison_shows_is_one_sentence_on_the_split_that_decides() -> None:
    head = {"project": "p", "first": "v1", "second": "v2"}
    figures: dict[str, Any] = {"first": {"accuracy": 111 / 131}, "second": {"accuracy": 109 / 131}}
    one = OnRows(rows=131, difference=-2 / 131, interval=[-0.06, 0.03], verdict="not told apart", **figures)
    compared = Comparison(**head, metric="accuracy", splits={"validation": one, "test": one})
    assert compared.in_words() == (
        "v2 is not shown better than v1: accuracy 0.8321 (109 right) against 0.8473 (111 right) "
        "on 131 test rows that neither trained on, difference -0.01527 (-0.06 to +0.03)."
    )
    losses: dict[str, Any] = {"first": {"loss": 0.5}, "second": {"loss": 0.4}}
    lower = OnRows(rows=9, difference=-0.1, interval=[-0.2, -0.05], verdict="better", **losses)
    told = Comparison(**head, metric="loss", splits={"validation": lower}).in_words()
    assert told.startswith("v2 is shown better than v1: loss 0.4 against 0.5 on 9 validation rows")
    unknown = lower.model_copy(update={"difference": None, "verdict": "nothing"})
    assert Comparison(**head, metric="f", splits={"test": unknown}).in_words().endswith("on 9 test rows: nothing.")
    few = one.model_copy(update={"verdict": "not told apart (0 rows right by v2 alone, 4 by v1 alone: …)"})
    assert few.verdict[16:-1] in Comparison(**head, metric="accuracy", splits={"test": few}).in_words()
    none = Comparison(**head, metric="f", not_compared="both are v1").in_words()
    assert none == "v2 could not be compared with v1: both are v1."


def of_columns(places: dict[str, int], categories: dict[str, list[str]], **more: Any) -> Data:
    """Data whose columns are numbers, or categories where these have values."""
    wide = more.get("wide", {})
    kinds = [
        {"name": name, "kind": "category" if name in categories else "text" if name in wide else "number"}
        for name in {**places, **wide}
    ]
    width = len(places) + sum(width for _, width in wide.values())
    return Data.model_validate(
        {"columns": kinds, "places": places, "categories": categories, "input": {"shape": [width]}, **more}
    )


class Seen:
    """A program that answers with its inputs."""

    batch, versions = None, {}

    def __call__(self, inputs: Any) -> Any:
        return inputs


def test_rows_of_a_later_encoding_are_read_by_the_earlier_programs_columns_and_codes() -> None:
    earlier = of_columns({"age": 0, "plan": 1}, {"plan": ["basic", "family"]})
    later = of_columns({"plan": 0, "new": 1, "age": 2}, {"plan": ["basic", "business", "family"]})
    recode = recoding(later, earlier)
    rows = np.array([[0, 7, 30], [1, 7, 40], [2, 7, 50], [-1, np.nan, 60]], dtype=np.float32)
    seen = Recoded(Seen(), recode)({"input": rows})["input"]  # type: ignore[arg-type]
    assert np.array_equal(seen, [[30, 0], [40, -1], [50, 1], [60, -1]])
    with pytest.raises(RefusalError, match="answers rows with an empty cell by no number"):
        Recoded(Seen(), recode)({"input": np.array([[np.nan, 7, 70]], np.float32)})  # type: ignore[arg-type]
    assert rows[2, 0] == 2, "the later program's rows stay as they are"


def test_codes_that_changed_places_are_read_by_name_and_columns_of_several_inputs_move_as_a_whole() -> None:
    earlier = of_columns({"plan": 0, "age": 3}, {"plan": ["basic", "family"]}, wide={"note": [1, 2]})
    same = earlier.model_copy(update={"preprocessing_digest": "another scaling, which is in the program"})
    assert recoding(same, earlier) == {}
    swapped = earlier.model_copy(update={"categories": {"plan": ["family", "basic"]}})
    assert recoding(swapped, earlier) == {"take": [0, 1, 2, 3], "codes": {"0": [1, 0]}}
    moved = of_columns({"age": 0, "plan": 3}, {"plan": ["basic", "family"]}, wide={"note": [1, 2]})
    seen = Recoded(Seen(), recoding(moved, earlier))({"input": np.array([[30, 8, 9, 1]], np.float32)})  # type: ignore[arg-type]
    assert seen["input"].tolist() == [[1, 8, 9, 30]]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"class_names": ["no", "yes"]}, "their classes or targets differ"),
        ({"places": {}}, "their inputs are prepared otherwise"),
        ({"places": {"age": 0}}, "the later version has no column 'plan', which the earlier one reads"),
        ({"columns": [{"name": "age", "kind": "category"}]}, "column 'age' is read as another kind"),
    ],
)
def test_rows_that_the_earlier_program_cannot_read_are_refused(changed: dict[str, Any], why: str) -> None:
    earlier = of_columns({"age": 0, "plan": 1}, {"plan": ["basic", "family"]})
    with pytest.raises(ConflictError) as met:
        recoding(earlier.model_copy(update=changed), earlier)
    assert met.value.message == why
    with pytest.raises(ConflictError, match="which input each column is was not recorded with the later version"):
        recoding(earlier.model_copy(update={"places": {"age": 0, "plan": 2}}), earlier)


def test_prepared_inputs_are_no_columns_and_empty_cells_come_to_a_version_that_knows_none() -> None:
    earlier = of_columns({"age": 0, "plan": 1}, {"plan": ["basic", "family"]}, preprocessing={"kind": "table"})
    later = earlier.model_copy(update={"input": {"shape": [25]}, "categories": {"plan": ["family", "basic"]}})
    before = earlier.model_copy(update={"input": {"shape": [24]}})  # one-hot groups, and marks of empty cells
    assert recoding(later, before) == {"take": [0, 1], "codes": {"1": [1, 0]}}
    numbers = of_columns({"age": 0, "size": 1}, {}, preprocessing={"kind": None})
    assert recoding(numbers, numbers) == {}
    holed = numbers.model_copy(update={"preprocessing": {"kind": "table"}})
    assert recoding(holed, numbers) == {"take": [0, 1], "codes": {}}


def moved_meanwhile(workspace: Workspace) -> Callable[..., Path]:
    def folder(*arguments: Any) -> Path:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(promoting, "model_folder", registry.model_folder)
            registry.promote(workspace, "flowers", "v1", "staging")
        return registry.model_folder(*arguments)

    return folder


@pytest.mark.slow
def test_an_owner_keeps_an_alias_bounds_are_held_and_a_move_past_the_gate_is_found(at: At) -> None:
    workspace = at("finished")
    with pytest.raises(ConfigurationError, match="'v7' is not a name"):
        registry.promote(workspace, "flowers", "v1", "v7")
    with pytest.MonkeyPatch.context() as patch:  # another server moves the alias while this one's gate is at work
        patch.setattr(promoting, "model_folder", moved_meanwhile(workspace))
        with pytest.raises(ConflictError, match="staging of flowers was moved meanwhile"):
            registry.promote(workspace, "flowers", "v1", "staging")
    for _ in range(2):
        registry.promote(workspace, "flowers", "v1", "archived")
    assert len(registry.list_models(workspace, "flowers").moves) == 2, "archived once"
    registry.promote(workspace, "flowers", "v1", "best")
    settings = workspace.path / "settings.yaml"
    owners = yaml.safe_load(settings.read_text()) | {
        "promotion": {"max_bytes": 10, "max_latency_ms": 1e-6, "needs_grant": ["canary"]}
    }
    settings.write_text(yaml.safe_dump(owners))
    workspace = workspace.refreshed()
    with pytest.raises(GateRefusedError, match="bytes: measured [0-9]+; required at most 10, by the owner") as met:
        registry.promote(workspace, "flowers", "v1")
    assert met.value.details["failed"] == ["latency_ms", "bytes"]
    with pytest.raises(GateRefusedError, match="the owner keeps canary"):
        registry.promote(workspace, "flowers", "v1", "canary")
    listed = registry.list_models(workspace, "flowers")
    assert listed.versions[0].aliases == ["staging", "best"]
    assert listed.next is not None
    assert listed.next.tool == "promote_model"
    assert verify_workspace(workspace.path).problems == []
    with workspace.session() as session:
        forged = ModelPromoted(alias="production", version=1, before=None, outcome="moved", by="x", grant="r1-abc")
        ledger.append(session, "flowers", forged.name, forged.body())
        forged = ModelPromoted(alias="production", version=9, before=3, outcome="moved", by="x")
        ledger.append(session, "flowers", forged.name, forged.body())
        export = workspace.run_directory("flowers", registered(session, workspace, "flowers").model(1).run_id)
    told = " ".join(verify_workspace(workspace.path).problems)
    (export.path / "run.json").write_text("{}")
    with pytest.raises(IntegrityError, match="The model cannot be used: .*run.json"):
        registry.promote(workspace, "flowers", "v1", "other")
    for fault in ("grant that it names was not given", "no version 9", "at 1 before, not at 3", "gate had not passed"):
        assert fault in told
