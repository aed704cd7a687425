"""A worker that is killed at a place: `python -P killed.py PLACE NUMBER RUN_DIR`."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

PLACES = {
    "step": ("trainwright.trainer.engine.observers.recorder", "Recorder.step"),
    "validating": ("trainwright.trainer.engine.evaluation", "evaluate_split"),
    "saving": ("safetensors.torch", "save_file"),
    "tagging": ("trainwright.trainer.checkpoints.store", "write_index"),
}
"""Functions at whose so-manieth call the process is killed: in mid-epoch, and three moments of an epoch's end."""


def main(place: str, number: str, run: str) -> int:
    """Arrange the kill and work on the run."""
    from trainwright.trainer import worker
    from trainwright.trainer.jobs.first_imports import import_first

    import_first(())
    killing = Path(__file__).parents[2] / "tests" / "trainer" / "killing.py"
    spec = importlib.util.spec_from_file_location("killing", killing)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    holder, _, name = PLACES[place][1].rpartition(".")
    owner = importlib.import_module(PLACES[place][0])
    module.kill_at_call(getattr(getattr(owner, holder) if holder else owner, name), int(number))()
    return worker.main([run])


if __name__ == "__main__":
    from trainwright.trainer.user_code.guard import exit_now

    sys.stdout.flush()
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    exit_now(main(*sys.argv[1:]))
