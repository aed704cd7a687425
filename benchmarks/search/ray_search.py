"""The same search by Ray Tune with Optuna's sampler, two trials of one core at a time.

`python ray_search.py FOLDER ORDER`, by an environment of its own. Nothing leaves the machine: Ray reports no
usage, has no page and, told that it is no cluster, listens on loopback alone.
"""

from __future__ import annotations

import os

os.environ |= {  # read when Ray is imported
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # no cluster: the node's address is 127.0.0.1
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
}

import json
import logging
import sys
import tempfile
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.search.optuna import OptunaSearch

HERE = Path(__file__).parent
CONCURRENT = 2


def trial(parameters: dict[str, float], folder: str, place: str) -> None:
    """Train once, reporting each epoch."""
    sys.path.insert(0, str(HERE))
    import bare
    import torch

    torch.set_num_threads(1)
    drawn = {key.split(".")[-1]: value for key, value in parameters.items()}
    best = Path(place) / f"best-{tune.get_context().get_trial_id()}.pt"
    bare.train(bare.Plain.read(Path(folder)), **drawn, best_path=best,
               report=lambda epoch, accuracy: tune.report({"accuracy": accuracy, "epoch": epoch}))  # fmt: skip


def main(folder: str, given: str) -> None:
    """Search, and print how many trials and epochs there were."""
    sys.path.insert(0, str(HERE))
    import bare

    order: dict[str, Any] = json.loads(given)
    space = json.loads((Path(folder) / "plain.json").read_text())["space"]
    with tempfile.TemporaryDirectory(prefix="r") as scratch:
        ray.init(num_cpus=CONCURRENT, include_dashboard=False, _node_ip_address="127.0.0.1", _temp_dir=scratch,
                 logging_level=logging.ERROR, log_to_driver=False)  # fmt: skip
        search = OptunaSearch(
            {key: tune.loguniform(one["low"], one["high"]) for key, one in space.items()},
            metric="accuracy", mode="max", sampler=bare.sampler(order["seed"]),
        )  # fmt: skip
        function = tune.with_resources(tune.with_parameters(trial, folder=folder, place=order["place"]), {"cpu": 1})
        found = tune.Tuner(
            function,
            tune_config=tune.TuneConfig(
                search_alg=search, num_samples=order["trials"], max_concurrent_trials=CONCURRENT,
                reuse_actors=True,  # else each trial is a process that imports torch anew
            ),
            run_config=tune.RunConfig(storage_path=str(Path(order["place"]) / "ray"), verbose=0),
        ).fit()  # fmt: skip
        ray.shutdown()
    if found.errors:
        raise SystemExit(str(found.errors[0]))


if __name__ == "__main__":
    main(*sys.argv[1:])
