"""Leaks that were put into clean data are found; clean data has none."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from trainwright.trainer.data.leaks import find_leaks
from trainwright.trainer.data.validation.check import Context
from trainwright.trainer.data.validation.families.leaks import Leaks
from trainwright.trainer.data.validation.validate import validate
from trainwright.trainer.data.validation.values import kind_of

sys.path.insert(0, str(Path(__file__).parents[4] / "benchmarks"))

from data_faults.bases import BASES, frames_of
from data_faults.faults import FAULTS

SETS = {"patients at random": "patients", "time at random": "series", "next value": "series"}


@pytest.mark.requirement("PIPE-2")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_an_injected_leak_is_found_with_a_remedy(fault):
    base = BASES[SETS.get(fault.name, "churn")](1)
    found = find_leaks(fault.inject(base, np.random.default_rng(5)), base.target, given=fault.given)
    (first, *_) = [one for one in found if one.kind == fault.right[0]]
    assert first.remedy
    assert first.message


@pytest.mark.requirement("PIPE-2")
@pytest.mark.parametrize("name", ["wine", "iris", "diabetes", "churn", "series", "patients"])
def test_clean_data_has_no_leak(name):
    base = BASES[name](1)
    assert find_leaks(frames_of(base, base.rows, np.random.default_rng(1)), base.target) == []


@pytest.mark.requirement("PIPE-2")
@pytest.mark.parametrize(
    ("source", "severity"), [("diabetes", "info"), ("iris", "warning"), ("csv", "warning"), ("mine.py:load", "warning")]
)
def test_rows_that_their_publisher_scaled_are_named_as_such_and_only_where_the_source_declares_it(source, severity):
    rng = np.random.default_rng(0)
    drawn = rng.normal(5, 3, (442, 3))
    filled = rng.normal(0, 1, 442)
    holes = rng.choice(442, 60, replace=False)
    filled[holes] = np.delete(filled, holes).mean()
    scaled = (drawn - drawn.mean(axis=0)) / np.sqrt(((drawn - drawn.mean(axis=0)) ** 2).sum(axis=0))
    frame = pl.DataFrame({f"c{place}": scaled[:, place] for place in range(3)} | {"filled": filled})
    kinds = {name: kind_of(dtype) for name, dtype in frame.schema.items()}
    splits = {"train": np.arange(300), "validation": np.arange(300, 442)}
    found = Leaks().found(Context(frame=frame.lazy(), kinds=kinds, splits=splits, source=source))
    by_column = {one.column: one for one in found if one.name == "leak_preprocessing"}
    assert by_column[None].severity == severity
    assert ("scikit-learn gives each column centred" in by_column[None].text) == (severity == "info")
    assert by_column["filled"].severity == "warning", "nobody declares that holes were filled"


@pytest.mark.requirement("PIPE-2")
def test_validation_names_the_leak_the_doubtful_labels_and_personal_data():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 600)
    wrong = np.sort(rng.choice(300, 20, replace=False))
    seen = labels.copy()
    seen[wrong] = 1 - seen[wrong]
    frame = pl.DataFrame(
        {
            "size": labels + rng.normal(0, 0.05, 600),
            "other": rng.normal(0, 1, 600),
            "mail": [f"person{number}@example.org" for number in range(600)],
            "closed": np.where(seen == 1, 1.0, np.nan),
            "label": seen,
        }
    ).with_columns(pl.col("closed").fill_nan(None))
    kinds = {name: kind_of(dtype) for name, dtype in frame.schema.items()}
    splits = {"train": np.arange(400), "validation": np.arange(400, 500), "test": np.arange(500, 600)}
    options = {"target": "label", "features": ["size", "other"]}
    report = validate(Context(frame.lazy(), kinds, targets=["label"], splits=splits, options=options))
    found = {check.place: check for check in report.checks if not check.passed}
    assert "closed.leak_target" not in found  # it is no input
    assert set(found["label.label_errors"].rows) <= set(wrong.tolist())
    assert found["label.label_errors"].count >= 15
    assert found["mail.personal"].severity == "info"
    leaking = validate(
        Context(frame.lazy(), kinds, targets=["label"], splits=splits, options={"target": "label"}, source="csv")
    )
    (leak,) = [check for check in leaking.checks if check.place == "closed.leak_target"]
    assert leak.details["changes"] == {"data.args.columns": {"closed": "ignore"}}
    assert not leak.stops


def of_a_shop(rng: np.random.Generator) -> dict[str, pl.DataFrame]:
    """Return customers, of whom three columns hold what the days after the cut-off brought, as the target does."""
    rows = 900
    often = rng.gamma(2.0, 1.0, rows)
    gap = rng.exponential(60 / often)
    after = np.where(gap < 90, 1 + rng.poisson(np.maximum(90 - gap, 0) / 60 * often), 0)
    columns = {
        "orders_before": rng.poisson(4 * often),
        "age": rng.normal(40, 9, rows),
        "gap": gap,
        "orders_after": after,
        "refunds": rng.binomial(after, 0.5),
        "buys": (gap <= 30).astype(int),
    }
    frame = pl.DataFrame(columns)[rng.permutation(rows).tolist()]
    return {"train": frame[:700], "validation": frame[700:]}


@pytest.mark.requirement("PIPE-2", "DIAG-7")
def test_what_goes_with_a_leak_is_looked_at_again_when_it_is_found_and_when_it_was_left_out():
    frames = of_a_shop(np.random.default_rng(0))
    (leak,) = find_leaks(frames, "buys")
    assert leak.id == "target:gap"
    assert "Look again at 'orders_after' (goes with it among equal targets" in leak.message
    (left,) = find_leaks(frames, "buys", inputs=["orders_before", "age", "orders_after", "refunds"])
    assert (left.id, left.severity) == ("sibling:gap", "warning")
    assert set(left.changes) == {"data.args.columns.orders_after", "data.args.columns.refunds"}
    (none,) = find_leaks(frames, "buys", inputs=["age", "orders_before"])
    assert (none.severity, none.changes) == ("info", {})
    assert "no input goes with it" in none.message
    assert find_leaks(frames, "buys", inputs=["age", "orders_before"], apart=["gap"]) == []


@pytest.mark.requirement("PIPE-2", "DIAG-7")
def test_season_rows_alike_by_nature_and_a_frequent_class_are_accused_of_nothing():
    rng = np.random.default_rng(0)
    day = np.arange(1461)
    columns = {"sine": np.sin(2 * np.pi * day / 365.25), "cosine": np.cos(2 * np.pi * day / 365.25)}
    fare = np.where(rng.random(1461) < 0.3, 8.05, np.round(rng.lognormal(3, 1, 1461), 4))
    age = np.where(fare == 8.05, np.nan, np.round(rng.uniform(1, 80, 1461), 1))
    died = (rng.random(1461) < np.where(fare == 8.05, 0.85, 0.5)).astype(float)
    frame = pl.DataFrame({**columns, "fare": fare, "age": age, "died": died}).with_columns(pl.col("age").fill_nan(None))
    order = rng.permutation(1461)
    frames = {name: frame[order[part].tolist()] for name, part in (("train", slice(1000)), ("test", slice(1000, 1461)))}
    assert not [one for one in find_leaks(frames, "died") if one.kind == "preprocessing"]
    people = {name: each.select("fare", "age", "died") for name, each in frames.items()}
    assert not [one for one in find_leaks(people, "died") if one.kind == "interpolated"]


@pytest.mark.requirement("PIPE-2", "DIAG-7")
@pytest.mark.parametrize(("flipped", "severity"), [(True, "info"), (False, "warning")])
def test_copies_of_another_class_are_no_leak_and_nothing_is_to_be_done_about_them(flipped, severity):
    rng = np.random.default_rng(0)
    train = pl.DataFrame({"a": rng.normal(0, 1, 300), "b": rng.normal(0, 1, 300), "y": rng.integers(0, 2, 300)})
    copies = train.head(20).with_columns(y=1 - pl.col("y") if flipped else pl.col("y"))
    (found,) = [one for one in find_leaks({"train": train, "test": copies}, "y") if one.kind == "duplicate"]
    assert found.severity == severity
    assert bool(found.changes) is not flipped
    assert ("20 of its 300 rows" in found.remedy) is not flipped, "what the setting takes is said before"
    assert ("no score gains" in found.message) is flipped


def divided(rows, seed=1):
    order = np.random.default_rng(seed).permutation(rows.height)
    parts = {"train": slice(0, 360), "validation": slice(360, 480), "test": slice(480, None)}
    return {name: rows[np.sort(order[part]).tolist()] for name, part in parts.items()}


def patients(rng, spread, columns=8):
    """Ten visits of each of 60 people, whose diagnosis has nothing to do with what is measured."""
    visits = np.repeat(rng.normal(size=(60, columns)), 10, axis=0) + spread * rng.normal(size=(600, columns))
    named = {f"m{place}": visits[:, place] for place in range(columns)}
    return pl.DataFrame(named | {"ill": np.repeat(rng.integers(0, 2, 60), 10)})


@pytest.mark.requirement("PIPE-2")
@pytest.mark.parametrize("spread", [0.1, 0.3, 0.45])
def test_rows_of_the_same_people_are_found_without_a_column_that_names_them(spread):
    rows = patients(np.random.default_rng(0), spread)
    (found,) = [one for one in find_leaks(divided(rows), "ill") if one.kind == "clumps"]
    assert found.count > 200
    assert "data.split.by: group" in found.remedy
    named = rows.with_columns(patient=pl.Series(np.repeat(np.arange(60), 10)))
    assert not [one for one in find_leaks(divided(named), "ill") if one.kind == "clumps"], "the group says it"
    apart = {"train": rows[:360], "validation": rows[360:480], "test": rows[480:]}
    assert not [one for one in find_leaks(apart, "ill") if one.kind == "clumps"], "each in one split"


@pytest.mark.requirement("PIPE-2", "DIAG-7")
def test_dense_places_of_an_honest_problem_are_no_clumps():
    rng = np.random.default_rng(0)
    centres = np.repeat(rng.normal(size=(20, 6)) * 4, 30, axis=0)
    rows = centres + rng.normal(size=(600, 6))
    drawn = {f"m{place}": rows[:, place] for place in range(6)}
    labels = {
        "by place": (rows[:, 0] > 0).astype(int),
        "its own class": np.repeat(np.arange(20), 30),
    }
    for what, label in labels.items():
        found = find_leaks(divided(pl.DataFrame(drawn | {"ill": label})), "ill")
        assert not [one for one in found if one.kind == "clumps"], what


@pytest.mark.requirement("PIPE-2")
@pytest.mark.parametrize("kind", ["digits", "large whole numbers", "signs"])
def test_two_columns_that_tell_the_target_together_are_found(kind):
    rng = np.random.default_rng(0)
    values = {
        "digits": lambda: rng.integers(0, 10, 600),
        "large whole numbers": lambda: rng.integers(0, 10_000, 600),
        "signs": lambda: rng.normal(size=600),
    }[kind]
    drawn = {f"c{place}": values() for place in range(6)}
    first, second = drawn["c1"], drawn["c4"]
    target = (first > 0) ^ (second > 0) if kind == "signs" else (first + second) % 2
    (found,) = find_leaks(divided(pl.DataFrame(drawn | {"y": target.astype(int)})), "y")
    assert (found.kind, found.column, found.beside) == ("pair", "c1", "c4")
    alone = divided(pl.DataFrame(drawn | {"y": rng.integers(0, 2, 600)}))
    assert find_leaks(alone, "y") == []


@pytest.mark.requirement("PIPE-2", "DIAG-7")
@pytest.mark.parametrize(
    ("things", "is_group"),
    [
        ({"price": np.repeat(np.cumsum(np.random.default_rng(1).integers(2, 9, 150)), 4)[:590]}, False),
        ({"account": np.repeat(np.arange(150), 4)[:590]}, True),  # in the order of the target, and yet an id
        ({"no": np.repeat(np.random.default_rng(1).permutation(900)[:150], 4)[:590]}, True),
    ],
)
def test_a_number_is_a_group_where_it_is_named_as_an_id_or_numbers_something(things, is_group):
    rng = np.random.default_rng(0)
    drawn = np.sort(rng.integers(0, 590, 590)) if "price" in things else np.arange(590)
    target = (np.repeat(rng.normal(size=150), 4)[:590] + np.arange(590) / 200)[drawn]
    rows = pl.DataFrame({name: one[drawn] for name, one in things.items()} | {"x": rng.normal(size=590), "y": target})
    order = rng.permutation(rows.height)
    frames = {"train": rows[order[:350].tolist()], "test": rows[order[350:].tolist()]}
    assert [one.column for one in find_leaks(frames, "y") if one.kind == "group"] == list(things) * is_group
    assert find_leaks({name: frame.with_columns(y=pl.lit("same")) for name, frame in frames.items()}, "y") == []
