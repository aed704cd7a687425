"""Clean sets of data to inject faults into: real ones of scikit-learn, their rows shuffled, and generated ones.

`HELD_OUT` names those that nobody looked at while the detectors were written: they are counted apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
import polars as pl

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Base:
    """Rows with a target, and how they are split honestly: at random, by a column of groups, or by time."""

    name: str
    rows: pl.DataFrame
    target: str
    is_classes: bool = True
    split_by: str | None = None
    """Column of groups or of time; None: at random."""

    @property
    def numbers(self) -> list[str]:
        """Columns of measurements."""
        return [
            name
            for name in self.rows.columns
            if name != self.target and self.rows[name].dtype == pl.Float64 and self.rows[name].n_unique() > 25
        ]

    @property
    def texts(self) -> list[str]:
        """Columns of free text."""
        return [name for name in self.rows.columns if name == "notes"]


def frames_of(base: Base, rows: pl.DataFrame, rng: np.random.Generator) -> dict[str, pl.DataFrame]:
    """Return rows by split, 70 : 15 : 15, each with its place."""
    rows = rows.with_row_index("__row")
    count = rows.height
    if base.split_by is None:
        place = rng.permutation(count)
    elif base.rows[base.split_by].dtype == pl.Date:
        place = rows[base.split_by].arg_sort().arg_sort().to_numpy()
    else:
        groups = rows[base.split_by].unique(maintain_order=True).to_list()
        order = dict(zip(groups, rng.permutation(len(groups)).tolist(), strict=True))
        place = np.array([order[group] for group in rows[base.split_by].to_list()]) * count / len(groups)
    ends = {"train": (0.0, 0.7), "validation": (0.7, 0.85), "test": (0.85, 1.01)}
    return {
        name: rows.filter(pl.Series((place >= low * count) & (place < high * count)))
        for name, (low, high) in ends.items()
    }


def _sklearn(name: str, seed: int, **args: Any) -> tuple[pl.DataFrame, Array]:
    from sklearn import datasets

    inputs, target = getattr(datasets, f"load_{name}")(return_X_y=True, **args)
    order = np.random.default_rng(seed).permutation(len(target))
    inputs, target = inputs[order], target[order]
    frame = pl.DataFrame({f"x{place}": inputs[:, place].astype(np.float64) for place in range(inputs.shape[1])})
    return frame.with_columns(pl.Series("target", target)), target


def breast_cancer(seed: int) -> Base:
    """Tumours: 30 measurements of each."""
    return Base("breast_cancer", _sklearn("breast_cancer", seed)[0], "target")


def wine(seed: int) -> Base:
    """Wines of three growers."""
    return Base("wine", _sklearn("wine", seed)[0], "target")


def iris(seed: int) -> Base:
    """Irises, in tenths of centimetres."""
    return Base("iris", _sklearn("iris", seed)[0], "target")


def digits(seed: int) -> Base:
    """Pictures of digits as 64 numbers of 17 values."""
    return Base("digits", _sklearn("digits", seed)[0].head(900), "target")


def diabetes(seed: int) -> Base:
    """Progress of a disease a year later, a number."""
    return Base("diabetes", _sklearn("diabetes", seed, scaled=False)[0], "target", is_classes=False)


WORD = re.compile(r"\w+")
WORDS = WORD.findall(
    "customer called about the invoice for last month and asked whether a discount is "
    "possible agent explained tariff options router was replaced connection slow in the evening complaint "
    "filed waiting for technician visit moved payment late reminder sent polite friendly angry satisfied "
    "unsure contract data volume roaming phone broken new address bank change upgrade offer refused "
    "accepted later again first second ticket closed open priority low high"
)


def _text(rng: np.random.Generator, lean: float, words: list[str] = WORDS) -> str:
    """Draw a note; a high `lean` prefers the later words a little."""
    weights = np.exp(0.6 * lean * np.linspace(-1, 1, len(words)))
    return " ".join(rng.choice(words, int(rng.integers(8, 20)), p=weights / weights.sum()))


def churn(seed: int) -> Base:
    """Customers with numbers, categories, dates, notes and holes; churn depends on several of them."""
    rng, count = np.random.default_rng([seed, 1]), 900
    tenure, fee = rng.gamma(2.0, 14.0, count), rng.normal(45, 14, count).clip(9)
    plan = rng.choice(["basic", "plus", "family", "pro"], count, p=[0.4, 0.3, 0.2, 0.1])
    calls = rng.poisson(2.0, count).astype(float)
    score = -0.8 - 0.04 * tenure + 0.03 * (fee - 45) + 0.5 * (calls - 2) + 0.8 * (plan == "basic")
    churned = rng.random(count) < 1 / (1 + np.exp(-score))
    signed = [date(2021, 1, 1) + timedelta(days=int(day)) for day in rng.integers(0, 1200, count)]
    later = rng.integers(30, 700, count)
    rows = pl.DataFrame(
        {
            "customer": [f"C{number:06d}" for number in rng.permutation(900_000)[:count]],
            "tenure_months": tenure.round(2),
            "monthly_fee": fee.round(2),
            "usage_gb": np.where(rng.random(count) < 0.08, np.nan, rng.gamma(2.0, 6.0, count).round(3)),
            "calls": calls,
            "plan": plan,
            "signed": signed,
            "last_bill": [day + timedelta(days=int(more)) for day, more in zip(signed, later, strict=True)],
            "notes": [_text(rng, float(score[row])) for row in range(count)],
            "churned": np.where(churned, "yes", "no"),
        }
    ).with_columns(pl.col("usage_gb").fill_nan(None))
    return Base("churn", rows, "churned")


def series(seed: int) -> Base:
    """Daily sales that follow the days before; lags are columns, and the split is by time."""
    rng, count = np.random.default_rng([seed, 2]), 700
    sales = np.zeros(count + 7)
    for day in range(1, count + 7):
        sales[day] = 0.8 * sales[day - 1] + rng.normal(0, 1.0) + 0.8 * np.sin(2 * np.pi * day / 7)
    rows = pl.DataFrame(
        {
            "day": [date(2022, 1, 1) + timedelta(days=day) for day in range(count)],
            **{f"lag{away}": sales[7 - away : 7 - away + count] for away in (1, 2, 7)},
            "price": rng.normal(10, 2, count),
            "sales": sales[7:],
        }
    )
    return Base("series", rows, "sales", is_classes=False, split_by="day")


def patients(seed: int) -> Base:
    """Several visits of each patient, whose diagnosis is the patient's; split by patient."""
    rng, persons = np.random.default_rng([seed, 3]), 160
    visits = rng.integers(2, 7, persons)
    person = np.repeat(np.arange(persons), visits)
    order = rng.permutation(len(person))
    person = person[order]
    ill = (rng.random(persons) < 0.4).astype(int)
    traits = rng.normal(0, 1, (persons, 5)) + 0.7 * ill[:, None] * np.array([1, 0.5, 0, 0, -0.5])
    values = traits[person] + rng.normal(0, 0.6, (len(person), 5))
    ids = rng.permutation(9000)[:persons] + 1000
    rows = pl.DataFrame({f"marker{place}": values[:, place] for place in range(5)}).with_columns(
        pl.Series("patient", ids[person]), pl.Series("diagnosis", ill[person])
    )
    return Base("patients", rows, "diagnosis", split_by="patient")


def houses(seed: int) -> Base:
    """Prices of houses by size, age, quarter and energy class, with holes."""
    rng, count = np.random.default_rng([seed, 4]), 800
    area, age = rng.gamma(9.0, 13.0, count), rng.integers(0, 90, count).astype(float)
    quarter = rng.integers(0, 18, count)
    value = 2.1 * area - 0.9 * age + rng.normal(0, 30, 18)[quarter] + rng.normal(0, 25, count)
    rows = pl.DataFrame(
        {
            "area": area.round(1), "age": age, "quarter": [f"q{one}" for one in quarter],
            "energy": rng.choice(list("ABCDE"), count), "noise_db": rng.normal(52, 7, count).round(2),
            "distance": np.where(rng.random(count) < 0.1, np.nan, rng.gamma(2, 2, count).round(3)),
            "sold": [date(2019, 1, 1) + timedelta(days=int(day)) for day in rng.integers(0, 1500, count)],
            "price": value.round(2),
        }
    ).with_columns(pl.col("distance").fill_nan(None))  # fmt: skip
    return Base("houses", rows, "price", is_classes=False)


TOPICS = {
    "billing": WORD.findall(
        "charge refund card invoice tax amount price paid twice account subscription month cancel plan"
    ),
    "delivery": WORD.findall("parcel late courier box address driver warehouse tracking lost arrived street door"),
    "login": WORD.findall("password reset mail code screen browser locked user phone app error token session page"),
}


def tickets(seed: int) -> Base:
    """Support tickets of three topics, whose words overlap, with a length and two scores."""
    rng, count = np.random.default_rng([seed, 5]), 700
    names = list(TOPICS)
    topic = rng.integers(0, 3, count)
    notes = []
    for one in topic:
        mixed = [*TOPICS[names[one]], *TOPICS[names[(one + 1) % 3]][:5], *WORDS[:40]]
        notes.append(" ".join(rng.choice(mixed, int(rng.integers(10, 26)))))
    rows = pl.DataFrame(
        {
            "sentiment": (rng.normal(0, 1, count) - 0.5 * topic).round(4),
            "urgency": rng.beta(2, 4, count) + 0.1 * (topic == 2),
            "minutes_open": rng.gamma(2, 50, count),
            "channel": rng.choice(["mail", "chat", "phone"], count),
            "agent_id": rng.integers(100, 140, count),
            "notes": notes,
            "topic": [names[one] for one in topic],
        }
    )
    return Base("tickets", rows, "topic")


BASES: dict[str, Callable[[int], Base]] = {
    function.__name__: function
    for function in (breast_cancer, wine, iris, digits, diabetes, churn, series, patients, houses, tickets)
}
HELD_OUT = ("houses", "tickets")
