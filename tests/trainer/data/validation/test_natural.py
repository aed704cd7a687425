"""Rows that repeat because their columns have few values are told from copies, however many copies there are."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from trainwright.trainer.data.validation import natural
from trainwright.trainer.data.validation.check import CONTENT, Context
from trainwright.trainer.data.validation.natural import are_natural
from trainwright.trainer.data.validation.values import kind_of


def says(frame: pl.DataFrame) -> bool:
    kinds = {name: kind_of(dtype) for name, dtype in frame.schema.items()}
    return are_natural(Context(frame.lazy(), kinds), frame.columns)


def people(rows: int = 900) -> pl.DataFrame:
    """Return rows as of passengers, whose fare depends on their class."""
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 3, rows)
    return pl.DataFrame(
        {
            "sex": pl.Series(rng.choice(["m", "f"], rows)).cast(pl.Categorical),
            "class": classes,
            "fare": classes * 3 + rng.integers(0, 3, rows),
            "age": rng.integers(0, 30, rows),
            "alone": rng.random(rows) < 0.6,
            "port": "S",
        }
    )


def measured(rows: int = 100) -> pl.DataFrame:
    return pl.DataFrame(np.random.default_rng(0).normal(size=(rows, 6)))


def coarse(rows: int = 1000) -> pl.DataFrame:
    """Return rows of eight columns, none of more than 25 values, that are all different."""
    return pl.DataFrame(np.random.default_rng(0).integers(0, 25, (rows, 8)))


@pytest.mark.requirement("PIPE-2")
@pytest.mark.parametrize("share", [0.1, 0.3, 0.85, 1.0, 2.0, 10.0, 14.6])
@pytest.mark.parametrize("table", [measured, coarse])
def test_pasted_rows_are_copies_of_whatever_columns(table, share):
    frame = table()
    times, rest = divmod(share, 1)
    assert not says(pl.concat([frame] * (1 + int(times)) + [frame.head(int(rest * len(frame)))]))


@pytest.mark.requirement("PIPE-2")
@pytest.mark.parametrize("times", [2, 3, 5, 6, 7, 11, 13])
def test_a_natural_table_that_was_pasted_whole_is_known_by_how_often_its_rows_occur(times):
    frame = people()
    assert says(frame)
    assert not says(pl.concat([frame] * times).sample(fraction=1, shuffle=True, seed=1))


def crew(rows: int = 900) -> pl.DataFrame:
    """Return rows of columns that go together: a ticket of a few usual ones has its own fare, class and port."""
    rng = np.random.default_rng(0)
    ticket = np.minimum(rng.zipf(1.4, rows), 300)
    return pl.DataFrame(
        {
            "fare": ticket * 1.25 + 5,
            "class": ticket % 3,
            "port": pl.Series(ticket % 4).replace_strict({0: "C", 1: "S", 2: "S", 3: "Q"}),
            "age": np.where(rng.random(rows) < 0.1, -1, rng.integers(0, 7000, rows) / 100 + ticket),
        }
    )


@pytest.mark.requirement("PIPE-2")
def test_rows_of_columns_that_go_together_repeat_by_nature():
    frame = crew()
    assert frame.is_duplicated().sum() > 20
    assert says(frame)
    assert not says(pl.concat([frame, frame.sample(fraction=0.3, seed=1)]))


def test_four_different_rows_may_all_occur_an_even_number_of_times():
    counts = [210, 166, 134, 90]
    frame = pl.DataFrame({"a": [0, 0, 1, 1], "b": [0, 1, 0, 1]})
    assert says(frame[np.repeat(np.arange(4), counts).tolist()])


@pytest.mark.requirement("PIPE-2")
def test_rows_drawn_with_replacement_are_copies():
    frame = measured()
    assert not says(frame[np.random.default_rng(1).integers(0, 100, 1500).tolist()])


@pytest.mark.requirement("PIPE-2")
def test_copies_are_not_natural_for_one_column_in_which_all_that_is_known_of_a_thing_differs():
    rng = np.random.default_rng(0)
    things = pl.DataFrame(rng.normal(size=(80, 3))).with_columns(kind=pl.Series(rng.integers(0, 2, 80)))
    visits = pl.concat([things.with_columns(visit=pl.lit(visit)) for visit in range(4)])
    assert not says(pl.concat([visits, visits.head(40)]))


@pytest.mark.requirement("PIPE-2")
def test_repeated_texts_are_copies_whether_a_label_stands_beside_them_or_not_and_repeated_numbers_are_not():
    rng = np.random.default_rng(0)
    texts = pl.DataFrame({"text": [f"message {number}" for number in range(300)], "spam": rng.integers(0, 2, 300)})
    pasted = pl.concat([texts, texts.head(60)])
    assert not says(pasted)
    assert not says(pasted.select("text"))
    assert says(pl.DataFrame({"degrees": rng.integers(0, 60, 300), "place": ["Ulm"] * 300}))


@pytest.mark.requirement("PIPE-2")
def test_of_a_large_table_rows_from_all_of_it_are_read(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(natural, "MAX_SAMPLED", 2000)
    frame = measured(10_000)
    assert not says(pl.concat([frame, frame.tail(3000)]))
    assert not says(pl.concat([frame, frame.tail(110)])), "none of them need be among the rows that are read"
    assert says(people(10_000))


def test_equal_content_is_copied():
    frame = people()
    assert not are_natural(Context(frame.lazy(), {}), [CONTENT, *frame.columns])
