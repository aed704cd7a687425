"""Draws data/churn.csv: 4,000 customers of a phone company that does not exist, some of whom leave.

    python prepare.py

Nothing is downloaded, and the same seed gives the same bytes. The rule is `chance_of_leaving` below; what a customer
does is drawn with that chance, so no model can be right about everybody.
"""

from __future__ import annotations

import csv
import io
import math
import random
from datetime import date, timedelta
from pathlib import Path

ROWS = 4000
SEED = 16
TODAY = date(2026, 1, 1)
HEADER = (
    "customer_id", "joined", "last_contact", "plan", "country", "age", "monthly_fee", "is_premium", "support_calls",
    "note", "churned",
)  # fmt: skip
COMPLAINTS = (
    "the bill is wrong again and nobody answers",
    "asks how to cancel and wants a refund",
    "connection drops every evening, very angry",
    "waited two weeks for a technician",
)
PRAISE = (
    "thanks for the quick help with the router",
    "all fine so far, likes the new app",
    "happy with the speed since the move",
)
NEUTRAL = (
    "changed the address to a new street",
    "asked about the opening hours of the shop",
    "wants the bill by mail from now on",
    "second line for the office was set up",
)
HOLES = {"joined": 0.02, "plan": 0.03, "age": 0.06, "monthly_fee": 0.02, "note": 0.15}
"""Share of the cells of a column that are empty, whatever the others say."""


def chance_of_leaving(plan: str, fee: float, calls: int, mood: str, years: float, *, premium: bool) -> float:
    """Return the chance with which a customer leaves, from what is known of them: the rule behind the table."""
    score = -1.9 + 0.38 * calls + 0.9 * (plan == "basic") - 1.1 * premium + 0.02 * (fee - 45) - 0.25 * years
    score += {"complaint": 1.8, "praise": -1.2, "neutral": 0.0}[mood]
    return 1 / (1 + math.exp(-score))


def customer(number: int, draw: random.Random) -> tuple[dict[str, object], float]:
    """Return a customer's cells, before holes are made, and the chance with which this one left."""
    plan, premium = draw.choice(("basic", "plus", "pro")), draw.random() < 0.3
    calls, fee = min(9, int(draw.expovariate(0.45))), round(draw.uniform(5, 90), 2)
    joined = TODAY - timedelta(draw.randint(30, 2500))
    contact = TODAY - timedelta(draw.randint(0, 29))
    years = (TODAY - joined).days / 365.25
    mood = draw.choices(("complaint", "praise", "neutral"), (0.15 + 0.05 * calls, 0.3, 0.4))[0]
    chance = chance_of_leaving(plan, fee, calls, mood, years, premium=premium)
    texts = {"complaint": COMPLAINTS, "praise": PRAISE, "neutral": NEUTRAL}[mood]
    return {
        "customer_id": f"C{number:05d}x{draw.randint(0, 99):02d}",
        "joined": joined.isoformat(),
        "last_contact": f"{contact:%d.%m.%Y} {draw.randint(8, 19):02d}:{draw.randint(0, 59):02d}",
        "plan": plan,
        "country": draw.choice(("DE", "FR", "US", "Österreich")),
        "age": draw.randint(18, 80),
        "monthly_fee": fee,
        "is_premium": "yes" if premium else "no",
        "support_calls": calls,
        "note": draw.choice(texts),
        "churned": "yes" if draw.random() < chance else "no",
    }, chance


def customers(rows: int = ROWS, seed: int = SEED) -> list[tuple[dict[str, object], float]]:
    """Return customers with their chances; cells of some columns are empty."""
    draw = random.Random(seed)
    found = []
    for number in range(rows):
        cells, chance = customer(number, draw)
        found.append(({name: "" if draw.random() < HOLES.get(name, 0) else cells[name] for name in HEADER}, chance))
    return found


def main() -> None:
    """Write the table into the folder `data` beside this file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, HEADER, lineterminator="\n")
    writer.writeheader()
    writer.writerows(cells for cells, _ in customers())
    folder = Path(__file__).with_name("data")
    folder.mkdir(exist_ok=True)
    (folder / "churn.csv").write_text(text.getvalue(), encoding="utf-8", newline="")


if __name__ == "__main__":
    main()
