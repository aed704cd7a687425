"""Forty checks of ten million rows of a Parquet file: by us, and the same by pandera, pointblank, Great Expectations.

Each library works alone, in a process and an environment of its own, from the start of its reading to its verdicts; its
imports are not counted. Memory is the peak of its resident memory. What a library cannot check is left out and counted:
`checks` says how many it made.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
COMPANIONS = HERE.parents[1] / ".venv" / "companions"
RIVALS = {"pandera": "pandera", "pointblank": "pointblank", "great_expectations": "great_expectations"}
PIECE = 1_000_000
NUMBERS = {"age": (18, 90), "income": (0, 1e9), "score": (-10, 10), "visits": (0, 99), "balance": (-1e6, 1e6)}
PLANS = ["basic", "plus", "pro", "team"]
TIMEOUT_SECONDS = 1800


def write_file(path: Path, rows: int) -> None:
    """Write a table of eight columns and so many rows."""
    import pyarrow as pa
    from pyarrow import parquet

    draw = np.random.default_rng(0)
    writer = None
    for start in range(0, rows, PIECE):
        count = min(PIECE, rows - start)
        table = pa.table({
            "id": np.arange(start, start + count),
            "age": draw.integers(18, 91, count),
            "income": draw.lognormal(10, 1, count),
            "score": np.clip(draw.standard_normal(count), -10, 10),
            "visits": draw.integers(0, 100, count),
            "balance": draw.normal(0, 1000, count),
            "plan": pa.array(np.array(PLANS)[draw.integers(0, 4, count)]),
            "churned": draw.integers(0, 2, count),
        })  # fmt: skip
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=250_000)
    assert writer is not None
    writer.close()


def checks() -> list[dict[str, Any]]:
    """Return the checks: each a kind, a column and its bounds, in words that every library can be told."""
    columns = ["id", *NUMBERS, "plan", "churned"]
    found: list[dict[str, Any]] = [{"kind": "present", "column": name} for name in columns]
    found += [{"kind": "not_null", "column": name} for name in columns]
    found += [{"kind": "min", "column": name, "bound": low} for name, (low, _) in NUMBERS.items()]
    found += [{"kind": "max", "column": name, "bound": high} for name, (_, high) in NUMBERS.items()]
    found += [{"kind": "mean", "column": name, "low": -1e9, "high": 1e9} for name in NUMBERS]
    found += [{"kind": "type", "column": name, "type": "integer"} for name in ("id", "age", "visits", "churned")]
    found += [
        {"kind": "one_of", "column": "plan", "values": PLANS},
        {"kind": "one_of", "column": "churned", "values": [0, 1]},
        {"kind": "pattern", "column": "plan", "pattern": "^[a-z]+$"},
        {"kind": "lengths", "column": "plan", "low": 2, "high": 8},
        {"kind": "unique", "column": "id"},
        {"kind": "rows", "low": 1, "high": 10**9},
    ]
    return found


def ours(path: Path) -> dict[str, Any]:
    """Check by our own families."""
    import time

    import polars as pl

    from trainwright.trainer.data.validation import Context
    from trainwright.trainer.data.validation.expectations import Expectations
    from trainwright.trainer.data.validation.validate import validate
    from trainwright.trainer.data.validation.values import kind_of

    columns: dict[str, dict[str, Any]] = {}
    rows: dict[str, Any] = {}
    for one in checks():
        own = columns.setdefault(one["column"], {}) if "column" in one else rows
        own |= _expectation(one)
    expectations = Expectations.model_validate({"columns": columns, "rows": rows})
    began = time.perf_counter()
    frame = pl.scan_parquet(path)
    kinds = {name: kind_of(dtype) for name, dtype in frame.collect_schema().items()}
    report = validate(Context(frame, kinds, expectations, target="churned"))
    seconds = time.perf_counter() - began
    assert not report.stopping, [one.text for one in report.stopping]
    return {"seconds": seconds, "checks": len(report.checks)}


def _expectation(one: dict[str, Any]) -> dict[str, Any]:
    forms: dict[str, dict[str, Any]] = {
        "present": {},
        "not_null": {"nulls_at_most": 0.0},
        "min": {"min": one.get("bound")},
        "max": {"max": one.get("bound")},
        "mean": {"mean_at_least": one.get("low"), "mean_at_most": one.get("high")},
        "type": {"kind": one.get("type")},
        "one_of": {"one_of": one.get("values")},
        "pattern": {"pattern": one.get("pattern")},
        "lengths": {"length_at_least": one.get("low"), "length_at_most": one.get("high")},
        "unique": {"unique": True},
        "rows": {"at_least": one.get("low"), "at_most": one.get("high")},
    }
    return forms[one["kind"]]


def peak_mib() -> float:
    """Return the peak of this process's resident memory in MiB."""
    text = Path("/proc/self/status").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def measured(name: str, path: Path) -> dict[str, Any] | None:
    """Let a library check the file alone; None where it is not installed."""
    python = Path(sys.executable) if name == "trainwright" else COMPANIONS / name / "bin" / "python"
    script = Path(__file__) if name == "trainwright" else HERE / "rivals" / f"{name}_checks.py"
    if not python.exists():
        return None
    ended = subprocess.run(
        [str(python), "-P", str(script), str(path)],
        input=json.dumps(checks()),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    if ended.returncode != 0:
        return {"problem": ended.stderr.strip().splitlines()[-1:] or [f"exit code {ended.returncode}"]}
    found: dict[str, Any] = json.loads(ended.stdout.strip().splitlines()[-1])
    return found


if __name__ == "__main__":
    answer = ours(Path(sys.argv[1]))
    print(json.dumps({**answer, "memory_mib": round(peak_mib())}))
