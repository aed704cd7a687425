"""Small tables, and what a sentence of a user is read as on them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from trainwright.tools.training_architect.documents import load_rulebook
from trainwright.tools.training_architect.hardware import probed_device
from trainwright.tools.training_architect.intent import with_intent
from trainwright.tools.training_architect.plan import Plan
from trainwright.tools.training_architect.planning import make_plan
from trainwright.tools.training_architect.reading import read_task
from trainwright.tools.training_architect.request import PlanRequest, read_request
from trainwright.trainer.jobs import inspection

ROWS = 400
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)


@cache
def table(name: str) -> dict[str, Any]:
    """What the inspection finds in a small table of that name."""
    draw = np.random.default_rng(5)
    survived = draw.integers(0, 2, ROWS)
    price = np.exp(draw.normal(7.8, 1.0, ROWS)).round()
    texts = [f"please call the number {number} about my order now" for number in range(ROWS)]
    tables: dict[str, dict[str, Any]] = {
        "titanic.csv": {
            "survived": survived, "pclass": draw.integers(1, 4, ROWS), "sex": draw.choice(["male", "female"], ROWS),
            "who": draw.choice(["man", "woman", "child"], ROWS),
            "age": draw.normal(30, 9, ROWS), "alive": np.where(survived, "yes", "no"),
        },
        "diamonds.csv": {
            "carat": draw.normal(1, 0.2, ROWS), "cut": draw.choice(["Fair", "Good", "Ideal"], ROWS), "price": price,
            "x": draw.normal(5, 1, ROWS), "y": draw.normal(5, 1, ROWS), "z": draw.normal(3, 1, ROWS),
        },
        "sms.csv": {"message": texts, "label": draw.choice(["ham", "spam"], ROWS, p=[0.8, 0.2])},
        "wine.csv": {"alcohol": draw.normal(10, 1, ROWS), "quality": draw.integers(3, 9, ROWS)},
        "load.csv": {
            "date": [f"{BEGIN + timedelta(hours=hour):%Y-%m-%d %H:%M}" for hour in range(ROWS)],
            "wind": draw.normal(5, 1, ROWS), "load": draw.normal(20, 4, ROWS), "outage": np.arange(ROWS) % 3 // 2,
            "weather": draw.choice(["dry", "wet"], ROWS),
        },
        "shops.csv": {
            "day": [BEGIN.date() + timedelta(days=row // 4) for row in range(ROWS)],
            "shop": [f"shop {row % 4}" for row in range(ROWS)], "sold": draw.normal(100, 9, ROWS),
        },
        "cigar.csv": {
            "state": np.repeat(np.arange(1, 26), 16), "year": np.tile(np.arange(63, 79), 25),
            "price": draw.normal(50, 9, ROWS), "pop": draw.integers(500, 9000, ROWS),
            "sales": 100 + np.repeat(np.arange(25), 16) + 4.0 * (np.tile(np.arange(16), 25) % 2),
        },
        "gas.csv": {"t": np.arange(ROWS), "inflow": draw.normal(5, 1, ROWS), "co2": 50 + np.arange(ROWS) / 8},
        "houses.csv": {
            "year": draw.integers(1990, 2010, ROWS), "rooms": draw.integers(1, 60, ROWS),
            "area": draw.normal(90, 9, ROWS), "price": price,
        },
        "months.csv": {
            "year": 1980 + np.arange(ROWS) // 12, "month": 1 + np.arange(ROWS) % 12,
            "flow": draw.normal(9, 1, ROWS),
        },
        "customers.csv": {
            "joined": [f"2024-{month:02}-{day:02}" for month, day in draw.integers(1, 13, (ROWS, 2)).tolist()],
            "age": draw.normal(40, 9, ROWS), "churned": draw.integers(0, 2, ROWS),
        },
        "tickets.csv": {"body": texts, **{name: draw.integers(0, 2, ROWS) for name in ("billing", "login", "cancel")}},
        "clips.csv": {
            "machine": [f"m{row % 50:02}" for row in range(ROWS)], "clip": np.arange(ROWS) // 50,
            **{f"mfcc{band}": draw.normal(0, 1, ROWS) for band in range(16)}, "state": draw.choice(["ok", "dry"], ROWS),
        },
        "pumps.csv": {"heat": draw.normal(50, 5, ROWS), "days": np.arange(ROWS), "change": draw.normal(0, 1, ROWS)},
        "mixtures.csv": {
            name: draw.normal(30, 9, ROWS)
            for name in ("zement_kg", "temperatur_c", "druckfestigkeit_mpa", "ausbreitmass_mm", "erstarrung_h")
        },
        "ranked.csv": {
            "query_id": [f"q{row // 8}" for row in range(ROWS)], "match": draw.normal(0, 1, ROWS),
            "age": draw.normal(9, 2, ROWS), "relevance": draw.integers(0, 4, ROWS),
        },
        "hotels.csv": {
            "srch_id": np.arange(ROWS) // 8, "price": draw.normal(90, 9, ROWS), "stars": draw.integers(1, 6, ROWS),
            "clicked": draw.integers(0, 2, ROWS),
        },
        "trips.csv": {
            "individual": 1 + np.arange(ROWS) // 4, "mode": 1 + np.arange(ROWS) % 4, "cost": draw.normal(90, 9, ROWS),
            "choice": (np.arange(ROWS) % 4 == 2).astype(int),
        },
        "cars.csv": {
            "name": [f"car {row % 300}" for row in range(ROWS)], "origin": draw.choice(["USA", "Japan"], ROWS),
            "mpg": draw.normal(20, 4, ROWS),
        },
        "steps.csv": {
            "recording": np.arange(ROWS) // 10, "step": np.arange(ROWS) % 10, "c0": draw.normal(0, 1, ROWS),
            "speaker": [f"s{row // 80}" for row in range(ROWS)],
        },
        "parts.csv": {
            "recording": np.arange(ROWS) // 10, "c0": draw.normal(0, 1, ROWS),
            "part": ["Train" if row % 80 < 60 else "test" for row in range(ROWS)],
            "speaker": [f"s{row // 80}" for row in range(ROWS)],
        },
        "lists.jsonl": {"part": ["train", "test"] * 200, "c0": [[1.0, 2.0]] * ROWS, "speaker": ["a", "b"] * 200},
        "queues.csv": {"team": draw.choice(["a", "b", "c"], ROWS), "urgency": draw.choice(["u", "v"], ROWS)},
    }  # fmt: skip
    if name == "book.txt":
        return {"rows": 400, "columns": [], "tokens": {"p50": 60, "p95": 180, "p99": 250, "longest": 900}}
    return inspection._of_frame(pl.LazyFrame(tables[name]), None, None, is_table=True)


def asked(sentence: str, data: str, /, **more: Any) -> tuple[PlanRequest, Any]:
    use = {"use": "text", "args": {"path": data}} if data.endswith(".txt") else data
    request, _ = with_intent(read_request(**{"intent": sentence, "data": use, **more}))
    return request, read_task(request, {"data": table(data)})


def plan_of(sentence: str, data: str, /, **more: Any) -> Plan:
    request, reading = asked(sentence, data, **more)
    assert reading.questions == []
    found = {"data": table(data), "machine": {"cores": 2, "ram_bytes": 2**34, "gpus": []}}
    device = probed_device(found["machine"])
    return make_plan(request, reading, found, device=device, book=load_rulebook(), memory_of=lambda _: None)
