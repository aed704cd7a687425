"""A project that is taken over half-way: somebody began it on a real server, and left below the goal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from task import Array, Goal, Task, draws, numbered, read_table, write_table, write_text

PLANTS, SPECIES = 1200, ("ash", "elm", "lime", "oak")
LETTER = """\
Hi, I am off to the new job on Monday. The leaf project is in .trainwright (project `leaves`), planning is done and
there is a first baseline, too weak still: 0.9 of accuracy is what the customer wants. I think the rate is too small.
measurements.csv is all there is.
"""
GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.9}
CONFIG = {
    "model": {"use": "mlp", "args": {"hidden": [32]}},
    "data": {"use": "csv", "args": {"path": "measurements.csv", "target": "species"}},
    "metrics": ["accuracy"],
    "optimizer": {"learning_rate": 0.00002},
    "training": {"epochs": 6},
}


def lay_out(folder: Path) -> None:
    """Write the measurements and the letter of the one who leaves."""
    draw = draws("takeover")
    species = draw.integers(0, len(SPECIES), PLANTS)
    angle = species * np.pi / 2 + draw.normal(0, 0.3, PLANTS)
    far = draw.gamma(30.0, 0.1, PLANTS)
    length, width = 9 + far * np.cos(angle), 6 + far * np.sin(angle)
    teeth = np.round(18 + 6 * np.cos(2 * angle) + draw.normal(0, 2, PLANTS)).astype(int)
    hair = draw.gamma(2.0, 1.0, PLANTS)
    rows = [
        (f"{length[row]:.2f}", f"{width[row]:.2f}", teeth[row], f"{hair[row]:.2f}", SPECIES[species[row]])
        for row in range(PLANTS)
    ]
    write_table(folder / "measurements.csv", ("length_cm", "width_cm", "teeth", "hair", "species"), rows)
    write_text(folder, {"letter.txt": LETTER})


def begin(folder: Path) -> None:
    """Take the project through planning and a weak baseline on a real server, and write its hand-over."""
    from players.scripted import play_calls

    project, intent = {"project": "leaves"}, "Tell species by their leaves"
    play_calls(folder, [
        ("create_project", {"name": "leaves", "intent": intent, "goal": GOAL, "config": CONFIG}),
        ("start_training", {**project, "kind": "smoke", "wait_seconds": 50}),
        ("pass_gate", {**project, "phase": "planning"}),
        ("start_training", {**project, "kind": "baseline", "wait_seconds": 50}),
        ("configure", {**project, "hand_over": {
            "by": "training-architect", "to": "ml-trainer", "notes": ["The rate may be too small."]}}),
    ])  # fmt: skip


def truth(folder: Path) -> list[Array]:
    """Return the species' numbers in the order of the alphabet, and in that of their first row."""
    species = read_table(folder / "measurements.csv")["species"]
    first = list(dict.fromkeys(species))
    return [numbered(species), np.array([first.index(one) for one in species])]


TASK = Task(
    name="takeover",
    field="a project taken over half-way",
    sentence="My colleague has left; the project `leaves` is half done (letter.txt). Find out where it stands and "
    "bring it to a release with an accuracy of at least 0.9 on plants that were not used for training.",
    goal=Goal("accuracy", 0.9),
    lay_out=lay_out,
    truth=truth,
    table="measurements.csv",
    prepare=begin,
)
