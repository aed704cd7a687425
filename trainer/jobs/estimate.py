"""Estimate before training: `python -P -m trainwright.trainer.jobs.estimate FOLDER`.

Reads `order.json` (configuration, code root, kind of device) and leaves `report.json`: memory and work, or the
failure. User code runs in this process, and nothing here is evidence.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from trainwright.trainer.base import releases
from trainwright.trainer.config import parse_config
from trainwright.trainer.data.remote import connections
from trainwright.trainer.jobs.answering import answer
from trainwright.trainer.user_code import guard


def main(folder: Path) -> int:
    """Estimate as ordered. Returns the process's exit code."""
    remedy = "Measure the first steps instead: start_training(project, kind='probe') tells the peak of real ones."
    return answer(folder, lambda order: _estimated(order, folder), remedy=remedy, category="configuration")


def _estimated(order: dict[str, Any], folder: Path) -> dict[str, Any]:
    if find_spec("torch.distributed._tools.mem_tracker") is None:
        instead = "Measure the first steps instead: start_training(project, kind='probe')"
        raise releases.needed("An estimate before the first step", releases.TRACED, instead)
    from trainwright.trainer.estimation.memory import estimate

    guard.install()
    config = parse_config(order["config"])
    connections.use_order({} if config.data is None else config.data.args, order)
    return estimate(config, Path(order["code_root"]), folder, order["device_kind"]).as_dict()


if __name__ == "__main__":
    code = main(Path(sys.argv[1]))
    sys.stdout.flush()
    guard.exit_now(code)
