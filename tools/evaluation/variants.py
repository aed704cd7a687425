"""Smaller variants of an exported program, on the validation rows beside the program: what they cost, and nothing else.

The test rows are never used: whoever takes a variant has chosen it, and the certified figure stays the program's.
"""

from __future__ import annotations

from typing import Any

from trainwright.tools.evaluation.process import run_clean_room
from trainwright.tools.evaluation.sealed import Sealed
from trainwright.trainer.run.results import Export, Variant

SPLIT = "validation"
ONE_BY_ONE = "int8"
"""Finds the scales of its activations in each call: beside other rows a row has another answer."""


def variants_of(run: Sealed, order: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return by file each variant's size and metrics, and what differs from the program (`paired`); or a `problem`.

    Args:
        run: an export.
        order: the clean room's, of the program.
    """
    return {f"model_{one.name}.onnx": _evaluated(one, run, order) for one in run.part(Export).variants}


def _evaluated(variant: Variant, run: Sealed, order: dict[str, Any]) -> dict[str, Any]:
    if variant.path is None:
        return {"problem": variant.problem or "it was not written"}
    head: dict[str, Any] = {"bytes": variant.bytes, "share": variant.share}
    beside = {**order["program"], "path": str(run.directory.artifacts / variant.path), "digest": variant.digest}
    if variant.name == ONE_BY_ONE:
        beside["batch"] = head["batch"] = 1
    answer = run_clean_room({**order, "beside": beside, "splits": [SPLIT], "slices": [], "groups": [], "rivals": []})
    found = answer.get("splits", {}).get(SPLIT, {}).get("beside", {})
    problem = answer.get("problem") or found.get("problem")
    if problem:
        return {**head, "problem": str(problem)}
    return {**head, "rows": found["rows"], "metrics": found["metrics"], "paired": found.get("paired", {})}
