"""Processes that estimate or measure one pair: forks of this one, which has imported the libraries once."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

Answer = dict[str, Any]


def in_forks(work: Callable[[int], Answer], count: int = 1) -> Answer | None:
    """Return what `work(rank)` gives in the first of so many forks; None where it failed, whose traceback is shown."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        children = []
        for rank in range(count):
            child = os.fork()
            if child == 0:
                _be(work, rank, answer)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        return dict(json.loads(answer.read_text(encoding="utf-8"))) if answer.exists() else None


def _be(work: Callable[[int], Answer], rank: int, answer: Path) -> None:
    code = 1
    try:
        found = work(rank)
        if rank == 0:
            answer.write_text(json.dumps(found), encoding="utf-8")
        code = 0
    except BaseException:  # noqa: BLE001 - shown, and told by the lack of an answer
        import traceback

        traceback.print_exc(limit=-6)
    finally:
        os._exit(code)
