"""Honest projects, played by `next` and remedies alone, once from the text and once from the structured content.

`make walks` plays them all on real servers, with real training, and prints as its last line one JSON object. A walk is
stuck where no call is named before the project has ended, where 45 calls do not suffice, or where it ends otherwise
than it may; a call in vain is one that was made before and answered alike although nothing had changed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from agent import FORMS
from projects import walks
from walk import ENVIRONMENT, Played, Walk
from walking import figures, play


def main() -> int:
    """Play, print, and return the exit status: 0 when every walk has ended and no call was made in vain."""
    asked = _arguments()
    if asked.quick:
        os.environ["WALKS_QUICK"] = "1"  # read where files are written, in processes of their own
    if asked.environment:
        place = str(Path(asked.environment).absolute())
        os.environ |= {ENVIRONMENT: place, "VIRTUAL_ENV": place}  # activated, so that the server may use it
    chosen = [walk for walk in _named(asked.only) if walk.is_quick or asked.only or not asked.quick]
    left_out = {walk.name: why for walk in chosen if (why := walk.missing())}
    forms = [asked.form] if asked.form else list(FORMS)
    played = [walk.name for walk in chosen if walk.name not in left_out]
    pairs = [(name, form) for name in played for form in forms]
    if asked.quick and not asked.form:  # each project in one form, each form once
        pairs = [(name, FORMS[place % len(FORMS)]) for place, name in enumerate(played)]
    found: list[Played] = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(asked.processes, context) as pool:
        jobs = [pool.submit(play, name, form) for name, form in pairs]
        for job in as_completed(jobs):
            found.append(job.result())
            _tell(found[-1], whole=asked.verbose or not found[-1].is_fine)
    print(json.dumps({"left_out": left_out, **figures(found)}))
    return 0 if found and all(played.is_fine for played in found) else 1


def _named(only: str) -> list[Walk]:
    """Return the walks of these names; a name that is whole means that walk alone, not those that contain it."""
    found = walks()
    whole = {walk.name for walk in found}
    parts = only.split(",")
    return [
        walk for walk in found if any(walk.name == part or (part not in whole and part in walk.name) for part in parts)
    ]


def _tell(played: Played, *, whole: bool) -> None:
    memory = f", runs up to {played.memory_mib:,.0f} MiB" if played.memory_mib else ""
    mark = "ok   " if played.is_fine else "FAIL "
    again = f", {played.repeated} in vain" if played.repeated else ""
    end = played.end if played.has_ended else f"stuck: {played.why}"
    cost = f"{played.calls} calls{again}, {played.seconds:.0f} s{memory}"
    print(f"{mark}{played.walk} ({played.form}): {end}, {cost}", flush=True)
    if whole:
        print("\n".join(played.lines), flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names, or parts of them, separated by commas")
    parser.add_argument("--form", choices=FORMS, default="", help="one of the two; left out: both")
    parser.add_argument("--quick", action="store_true", help="the short set")
    parser.add_argument("--environment", default="", help="folder of a Python environment in which the runs work")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--verbose", action="store_true", help="print every call of every walk")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
