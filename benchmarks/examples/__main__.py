"""Every example project from a fresh copy through all gates to `final_model/`, by the command that users have.

`make examples` copies each into a folder of its own, runs it as `trainwright example NAME --into DIR --run` does, and
compares the certified figure on the held-back rows with the card. With --seeds each is run with several, and the mean
and spread for the card are printed. The last line is one JSON object; `left_out` names what is not installed here.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from played import Played, figures, for_the_card

from trainwright.server import cli
from trainwright.tools.examples import Example, Outcome, example_named, examples, missing_packages, outcome_of
from trainwright.trainer.base.errors import TrainwrightError

QUICK = 2
LAST_CHARACTERS = 3000


def main() -> int:
    """Run, print, and return the exit status: 0 when all are released within their figures."""
    asked = _arguments()
    chosen = [example_named(name) for name in asked.names] or sorted(examples(), key=lambda one: one.minutes)
    missing = {one.name: missing_packages(one)[0].install for one in chosen if missing_packages(one)}
    present = [one for one in chosen if one.name not in missing][: QUICK if asked.quick else None]
    seeds = [int(seed) for seed in asked.seeds.split(",")] if asked.seeds else [None]
    print("| example | seed | metric | held-back | expected | naive | rows | released | seconds |\n|" + "---|" * 9)
    found: list[Played] = []
    for example in present:
        found += [play(example, seed, asked.keep) for seed in seeds]
        if len(seeds) > 1:
            print(for_the_card([each for each in found if each.example == example]), flush=True)
    result = figures(found)
    print(json.dumps({**result, "left_out": missing}))
    return 0 if found and result["examples"] == result["released"] == result["within_figures"] else 1


def play(example: Example, seed: int | None, keep: Path | None) -> Played:
    """Run one example in a fresh copy, which is removed afterwards unless it is to be kept, and print its row."""
    with tempfile.TemporaryDirectory(prefix="example-", ignore_cleanup_errors=True) as temporary:
        folder = (keep or Path(temporary)).resolve() / f"{example.name}{'' if seed is None else f'-{seed}'}"
        folder.parent.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        if seed is not None:
            _command(example, folder)
            path = folder / "config.yaml"
            lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("seed:")]
            path.write_text("\n".join([*lines, f"seed: {seed}", ""]), encoding="utf-8")
        done = _command(example, folder, "--run")
        played = Played(example, seed, _outcome(example, folder), round(time.monotonic() - started, 1))
    print(played.row(), flush=True)
    if done.returncode or not played.released:
        print(f"{done.stdout[-LAST_CHARACTERS:]}\n{done.stderr[-LAST_CHARACTERS:]}", flush=True)
    return played


def _command(example: Example, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", cli.__name__, "example", example.name, "--into", str(folder), *options]
    return subprocess.run(
        command, cwd=folder.parent, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )


def _outcome(example: Example, folder: Path) -> Outcome | None:
    try:
        return outcome_of(example, folder)
    except TrainwrightError:
        return None


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="examples; left out: all")
    parser.add_argument("--seeds", default="", help="comma-separated; left out: the configuration's own")
    parser.add_argument("--quick", action="store_true", help=f"the {QUICK} quickest that can run here")
    parser.add_argument("--keep", type=Path, help="keep the copies in this folder")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
