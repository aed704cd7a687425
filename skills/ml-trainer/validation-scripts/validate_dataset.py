#!/usr/bin/env python3
"""Validate a table in a file by the checks that Trainwright makes before every run; no project is needed.

    python validate_dataset.py churn.csv --target churned [--expectations expectations.yaml] [--strict]

Prints one JSON object. Exit code 0: nothing stops a training; 1: an error (with --strict also a warning) was found;
2: the file or the arguments cannot be used.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

MOST_CHECKS = 100


def main() -> int:
    """Validate, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="a table: csv, tsv, parquet, jsonl, arrow")
    parser.add_argument("--target", help="the column to predict")
    parser.add_argument("--expectations", help="a file of expectations in the data's folder")
    parser.add_argument("--strict", action="store_true", help="warnings count as errors")
    options = parser.parse_args()
    try:
        from trainwright.trainer.base.errors import TrainwrightError
        from trainwright.trainer.data.validation.one_file import validate_file
    except ImportError as error:
        sys.stdout.write(
            json.dumps({"error": f"trainwright cannot be imported: {error}", "remedy": "pip install trainwright"})
            + "\n"
        )
        return 2
    try:
        report = validate_file(options.path, options.target, options.expectations)
    except TrainwrightError as error:
        sys.stdout.write(json.dumps({"error": error.message, "remedy": error.remedy}) + "\n")
        return 2
    failed = report.worst_first()
    counts = {name: sum(check.severity == name for check in failed) for name in ("error", "warning", "info")}
    answer = {
        "file": options.path.name,
        "rows": report.rows,
        "checks": len(report.checks),
        "failed": counts,
        "findings": [
            check.model_dump(mode="json", include={"family", "name", "column", "severity", "text", "rows", "remedy"})
            for check in failed[:MOST_CHECKS]
        ],
        "not_checked": [one.model_dump() for one in report.not_checked],
    }
    sys.stdout.write(json.dumps(answer, indent=1) + "\n")
    return int(bool(counts["error"] or (options.strict and counts["warning"])))


if __name__ == "__main__":
    sys.exit(main())
