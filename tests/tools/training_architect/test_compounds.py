"""Columns beside one another in a sentence: whose, when, in what unit, and which is not to be predicted."""

from __future__ import annotations

import pytest

from trainwright.tools.training_architect.reading import read_task
from trainwright.tools.training_architect.request import read_request

pytestmark = pytest.mark.requirement("ARCH-1")

WORDS = ("category", 5)
MANY = ("number", 300)
FLAT = {"price": MANY, "size": MANY}
SHOP = {"sales": MANY, "demand": MANY, "month": ("number", 12), "week": ("number", 52), "store": WORDS}
CLINIC = {"patient": WORDS, "outcome": ("category", 2), "customer": WORDS, "churn": ("category", 2), "age": MANY}


@pytest.mark.parametrize(
    ("columns", "sentence", "target"),
    [
        (SHOP, "predict sales next month", "sales"),
        (SHOP, "predict next month sales", "sales"),
        (SHOP, "predict next month's sales", "sales"),
        (SHOP, "forecast demand next week", "demand"),
        (SHOP, "forecast demand in the next week", "demand"),
        (SHOP, "forecast future demand week by week", "demand"),
        (SHOP, "forecast demand week by week", "demand"),
        (SHOP, "predict store sales this month", "sales"),
        (SHOP, "predict a store's sales", "sales"),
        (SHOP, "predict the stores' sales", "sales"),
        (SHOP, "predict sales demand", ["sales", "demand"]),
        (CLINIC, "predict patient outcome", "outcome"),
        (CLINIC, "predict the customer churn", "churn"),
        (CLINIC, "predict the outcome of a patient", "outcome"),
        (CLINIC, "predict patient age in years", "age"),
        ({"user_id": MANY, "spend": MANY}, "predict user_id spend", "spend"),
        ({"energy": MANY, "use": MANY}, "predict the energy use", ["energy", "use"]),
        ({"loan": MANY, "default": ("category", 2)}, "predict loan default", "default"),
        ({"price": MANY, "usd": MANY}, "predict price usd", "price"),
        (FLAT, "don't predict price, predict size", "size"),
        (FLAT, "don\u2019t predict price, predict size", "size"),
        (FLAT, "dont predict price but size", "size"),
        (FLAT, "do not predict price but size", "size"),
        (FLAT, "do not predict the price; predict the size", "size"),
        (FLAT, "I don't want you to predict price but size", "size"),
        (FLAT, "predict not the price but the size", "size"),
        (FLAT, "the goal is not predicting price but size", "size"),
        (FLAT, "do not try to forecast price. Forecast size", "size"),
        (FLAT, "never predict price, size is what I want", "size"),
        (FLAT, "sage nicht den Price, sondern die Size voraus", "size"),
        (FLAT, "predict price, not size", "price"),
        (FLAT, "do not use size but predict price", "price"),
        (FLAT, "do not overfit and predict price", "price"),
        (FLAT, "I can't predict price by hand", "price"),
        (FLAT, "why don't you predict price", "price"),
        ({"survived": ("category", 2), "age": MANY}, "predict who did not survive", "survived"),
    ],
)  # fmt: skip
def test_an_owner_a_time_and_what_is_not_to_be_predicted_are_no_target(columns, sentence, target):
    found = {"data": {"rows": 400, "columns": [
        {"name": name, "kind": kind, "different": different, "rows": 400, "nulls": 0, "of_numbers": False}
        for name, (kind, different) in columns.items()
    ]}}  # fmt: skip
    reading = read_task(read_request(intent=sentence, data="x.csv"), found)
    choices = [one.choices for one in reading.questions if one.argument == "target_column"]
    assert (reading.target, choices) == ((None, [target]) if isinstance(target, list) else (target, []))
