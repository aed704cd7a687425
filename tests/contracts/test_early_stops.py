"""A library's trainer that its own callback stops in the middle of an epoch leaves a record that counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.variants import variants

from trainwright.tools.ledger.summaries import summary_problem
from trainwright.trainer.base import releases
from trainwright.trainer.run import RunState

SCRIPTS = Path(__file__).parent / "own_trainers"


@pytest.mark.forks
@pytest.mark.slow
@pytest.mark.requirement("TRAIN-7", "GATE-3")
@pytest.mark.parametrize(
    "library", variants(["transformers", "lightning"], quick=["lightning"], newer={"transformers": releases.TRAINER})
)
def test_a_stop_inside_an_epoch_leaves_a_summary_that_follows_from_the_series(
    library: str, tmp_path: Path, make_run: Any, work: Any
) -> None:
    __import__({"transformers": "transformers", "lightning": "lightning.pytorch"}[library])  # not in every fork
    values = {
        "trainer": {"use": f"stops_early.py:make_{library}"},
        "logging": {"every_n_steps": 1, "tensorboard": False},
    }
    run = make_run(tmp_path / "run", values, code_root=str(SCRIPTS))
    assert work(run) == 0, run.log.read_text()
    assert run.status().state is RunState.COMPLETED
    summary = run.evidence("summary")
    assert (summary["stop_reason"], summary["steps"], summary["epochs"]) == ("early_stopping", 7, 1)
    assert summary_problem(run) is None

    path = run.artifacts / "summary.json"
    path.write_text(path.read_text().replace('"epochs": 1', '"epochs": 0'))
    assert summary_problem(run) is not None, "one epoch, and no more, may be incomplete"
