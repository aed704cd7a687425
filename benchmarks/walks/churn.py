"""A table as people have it: identifiers, dates in two spellings, holes, categories, yes and no, and free text."""

from __future__ import annotations

import csv
import io
import random
from datetime import date, timedelta

HEADER = (
    "customer_id", "joined", "last_seen", "plan", "country", "age", "monthly_fee", "is_premium", "support_calls",
    "note", "churned",
)  # fmt: skip
ANGRY = ("the bill was wrong, very angry", "cannot log in to the app", "asks for a refund now")
CALM = ("thanks for the quick help", "all fine so far", "likes the new app a lot")


def table(rows: int = 5000) -> str:
    """Return a CSV of customers, some of whom leave."""
    draw = random.Random(0)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    writer.writerows(_row(number, draw) for number in range(rows))
    return text.getvalue()


def _row(number: int, draw: random.Random) -> list[object]:
    plan, calls, fee = draw.choice(("basic", "plus", "pro")), draw.randint(0, 9), round(draw.uniform(5, 90), 2)
    premium = draw.random() < 0.3
    joined = date(2019, 1, 1) + timedelta(draw.randint(0, 1800))
    seen = joined + timedelta(draw.randint(0, 400))
    score = 0.5 * (calls - 4.5) + 1.2 * (plan == "basic") - premium + 0.02 * (fee - 45)
    angry = score + draw.gauss(0, 1) > 1
    leaves = score + 0.8 * angry + draw.gauss(0, 1) > 0.8
    rare = ("LU",) if draw.random() < 0.02 else ()
    return [
        f"C{number:06d}x{draw.randint(0, 99)}",
        _or_nothing(joined.isoformat(), 0.02, draw),
        f"{seen:%d.%m.%Y} {draw.randint(0, 23):02d}:{draw.randint(0, 59):02d}",
        _or_nothing(plan, 0.03, draw),
        draw.choice(("DE", "FR", "US", "Österreich", *rare)),
        _or_nothing(draw.randint(18, 80), 0.05, draw),
        _or_nothing(fee, 0.01, draw, "NA"),
        "yes" if premium else "no",
        calls,
        _or_nothing(draw.choice(ANGRY if angry else CALM), 0.1, draw),
        "yes" if leaves else "no",
    ]


def _or_nothing(value: object, share: float, draw: random.Random, nothing: str = "") -> object:
    return nothing if draw.random() < share else value
