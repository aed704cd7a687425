"""What changes from one call to the next has no program, and the cause is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.trainer.users import PARTS
from torch import nn

from trainwright.trainer.base.errors import ConfigurationError, UserCodeError
from trainwright.trainer.engine.totals import EpochTotals
from trainwright.trainer.jobs.export.inputs import real_rows
from trainwright.trainer.jobs.export.program import prepared, require_comparable
from trainwright.trainer.jobs.export_probe import probe_export
from trainwright.trainer.objectives.objective import Outcome

DROPS = "class Net(Net):\n    def forward(self, x): return nn.functional.dropout(super().forward(x), 0.5)"
ATTENDS = """
class Net(Net):
    def forward(self, x):
        rows = self.layers[0](x)[:, None]
        return self.layers[2](nn.functional.scaled_dot_product_attention(rows, rows, rows, dropout_p=0.5)[:, 0])
"""
NOISY = "class Net(Net):\n    def forward(self, x): return super().forward(x + torch.randn_like(x))"


@pytest.mark.requirement("GATE-6", "DIAG-7")
@pytest.mark.parametrize(
    ("code", "remedy"), [(DROPS, "training=self.training"), (ATTENDS, "self.training"), (NOISY, "Draw random numbers")]
)
def test_a_model_that_answers_otherwise_each_time_is_told_why(
    code: str, remedy: str, open_session: Any, tmp_path: Path, mine: str
) -> None:
    (tmp_path / "mine.py").write_text(mine + code)
    session = open_session(PARTS)
    session.model.eval()
    serving, rows, batch = prepared(session)
    with pytest.raises(ConfigurationError, match="other outputs for the same inputs") as raised:
        require_comparable(session, serving, rows, batch)
    assert remedy in raised.value.remedy
    assert ("dropout" in raised.value.message) is (code != NOISY)


SMOOTH = (
    "class Net(Net):\n    def forward(self, x):\n        y = super().forward(x)\n        return (y + y.roll(1, 0)) / 2"
)
NORMED = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(4, 2), nn.BatchNorm1d(2, track_running_stats=False)
    def forward(self, x): return self.norm(self.first(x))
"""


@pytest.mark.requirement("GATE-6", "DIAG-7")
@pytest.mark.parametrize(("code", "remedy"), [(SMOOTH, "no mean, sort"), (NORMED, "norm normalizes by its batch")])
def test_a_model_that_answers_a_row_by_its_neighbours_is_told_so_in_planning(
    code: str, remedy: str, open_session: Any, tmp_path: Path, mine: str
) -> None:
    (tmp_path / "mine.py").write_text(mine + code)
    found = probe_export(open_session(PARTS))
    assert "for a row alone than for the same row among others" in (found.problem or "")
    assert remedy in (found.remedy or "")


@pytest.mark.requirement("GATE-6")
def test_rows_that_are_others_each_time_are_told_and_taken_for_no_ragged_ones(
    open_session: Any, tmp_path: Path, mine: str
) -> None:
    code = """
class Rows(torch.utils.data.Dataset):
    generator = torch.Generator().manual_seed(1)
    def __len__(self): return 40
    def __getitem__(self, i): return torch.randn(4, generator=self.generator), i % 2
def data(): return Rows()
"""
    (tmp_path / "mine.py").write_text(mine + code)
    with pytest.raises(ConfigurationError, match="other values each time that they are read"):
        real_rows(open_session(PARTS))


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize("shapes", [[()], [(3, 2), (2,)]])
def test_an_output_without_its_batch_is_the_users(shapes: list[tuple[int, ...]]) -> None:
    totals = EpochTotals()
    with pytest.raises(UserCodeError, match=r"the dimension of the batch is lost"):
        for shape in shapes:
            totals.add(Outcome(nn.Parameter(torch.ones(())), torch.ones(shape), torch.ones(3)), 1, gather=True)
