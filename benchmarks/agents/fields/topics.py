"""Texts with several labels each: tickets of a help desk, with a column for each team."""

from __future__ import annotations

from pathlib import Path

from task import Array, Goal, Task, columns, draws, write_table

TICKETS = 1300
TEAMS: dict[str, tuple[str, ...]] = {
    "billing": ("the invoice is wrong", "you charged my card twice", "where is my refund", "the VAT is missing"),
    "login": ("I cannot log in", "the password mail never came", "my account is locked", "two factor code refused"),
    "shipping": ("the parcel did not arrive", "the courier left it outside", "tracking has not moved for days"),
    "hardware": ("the screen flickers", "the battery is dead after an hour", "it smells burnt when charging"),
    "cancel": ("please end my contract", "I want to cancel", "stop the subscription at the end of the month"),
}
OPENINGS = ("hello", "hi team", "good morning", "to whom it may concern", "second time I write", "urgent", "dear all")
ENDINGS = (
    "thanks",
    "please call me",
    "I am waiting since monday",
    "order {}",
    "customer {}",
    "regards",
    "sent from my phone",
)
JOINTS = (" and ", ". also ", " - besides ", ". on top of that ")


def lay_out(folder: Path) -> None:
    """Write tickets.csv: one or several complaints a ticket, words left out here and there, some labels forgotten."""
    draw, rows = draws("topics"), []
    for number in range(TICKETS):
        chosen = draw.choice(len(TEAMS), size=int(draw.choice([1, 2, 3], p=[0.5, 0.37, 0.13])), replace=False)
        said = [str(draw.choice(list(TEAMS.values())[team])) for team in chosen]
        text = str(draw.choice(JOINTS)).join(said)
        words = [word for word in text.split() if draw.random() > 0.08]
        ending = str(draw.choice(ENDINGS)).format(draw.integers(10000, 99999))
        labels = [int(team in chosen and draw.random() > 0.01) for team in range(len(TEAMS))]
        rows.append((f"T-{number:05d}", f"{draw.choice(OPENINGS)} {' '.join(words)} {ending}", *labels))
    write_table(folder / "tickets.csv", ("ticket", "body", *TEAMS), rows)


def truth(folder: Path) -> list[Array]:
    """Return the teams' columns, (tickets, teams)."""
    return [columns(folder / "tickets.csv", tuple(TEAMS))]


TASK = Task(
    name="topics",
    field="multi-label texts",
    sentence="tickets.csv: which teams does a ticket go to? One ticket can be for several of billing, login, shipping, "
    "hardware and cancel (1 = goes there). F1 of at least 0.85 on tickets that were not used for training.",
    goal=Goal("f1", 0.85),
    lay_out=lay_out,
    truth=truth,
    data="tickets.csv",
)
