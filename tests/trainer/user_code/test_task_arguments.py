"""What a task's `build` is given looks like a dict, and tells what of it was never read."""

from __future__ import annotations

from typing import Any

import pytest

from trainwright.trainer.run import RunState

HANDED = "    return {'model': Net(width), 'train': data(), 'validation': data(20)}"
READS = {
    "by key": ("width = config['width']", ["task.args.widht"]),
    "with a default": ("width = config.get('width', 4)", ["task.args.widht"]),
    "by asking first": ("width = config['width'] if 'width' in config else 4", ["task.args.widht"]),
    "as keywords": ("width = max(dict(**config).values())", []),
    "as a copy": ("width = {**config}['width']", []),
    "as JSON": ("import json\n    width = json.loads(json.dumps(config))['width']", []),
    "deeply copied": ("import copy\n    width = copy.deepcopy(config)['width']", []),
    "merged": ("width = ({'a': 1} | config)['width']", []),
}


@pytest.mark.requirement("DIAG-7", "CONF-1")
@pytest.mark.parametrize("way", READS)
def test_an_argument_that_build_never_read_is_named(way: str, ended_here: Any) -> None:
    read, unread = READS[way]
    assert trained(ended_here, f"def build(config):\n    {read}\n{HANDED}") == unread


@pytest.mark.requirement("DIAG-7")
def test_an_argument_that_the_step_reads_is_not_named(ended_here: Any) -> None:
    code = """
    def build(config):
        def step(model, batch, context):
            return {"loss": config["widht"] * nn.functional.cross_entropy(model(batch[0]), batch[1])}
        return {"model": Net(config["width"]), "train": data(), "validation": data(20), "step": step}
    """
    assert trained(ended_here, code) == []


def trained(ended_here: Any, code: str) -> list[str]:
    """Train the task with an argument that it may know and one that is misspelt; return the keys without effect."""
    values = {
        "task": {"use": "mine:build", "args": {"width": 6, "widht": 7}},
        "training": {"epochs": 1},
        "logging": {"tensorboard": False},
    }
    run = ended_here(code, values)
    assert run.status().state is RunState.COMPLETED, run.status().failure
    keys: list[str] = run.evidence("resolved")["ignored_keys"]
    return keys
