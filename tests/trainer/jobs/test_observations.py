"""A policy's final model answers what episodes give it, and the user's function plays them from the folder alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.trainer.jobs.test_predict import answers, released, run, sums, used
from tests.worlds.pole import CODE, CONFIG

from trainwright.trainer.jobs.export.observations import observations
from trainwright.trainer.jobs.export.predict import ship_predict
from trainwright.trainer.jobs.export.proof import prove
from trainwright.trainer.jobs.export.served import rows_to_call_with, served_of
from trainwright.trainer.run.results import Skew

pytestmark = pytest.mark.requirement("CKPT-5", "PIPE-3")

CODE_OF_POLICY = f"""{CODE}

class Policy(torch.nn.Linear):
    def __init__(self):
        super().__init__(4, 2, bias=False)
        self.weight.data = torch.tensor([[0.0, 0.0, 0.0, 0.0], [0.0, 0.1, 1.0, 0.5]])


def action(output):
    return {{"push": ("left", "right")[int(output[0] < output[1])]}}
"""


@pytest.mark.long
def test_a_policy_answers_observations_of_its_episodes_in_the_users_words(tmp_path: Path, open_session: Any) -> None:
    (tmp_path / "pole.py").write_text(CODE_OF_POLICY)
    data = CONFIG["data"] | {"present": "pole.py:action"}
    changed = {"code_root": ".", "data": data, "model": {"use": "pole.py:Policy"}, "evaluation_gate": None}
    session = open_session({**CONFIG, **changed})
    session.model.eval()
    rows, are_real = rows_to_call_with(session)
    served = served_of(session, rows, are_real=are_real)
    seen = observations(session, served, 50)
    assert seen is not None
    assert seen["input"].shape == (50, 4)
    assert float(seen["input"][0].abs().max()) <= 0.05, "where an episode starts"
    assert float(seen["input"][:, 1].abs().max()) > 0.2, "a speed that no row has"

    folder = released(tmp_path / "m", {"kind": "array", "arrays": {}, "answer": {"kind": "own", "target": ""}},
                      sums(session.model.weight.detach().numpy().T, shape=["rows", 4]))  # fmt: skip
    schema = ship_predict(session, served, folder)
    assert schema is not None
    assert schema["arrays"] == {"input": {"shape": [4], "dtype": "float32"}}, "no range: its rows are starts"
    proven = prove(session, folder, served, schema)
    assert isinstance(proven, Skew)
    assert proven.rows_compared == 256 > len(session.work.splits.samples["validation"])
    assert [one["answer"] for one in answers(run(folder, "--json", "[[0, 0, 0.1, 0], [0, 0, -0.1, 0]]"))] == [
        {"push": "right"}, {"push": "left"}]  # fmt: skip

    (balanced,) = (one.compute for one in session.work.metrics if one.episodes)
    weight = session.model.weight.detach().numpy().T
    length = balanced(lambda cells: np.asarray(cells, dtype=np.float32) @ weight, 1)
    played = used(folder, schema["episodes"]["use"])
    assert (played.stdout.strip(), played.stderr) == (str(length), "")
    assert (folder / "code" / "pole.py").read_text() == CODE_OF_POLICY
