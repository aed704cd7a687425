"""Several tables to be joined: customers, orders and returns of a shop, and a day after which nothing may be used."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import numpy as np
from task import Array, Goal, Task, draws, read_table, write_table, write_text

CUSTOMERS, CUTOFF = 1500, date(2025, 9, 1)
FIRST = date(2025, 1, 1)
NOTE = """\
Three exports from the shop, until the end of November.

We score every customer on the 1st of September: will there be an order in the 60 days after that day?
(so: only what was known by then may be used. customers.csv has everybody who registered before.)
"""


def lay_out(folder: Path) -> None:
    """Write three exports: how often a customer orders, and that some have left, shows in their orders alone."""
    draw = draws("shop")
    customers, orders, returns = [], [], []
    for number in range(CUSTOMERS):
        joined = FIRST + timedelta(days=int(draw.integers(0, 200)))
        every, left = 8 + draw.gamma(2.0, 14.0), joined + timedelta(days=int(draw.exponential(260)))
        customers.append(
            (f"c{number}", joined.isoformat(), draw.choice(["DE", "AT", "CH"]), draw.choice(["web", "app"]))
        )
        day = joined
        while (day := day + timedelta(days=1 + int(draw.exponential(every)))) < date(2025, 12, 1) and day < left:
            order = f"o{len(orders):06d}"
            orders.append((order, f"c{number}", day.isoformat(), f"{draw.gamma(2.0, 25.0):.2f}"))
            if draw.random() < 0.12:
                returns.append((order, (day + timedelta(days=int(draw.integers(3, 20)))).isoformat()))
    shuffled = [orders[place] for place in draw.permutation(len(orders))]
    write_table(folder / "customers.csv", ("customer", "registered", "country", "channel"), customers)
    write_table(folder / "orders.csv", ("order", "customer", "day", "amount"), shuffled)
    write_table(folder / "returns.csv", ("order", "day"), returns)
    write_text(folder, {"NOTES.md": NOTE})


def truth(folder: Path) -> list[Array]:
    """Return whether each customer ordered in the 60 days after the cut-off, in the order of customers.csv."""
    orders = read_table(folder / "orders.csv")
    days = np.array([date.fromisoformat(day) for day in orders["day"]])
    after = (days >= CUTOFF) & (days < CUTOFF + timedelta(days=60))
    buyers = set(np.array(orders["customer"])[after])
    bought = [customer in buyers for customer in read_table(folder / "customers.csv")["customer"]]
    return [np.array(bought).astype(int)]


TASK = Task(
    name="shop",
    field="several tables to join, with a cut-off day",
    sentence="See NOTES.md and the three exports: who will order again? ROC AUC of at least 0.77 on customers that "
    "were not used for training, and no peeking past the 1st of September.",
    goal=Goal("auc", 0.77),
    lay_out=lay_out,
    truth=truth,
)
