"""Answers to orders: a job reads `order.json` in its folder, and leaves `report.json` there whatever happens."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.base.paths import allow_links
from trainwright.trainer.run import write_atomically

ORDER, REPORT = "order.json", "report.json"
LONGEST_REASON = 300
"""Characters of an unexpected error that are told; all of it stands in the log."""


def answer(
    folder: Path, work: Callable[[dict[str, Any]], dict[str, Any]], *, remedy: str, category: str = "data"
) -> int:
    """Do the work that was ordered, and write what it returns, or the failure. Returns the process's exit code.

    Args:
        work: takes the order.
        remedy: of an error that nobody expected: user code and files may raise anything, or exit.
        category: of such an error.
    """
    order = json.loads((folder / ORDER).read_text(encoding="utf-8"))
    allow_links(order.get("linked_roots", []))
    try:
        found = work(order)
    except TrainwrightError as error:
        found = {"failure": error.as_dict()}
    except BaseException as error:  # noqa: BLE001 - whatever it is, who asked is told
        traceback.print_exc()
        message = f"{type(error).__name__}: {str(error)[:LONGEST_REASON]}"
        failure: dict[str, Any] = {
            "category": category,
            "message": message,
            "remedy": remedy,
            "document": None,
            "details": {},
        }
        found = {"failure": failure}
    write_atomically(folder / REPORT, json.dumps({"order": order.get("id"), **found}).encode())
    return 0
