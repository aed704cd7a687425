"""How a run directory is made and a worker started: `python start_a_run.py FOLDER`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from trainwright.trainer import worker
from trainwright.trainer.config import config_digest, parse_config
from trainwright.trainer.run import RunDirectory, RunKind, RunSpecification
from trainwright.trainer.run.environment import launch_environment

DIGITS: dict[str, Any] = {
    "model": {"use": "mlp", "args": {"hidden": [64]}},
    "data": {"use": "digits"},
    "metrics": ["accuracy"],
    "training": {"epochs": 3},
    "selection": {"metric": "accuracy", "direction": "maximize"},
}


def make_run(folder: Path, values: dict[str, Any], **fields: Any) -> RunDirectory:
    """Write a run directory for a configuration; `fields` are those of RunSpecification.

    Planning has validated the data, as for every run after it: to do so again is most of what a small run takes.
    """
    config = parse_config(values)
    fields.setdefault("code_root", str(folder.parent))
    fields.setdefault("validated_by", "the smoke run")
    specification = RunSpecification(
        run_id=folder.name,
        project="test",
        config=config,
        config_digest=config_digest(config),
        **{"kind": RunKind.BASELINE, **fields},
    )
    return RunDirectory.create(folder, specification)


def start_worker(run: RunDirectory, **environment: str) -> subprocess.Popen[bytes]:
    """Start the worker as the orchestrator does: own session, own log, the launch environment."""
    config = run.specification().config
    with run.log.open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", worker.__name__, str(run.path)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **launch_environment(config), **environment},
        )


def work(run: RunDirectory, timeout_seconds: float = 120.0) -> RunDirectory:
    """Run the worker to its end."""
    start_worker(run).wait(timeout_seconds)
    return run


if __name__ == "__main__":
    finished = work(make_run(Path(sys.argv[1]), DIGITS))
    print(finished.status().model_dump_json(indent=2))
