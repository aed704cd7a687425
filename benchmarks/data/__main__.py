"""Data at size: 40 checks of ten million rows beside three libraries, and the first look beside plain reading."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import checks
import first_look

ROWS, QUICK_ROWS = 10_000_000, 200_000


def main() -> None:
    """Measure and print; the last line is one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="200,000 rows, and a small first look")
    parser.add_argument("--only", choices=["checks", "first_look"], help="one of the two")
    given = parser.parse_args()
    found: dict[str, float | int | None] = {}
    if given.only != "first_look":
        found |= _checks(QUICK_ROWS if given.quick else ROWS)
    if given.only != "checks":
        found |= first_look.measure(given.quick)
    print(json.dumps(found))


def _checks(rows: int) -> dict[str, float | int | None]:
    found: dict[str, float | int | None] = {"checks_rows": rows}
    print("| library | checks | seconds | peak MiB |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        checks.write_file(path, rows)
        for name in ("trainwright", *checks.RIVALS):
            one = checks.measured(name, path)
            if one is None or "problem" in one:
                print(f"| {name} | {'not installed' if one is None else one['problem'][0]} | | |", flush=True)
                continue
            print(f"| {name} | {one['checks']} | {one['seconds']:.2f} | {one['memory_mib']} |", flush=True)
            own = "" if name == "trainwright" else f"{name}_"
            found |= {f"{own}checks_seconds": round(one["seconds"], 3), f"{own}checks_memory_mib": one["memory_mib"]}
            found |= {f"{own}checks": one["checks"]}
    return found


if __name__ == "__main__":
    main()
