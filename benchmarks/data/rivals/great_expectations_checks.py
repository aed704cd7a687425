"""The checks by Great Expectations over pandas: run in an environment of its own."""

import json
import sys
import time
from pathlib import Path

import great_expectations as gx
import pandas as pd

checks = json.load(sys.stdin)
E = gx.expectations
made = []
for one in checks:
    kind, column = one["kind"], one.get("column")
    if kind == "present":
        made.append(E.ExpectColumnToExist(column=column))
    elif kind == "not_null":
        made.append(E.ExpectColumnValuesToNotBeNull(column=column))
    elif kind == "min":
        made.append(E.ExpectColumnValuesToBeBetween(column=column, min_value=one["bound"]))
    elif kind == "max":
        made.append(E.ExpectColumnValuesToBeBetween(column=column, max_value=one["bound"]))
    elif kind == "mean":
        made.append(E.ExpectColumnMeanToBeBetween(column=column, min_value=one["low"], max_value=one["high"]))
    elif kind == "type":
        made.append(E.ExpectColumnValuesToBeOfType(column=column, type_="int64"))
    elif kind == "one_of":
        made.append(E.ExpectColumnValuesToBeInSet(column=column, value_set=one["values"]))
    elif kind == "pattern":
        made.append(E.ExpectColumnValuesToMatchRegex(column=column, regex=one["pattern"]))
    elif kind == "lengths":
        made.append(E.ExpectColumnValueLengthsToBeBetween(column=column, min_value=one["low"], max_value=one["high"]))
    elif kind == "unique":
        made.append(E.ExpectColumnValuesToBeUnique(column=column))
    elif kind == "rows":
        made.append(E.ExpectTableRowCountToBeBetween(min_value=one["low"], max_value=one["high"]))
context = gx.get_context(mode="ephemeral")
began = time.perf_counter()
frame = pd.read_parquet(sys.argv[1])
asset = context.data_sources.add_pandas("rows").add_dataframe_asset("rows")
batch = asset.add_batch_definition_whole_dataframe("all").get_batch(batch_parameters={"dataframe": frame})
found = batch.validate(gx.ExpectationSuite(name="rows", expectations=made), result_format="BASIC")
seconds = time.perf_counter() - began
assert found.success, [one.expectation_config.type for one in found.results if not one.success]
status = Path("/proc/self/status").read_text()
peak = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024
print(json.dumps({"seconds": seconds, "checks": len(made), "memory_mib": round(peak)}))
