"""How many of 200 planted secrets the scan of generated files finds, and how many of 1,000 innocent strings it accuses.

Nothing planted is real: each is drawn at run time after its kind's published form. Two more seeds than the first are
held out: no rule was written by looking at them. Prints what was missed and accused by kind, and as its last line one
JSON object. Exits with 1 where the first seed has a miss or a false alarm.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from innocent import Innocent, innocent
from planted import Planted, planted

from trainwright.trainer.base.secret_scan import found_secrets

SEED, HELD_OUT = 16, (2026, 4711)
PLANTED, INNOCENT = 200, 1000


def main() -> int:
    """Run the seeds and print the figures. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, help="write the texts of the first seed there, for another scanner")
    options = parser.parse_args()
    if options.into:
        _write(options.into, planted(SEED, PLANTED), innocent(SEED, INNOCENT))
    result = measured(SEED)
    held = [measured(seed) for seed in HELD_OUT]
    result["held_out"] = {
        key: sum(one[key] for one in held) for key in ("planted", "found", "innocent", "false_alarms")
    }
    sys.stdout.write(json.dumps(result) + "\n")
    return 0 if result["found"] == result["planted"] and not result["false_alarms"] else 1


def measured(seed: int) -> dict[str, Any]:
    """Return the figures of one seed; what was missed or accused is printed by kind, with its text."""
    secrets, others = planted(seed, PLANTED), innocent(seed, INNOCENT)
    started = time.perf_counter()
    found, accused = 0, 0
    for one in secrets:
        lines = {finding.line for finding in found_secrets(one.text)}
        found += one.line in lines
        accused += len(lines - {one.line})
        if lines != {one.line}:
            sys.stdout.write(
                f"seed {seed}: {one.kind} in {one.file}: found {sorted(lines)}, not {one.line}: {one.text!r}\n"
            )
    for other in others:
        findings = found_secrets(other.text)
        accused += bool(findings)
        if findings:
            sys.stdout.write(
                f"seed {seed}: {other.kind} in {other.file} accused as {findings[0].kind}: {other.text[:200]!r}\n"
            )
    seconds = round(time.perf_counter() - started, 3)
    kinds = len({one.kind for one in secrets})
    return {
        "planted": len(secrets), "kinds": kinds, "found": found, "innocent": len(others), "false_alarms": accused,
        "seconds": seconds,
    }  # fmt: skip


def _write(folder: Path, secrets: list[Planted], others: list[Innocent]) -> None:
    """Write each text into a folder of its own, `planted/KIND/…` and `innocent/KIND/…`."""
    texts = [(f"planted/{index}", one.file, one.text) for index, one in enumerate(secrets)]
    texts += [(f"innocent/{index}", one.file, one.text) for index, one in enumerate(others)]
    for place, file, text in texts:
        (folder / place).mkdir(parents=True, exist_ok=True)
        (folder / place / file).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
