"""Other libraries' trainers, and groups of processes, are inspected without a trace in their bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.contracts.test_frameworks import EXAMPLES, NEWER, SCRIPTS, values_of
from tests.trainer.strategies.conftest import IRIS, group_work
from tests.trainer.watch.test_watch import weights_of
from tests.variants import variants

from trainwright.trainer.base import releases
from trainwright.trainer.run import RunDirectory, RunKind

__all__ = ["group_work"]
pytestmark = [pytest.mark.slow, pytest.mark.requirement("DIAG-11")]
KEYS = ("train/loss", "validation/loss")
RATIO = "layers/update_ratio/"


def layers_of(run: RunDirectory) -> list[str]:
    """The parameters whose updates were measured."""
    keys = run.metrics().keys()
    return [key.removeprefix(RATIO) for key in keys if key.startswith(RATIO)]


@pytest.mark.long
@pytest.mark.parametrize("library", variants(EXAMPLES, quick=["transformers"], newer=NEWER))
def test_a_trainer_of_another_library_makes_the_same_steps(
    library: str, tmp_path: Path, make_run: Any, work: Any, recorded: Any
) -> None:
    __import__({"transformers": "transformers", "lightning": "lightning.pytorch"}[library])
    runs = []
    for inspect in ("auto", "off"):
        values = {**values_of(EXAMPLES[library]), "monitoring": {"inspect": inspect}}
        runs.append(make_run(tmp_path / inspect, values, code_root=str(SCRIPTS), kind=RunKind.TRIAL))
        assert work(runs[-1]) == 0, runs[-1].log.read_text()
    watched, plain = runs
    assert recorded(watched, *KEYS) == recorded(plain, *KEYS)
    assert weights_of(watched) == weights_of(plain)
    assert layers_of(watched)
    assert not layers_of(plain)
    assert ["gradients before clipping" in event.data["text"] for event in watched.events("unjudged")] == [True]
    norms = watched.metrics().series(f"layers/gradient_norm/{layers_of(watched)[0]}")
    assert all(point.value > 0 for point in norms), "of this step, not of the one before"


@pytest.mark.long
@pytest.mark.parametrize("strategy", variants(["ddp", "fsdp2"], quick=["ddp"], newer={"fsdp2": releases.FSDP2}))
def test_a_group_of_processes_makes_the_same_steps(
    strategy: str, tmp_path: Path, make_run: Any, group_work: Any, recorded: Any
) -> None:
    runs = []
    for inspect in ("auto", "off"):
        shared = {"processes": 2, "strategy": strategy}
        values = {**IRIS, "distributed": shared, "monitoring": {"inspect": inspect}}
        runs.append(make_run(tmp_path / inspect, values, kind=RunKind.TRIAL))
        assert group_work(runs[-1]) == 0, runs[-1].log.read_text()
    watched, plain = runs
    assert recorded(watched, *KEYS) == recorded(plain, *KEYS)
    assert weights_of(watched) == weights_of(plain)
    assert layers_of(watched)
    assert len(watched.events("unjudged")) == (strategy == "fsdp2")
