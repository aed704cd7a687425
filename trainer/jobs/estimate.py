"""Estimate before training: `python -P -m trainwright.trainer.jobs.estimate FOLDER`.

Reads `order.json` (configuration, code root, kind of device) and leaves `estimate.json`: memory and work, or the
failure. User code runs in this process, and nothing here is evidence.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.config import parse_config
from trainwright.trainer.run import write_atomically
from trainwright.trainer.user_code import guard

ORDER, ANSWER = "order.json", "estimate.json"


def main(folder: Path) -> int:
    """Estimate as ordered. Returns the process's exit code."""
    order = json.loads((folder / ORDER).read_text(encoding="utf-8"))
    try:
        answer = _estimated(order, folder)
    except TrainwrightError as error:
        answer = {"failure": error.as_dict()}
    except BaseException as error:  # noqa: BLE001 - user code may raise or exit; the answer says so
        traceback.print_exc()
        what = f"The first steps could not be traced ({type(error).__name__}: {str(error)[:300]})."
        remedy = "Measure them instead: start_training(project, kind='probe') tells the peak of real steps."
        answer = {"failure": {"category": "configuration", "message": what, "remedy": remedy, "details": {}}}
    write_atomically(folder / ANSWER, json.dumps(answer).encode())
    return 0


def _estimated(order: dict[str, Any], folder: Path) -> dict[str, Any]:
    from trainwright.trainer.estimation.memory import estimate

    guard.install()
    config = parse_config(order["config"])
    return estimate(config, Path(order["code_root"]), folder, order["device_kind"]).as_dict()


if __name__ == "__main__":
    code = main(Path(sys.argv[1]))
    sys.stdout.flush()
    guard.exit_now(code)
