"""The checks by pointblank over polars: run in an environment of its own."""

import json
import sys
import time
from pathlib import Path

import pointblank as pb
import polars as pl

checks = json.load(sys.stdin)
began = time.perf_counter()
steps = pb.Validate(data=pl.read_parquet(sys.argv[1]))
made = 0
for one in checks:
    kind, column = one["kind"], one.get("column")
    made += 1
    if kind == "present":
        steps = steps.col_exists(columns=column)
    elif kind == "not_null":
        steps = steps.col_vals_not_null(columns=column)
    elif kind == "min":
        steps = steps.col_vals_ge(columns=column, value=one["bound"])
    elif kind == "max":
        steps = steps.col_vals_le(columns=column, value=one["bound"])
    elif kind == "one_of":
        steps = steps.col_vals_in_set(columns=column, set=one["values"])
    elif kind == "pattern":
        steps = steps.col_vals_regex(columns=column, pattern=one["pattern"])
    elif kind == "unique":
        steps = steps.rows_distinct(columns_subset=[column])
    else:
        made -= 1
found = steps.interrogate(collect_extracts=False)
assert found.all_passed()
seconds = time.perf_counter() - began
status = Path("/proc/self/status").read_text()
peak = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024
print(json.dumps({"seconds": seconds, "checks": made, "memory_mib": round(peak)}))
