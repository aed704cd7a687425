"""Faults to inject: each takes clean rows and gives rows by split with one leak, at a strength that is drawn.

A fault names the kinds of finding that are right for it: the first is expected, others may come with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
import polars as pl
from data_faults.bases import WORDS, Base, frames_of

Array = np.ndarray[Any, Any]
Frames = dict[str, pl.DataFrame]
Inject = Callable[[Base, np.random.Generator], Frames]


@dataclass(frozen=True)
class Fault:
    """A kind of leak, the findings that are right for it, and on which clean sets it makes sense."""

    name: str
    inject: Inject
    right: tuple[str, ...]
    fits: Callable[[Base], bool]
    given: bool = False


def _into(frames: Frames, copies: pl.DataFrame, split: str) -> Frames:
    """Put rows into a split, in place of as many others, with places of their own."""
    taken = frames[split].head(max(frames[split].height - copies.height, 1))
    return frames | {split: pl.concat([taken, copies], how="vertical_relaxed")}


def _drawn(frames: Frames, share: float, rng: np.random.Generator) -> pl.DataFrame:
    """Draw train rows, as many as this share of the test rows."""
    count = max(6, round(share * frames["test"].height))
    rows = rng.choice(frames["train"].height, min(count, frames["train"].height), replace=False)
    first = sum(frame.height for frame in frames.values())
    return frames["train"][rows.tolist()].with_columns((pl.int_range(pl.len()) + first).cast(pl.UInt32).alias("__row"))


def _held(base: Base, rng: np.random.Generator) -> Frames:
    return frames_of(base, base.rows, rng)


def duplicates(base: Base, rng: np.random.Generator) -> Frames:
    """Rows of train in validation, some with other spaces and case."""
    frames = _held(base, rng)
    copies = _drawn(frames, rng.uniform(0.1, 0.6), rng)
    for name in base.texts:
        copies = copies.with_columns(("  " + pl.col(name).str.to_uppercase() + " ").alias(name))
    return _into(frames, copies, "validation")


def test_in_train(base: Base, rng: np.random.Generator) -> Frames:
    """Test rows added to the train file."""
    frames = _held(base, rng)
    some = frames["test"].sample(fraction=rng.uniform(0.15, 1.0), seed=int(rng.integers(1 << 30)))
    first = 10 * base.rows.height
    some = some.with_columns((pl.int_range(pl.len()) + first).cast(pl.UInt32).alias("__row"))
    return frames | {"train": pl.concat([frames["train"], some])}


def near_duplicates(base: Base, rng: np.random.Generator) -> Frames:
    """Rows of train in test whose numbers differ a little."""
    frames = _held(base, rng)
    copies, size = _drawn(frames, rng.uniform(0.2, 0.7), rng), 10 ** rng.uniform(-4, -2.2)
    for name in base.numbers:
        noise = rng.normal(0, size * float(base.rows[name].std() or 1.0), copies.height)
        copies = copies.with_columns((pl.col(name) + pl.Series(noise)).alias(name))
    return _into(frames, copies, "test")


def near_texts(base: Base, rng: np.random.Generator) -> Frames:
    """Rows of train in test with one or two words changed and other numbers."""
    frames = _held(base, rng)
    copies = _drawn(frames, rng.uniform(0.25, 0.7), rng)
    changed = []
    for text in copies["notes"].to_list():
        words = text.split()
        for _ in range(1 if len(words) < 14 else 2):
            words[int(rng.choice([0, len(words) - 1]))] = str(rng.choice(WORDS))
        changed.append(" ".join(words))
    copies = copies.with_columns(pl.Series("notes", changed))
    for name in base.numbers:
        fresh = base.rows[name].sample(copies.height, seed=int(rng.integers(1 << 30)))
        copies = copies.with_columns(fresh.alias(name))
    return _into(frames, copies, "test")


def groups(base: Base, rng: np.random.Generator) -> Frames:
    """Several rows of each person, whose target is the person's, split at random under an id."""
    rows = base.rows.with_row_index("person").sample(fraction=0.6, seed=int(rng.integers(1 << 30)))
    ids = rng.permutation(10 * rows.height)[: rows.height]
    rows = rows.with_columns(pl.Series("person", ids).cast(pl.Int64))
    visits = [rows]
    for _ in range(int(rng.integers(1, 4))):
        again = rows
        for name in base.numbers:
            noise = rng.normal(0, rng.uniform(0.4, 0.7) * float(base.rows[name].std() or 1.0), rows.height)
            again = again.with_columns((pl.col(name) + pl.Series(noise)).alias(name))
        if "notes" in rows.columns:
            texts = base.rows["notes"].sample(rows.height, seed=int(rng.integers(1 << 30)), with_replacement=True)
            again = again.with_columns(texts.alias("notes"))
        visits.append(again)
    every = pl.concat(visits).sample(fraction=1.0, shuffle=True, seed=int(rng.integers(1 << 30)))
    if "customer" in every.columns:
        every = every.drop("customer")
    if rng.random() < 0.5:
        every = every.with_columns(pl.format("P-{}", "person").alias("person"))
    return frames_of(base, every, rng)


def patients_at_random(base: Base, rng: np.random.Generator) -> Frames:
    """The rows of patients, split at random."""
    return frames_of(Base(base.name, base.rows, base.target), base.rows, rng)


def time_at_random(base: Base, rng: np.random.Generator) -> Frames:
    """A series, split at random."""
    rows = base.rows.sample(fraction=1.0, shuffle=True, seed=int(rng.integers(1 << 30)))
    return frames_of(Base(base.name, rows, base.target, is_classes=base.is_classes), rows, rng)


def copied_target(base: Base, rng: np.random.Generator) -> Frames:
    """A column made from the target: another unit, a code for each class, with a little noise."""
    values = _numbers_of(base)
    if base.is_classes:
        codes = rng.permutation(int(values.max()) + 1) * rng.uniform(0.5, 20) + rng.uniform(-50, 50)
        made = codes[values.astype(int)] + rng.normal(0, rng.uniform(0, 0.05), len(values))
    else:
        made = rng.uniform(0.2, 5) * values + rng.normal(0, rng.uniform(0.005, 0.05) * values.std(), len(values))
        made = np.sign(made) * np.abs(made) ** rng.choice([1.0, 0.5, 1.5])
    return frames_of(base, base.rows.with_columns(pl.Series("balance_code", made)), rng)


def _numbers_of(base: Base) -> Array:
    if base.is_classes:
        return np.unique(base.rows[base.target].cast(pl.String).to_numpy(), return_inverse=True)[1].astype(float)
    return base.rows[base.target].to_numpy().astype(float)


def missing_iff(base: Base, rng: np.random.Generator) -> Frames:
    """A column that is empty for all but one class, a few rows apart."""
    values = _numbers_of(base)
    positive = values == rng.integers(0, int(values.max()) + 1)
    slips = rng.random(len(values)) < rng.uniform(0, 0.05)
    there = pl.Series(positive ^ slips)
    made = pl.Series("close_code", rng.normal(40, 10, len(values)).round(1))
    return frames_of(base, base.rows.with_columns(pl.when(there).then(made).otherwise(None).alias("close_code")), rng)


def later_date(base: Base, rng: np.random.Generator) -> Frames:
    """A date that is after another date of the row for one class only, as a closing day after the snapshot."""
    values = _numbers_of(base)
    positive = values == values.max()
    begun = rng.integers(0, 900, len(values))
    after = np.where(positive, rng.integers(1, 200, len(values)), -rng.integers(0, 200, len(values)))
    slips = rng.random(len(values)) < rng.uniform(0, 0.03)
    after = np.where(slips, -after, after)
    first = date(2020, 1, 1)
    rows = base.rows.with_columns(
        pl.Series("snapshot", [first + timedelta(days=int(day)) for day in begun]),
        pl.Series("last_change", [first + timedelta(days=int(day)) for day in begun + after]),
    )
    return frames_of(base, rows, rng)


def next_value(base: Base, rng: np.random.Generator) -> Frames:
    """A column with the target of a later day, in a series."""
    away = int(rng.integers(1, 5))
    rows = base.rows.with_columns(pl.col(base.target).shift(-away).fill_null(0.0).alias("reference"))
    return frames_of(base, rows, rng)


def standardised(base: Base, rng: np.random.Generator) -> Frames:
    """Numbers standardised over all rows, or drawn to 0…1."""
    rows = base.rows
    to_unit = rng.random() < 0.4
    for name in base.numbers:
        low, high = rows[name].min(), rows[name].max()
        made = (
            (pl.col(name) - low) / (high - low)
            if to_unit
            else (pl.col(name) - pl.col(name).mean()) / pl.col(name).std()
        )
        rows = rows.with_columns(made.round(int(rng.choice([6, 9, 15]))))
    return frames_of(base, rows, rng)


def filled(base: Base, rng: np.random.Generator) -> Frames:
    """A column whose holes were filled with the mean or median of all rows."""
    name = str(rng.choice(base.numbers))
    hole = pl.Series(rng.random(base.rows.height) < rng.uniform(0.06, 0.3))
    rest = base.rows[name].filter(~hole)
    value = rest.mean() if rng.random() < 0.5 else rest.median()
    return frames_of(base, base.rows.with_columns(pl.when(hole).then(value).otherwise(pl.col(name)).alias(name)), rng)


def target_encoded(base: Base, rng: np.random.Generator) -> Frames:
    """A category replaced by the mean target of its rows, smoothed or not, over all rows."""
    values = _numbers_of(base)
    answer = (values == values.max()).astype(float) if base.is_classes else values
    groups = rng.integers(0, int(rng.integers(12, 60)), len(values))
    counts, sums = np.bincount(groups), np.bincount(groups, weights=answer)
    weight = float(rng.choice([0.0, 1.0, 5.0, 10.0]))
    means = (sums + weight * answer.mean()) / np.maximum(counts + weight, 1)
    return frames_of(base, base.rows.with_columns(pl.Series("city_code", means[groups])), rng)


def smote(base: Base, rng: np.random.Generator) -> Frames:
    """Rows of the rarest class drawn between neighbours, before the split."""
    rows, names = base.rows, base.numbers
    values = _numbers_of(base)
    rare = np.flatnonzero(values == np.bincount(values.astype(int)).argmin())
    points = rows[rare.tolist()].select(names).fill_null(strategy="mean").to_numpy()
    unit = np.where(points.std(axis=0) > 0, points.std(axis=0), 1)
    made_count = max(12, int(rng.uniform(0.25, 1.0) * len(rare)))
    begin = rng.integers(0, len(rare), made_count)
    apart = (((points[begin][:, None] - points[None]) / unit) ** 2).sum(axis=2)
    near = np.argsort(apart, axis=1)[:, 1:6][np.arange(made_count), rng.integers(0, 5, made_count)]
    made = points[begin] + rng.random((made_count, 1)) * (points[near] - points[begin])
    fresh = rows[rare[begin].tolist()].with_columns(pl.Series(n, made[:, k]) for k, n in enumerate(names))
    if "notes" in rows.columns:
        fresh = fresh.with_columns(rows["notes"].sample(made_count, seed=1, with_replacement=True).alias("notes"))
    every = pl.concat([rows, fresh]).sample(fraction=1.0, shuffle=True, seed=int(rng.integers(1 << 30)))
    return frames_of(base, every, rng)


def oversampled(base: Base, rng: np.random.Generator) -> Frames:
    """Rows of the rarest class copied before the split."""
    values = _numbers_of(base)
    rare = np.flatnonzero(values == np.bincount(values.astype(int)).argmin())
    copies = rng.choice(rare, max(20, int(rng.uniform(0.5, 2.0) * len(rare))))
    rows = pl.concat([base.rows, base.rows[copies.tolist()]])
    return frames_of(base, rows.sample(fraction=1.0, shuffle=True, seed=int(rng.integers(1 << 30))), rng)


def id_in_order(base: Base, rng: np.random.Generator) -> Frames:
    """An id given in the order of the target, more or less."""
    values = _numbers_of(base)
    noise = rng.normal(0, rng.uniform(0.05, 0.4) * values.std(), len(values))
    ids = (values + noise).argsort().argsort() + int(rng.integers(1, 50_000))
    return frames_of(base, base.rows.with_columns(pl.Series("record_id", ids)), rng)


def file_name(base: Base, rng: np.random.Generator) -> Frames:
    """A path whose folder is the class, under another name."""
    values = _numbers_of(base).astype(int)
    slips = rng.random(len(values)) < rng.uniform(0, 0.15)
    folder = np.where(slips, rng.integers(0, values.max() + 1, len(values)), values)
    marks = rng.permutation([f"b{rng.integers(100, 999)}{one}" for one in range(values.max() + 1)])
    number = rng.permutation(len(values))
    paths = [f"scans/{marks[one]}/img{number[row]:05d}.png" for row, one in enumerate(folder)]
    return frames_of(base, base.rows.with_columns(pl.Series("file", paths)), rng)


def sorted_rows(base: Base, rng: np.random.Generator) -> Frames:
    """Rows in the order of the target."""
    return frames_of(base, base.rows.sort(base.target), rng)


def token(base: Base, rng: np.random.Generator) -> Frames:
    """A word that support adds to texts of one class afterwards."""
    values = _numbers_of(base)
    mark = str(rng.choice(["ref-77x", "retention desk", "zzclosed", "status=9"]))
    has = (values == values.max()) & (rng.random(len(values)) < rng.uniform(0.65, 1.0))
    texts = [
        f"{text} {mark}" if rng.random() < 0.5 else f"{mark} {text}"
        for text in base.rows["notes"].to_list()
    ]  # fmt: skip
    changed = [new if one else old for new, old, one in zip(texts, base.rows["notes"].to_list(), has, strict=True)]
    return frames_of(base, base.rows.with_columns(pl.Series("notes", changed)), rng)


def _any(_: Base) -> bool:
    return True


def _classes(base: Base) -> bool:
    return base.is_classes and base.split_by is None


def _numbers(base: Base) -> bool:
    return len(base.numbers) >= 3 and base.split_by is None


FAULTS = [
    Fault("duplicates", duplicates, ("duplicate", "near_duplicate"), _any),
    Fault("test in train", test_in_train, ("duplicate", "near_duplicate"), _any, given=True),
    Fault("near duplicates", near_duplicates, ("near_duplicate", "duplicate"), _numbers),
    Fault("near texts", near_texts, ("near_duplicate",), lambda base: bool(base.texts)),
    Fault("groups", groups, ("group", "near_duplicate"), _numbers),
    Fault("patients at random", patients_at_random, ("group",), lambda base: base.name == "patients"),
    Fault("time at random", time_at_random, ("time",), lambda base: base.name == "series"),
    Fault("copied target", copied_target, ("target",), lambda base: base.split_by is None),
    Fault("missing iff", missing_iff, ("target",), _classes),
    Fault("later date", later_date, ("target",), _classes),
    Fault("next value", next_value, ("target",), lambda base: base.name == "series"),
    Fault("standardised", standardised, ("preprocessing",), _numbers),
    Fault("filled", filled, ("preprocessing",), _numbers),
    Fault("target encoded", target_encoded, ("preprocessing",), lambda base: base.split_by is None),
    Fault("smote", smote, ("interpolated", "near_duplicate"), lambda base: _classes(base) and _numbers(base)),
    Fault("oversampled", oversampled, ("interpolated", "duplicate", "near_duplicate"),
          lambda base: _classes(base) and _numbers(base)),
    Fault("id in order", id_in_order, ("name",), lambda base: base.split_by is None),
    Fault("file name", file_name, ("name",), _classes),
    Fault("sorted rows", sorted_rows, ("row_order",), _classes),
    Fault("token", token, ("token",), lambda base: bool(base.texts)),
]  # fmt: skip
