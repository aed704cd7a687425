"""The checks by pandera over polars, lazily where it can: run in an environment of its own."""

import json
import sys
import time
from pathlib import Path

import pandera.polars as pa
import polars as pl

checks = json.load(sys.stdin)
columns: dict = {}
for one in checks:
    if "column" in one:
        own = columns.setdefault(one["column"], {"checks": [], "nullable": True, "unique": False, "dtype": None})
        kind = one["kind"]
        if kind == "not_null":
            own["nullable"] = False
        elif kind == "unique":
            own["unique"] = True
        elif kind == "type":
            own["dtype"] = pl.Int64
        elif kind == "min":
            own["checks"].append(pa.Check.ge(one["bound"]))
        elif kind == "max":
            own["checks"].append(pa.Check.le(one["bound"]))
        elif kind == "one_of":
            own["checks"].append(pa.Check.isin(one["values"]))
        elif kind == "pattern":
            own["checks"].append(pa.Check.str_matches(one["pattern"]))
        elif kind == "lengths":
            own["checks"].append(pa.Check.str_length(one["low"], one["high"]))
made = len([one for one in checks if one["kind"] not in {"mean", "rows"}])
schema = pa.DataFrameSchema({name: pa.Column(**own) for name, own in columns.items()})
began = time.perf_counter()
frame = pl.read_parquet(sys.argv[1])  # a lazy frame would have its schema checked alone, and not its cells
schema.validate(frame, lazy=True)
seconds = time.perf_counter() - began
status = Path("/proc/self/status").read_text()
peak = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024
print(json.dumps({"seconds": seconds, "checks": made, "memory_mib": round(peak)}))
