"""Entry point: an order on stdin, one JSON object on stdout, nothing else there, and never a traceback.

Run it as `python -I -S -B clean_room/__main__.py`: no site, no environment of Python's, nothing of the working folder.
Of sys.path there is Python's own library only, and behind it the folders that the order names.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

NAME = "clean_room"


def main() -> int:
    """Answer the order; return the exit status, 0 where there are numbers."""
    answer_to = os.dup(1)
    os.dup2(2, 1)  # whatever libraries print goes to stderr
    try:
        answer = _answered(sys.stdin.buffer.read())
    except BaseException as error:  # noqa: BLE001 - one JSON object in every case
        answer = {
            "problem": f"The evaluation stopped: {type(error).__name__}: {str(error)[:300]}.",
            "remedy": "Check the libraries that the order names; if they are intact, report this.",
        }
    with os.fdopen(answer_to, "w", encoding="utf-8") as out:
        out.write(json.dumps(answer, allow_nan=False) + "\n")
    return 1 if "problem" in answer else 0


def _answered(text: bytes) -> dict[str, Any]:
    if not (sys.flags.isolated and sys.flags.no_site):
        return {"problem": "This process is not isolated.", "remedy": "Run it as python -I -S -B <this file>."}
    order = json.loads(text)
    threads = str(int(order.get("threads") or 1))
    os.environ.clear()
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), threads)
    sys.path += [str(folder) for folder in order.get("libraries") or []]
    _load_this_folder()
    evaluation: Any = importlib.import_module(f"{NAME}.evaluation")
    refusal: Any = importlib.import_module(f"{NAME}.rows").RefusalError
    try:
        return dict(evaluation.evaluate(order))
    except refusal as error:
        return {"problem": error.problem, "remedy": error.remedy}


def _load_this_folder() -> None:
    """Make the files beside this one importable as a package, and nothing else of any folder."""
    here = Path(__file__).resolve().parent
    found = importlib.util.spec_from_file_location(NAME, here / "__init__.py", submodule_search_locations=[str(here)])
    assert found is not None  # noqa: S101 - for the type
    assert found.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(found)
    sys.modules[NAME] = module
    found.loader.exec_module(module)


if __name__ == "__main__":
    sys.exit(main())
