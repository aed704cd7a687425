"""The key by which `data.split` divides a user's samples: read off them, no input, and groups for intervals."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import IterableDataset

from trainwright.tools.evaluation import Others, Sealed, evaluate_program
from trainwright.trainer.assembly.raw_splits import raw_splits_of
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.assemble import from_user, user_parts
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.jobs.data_worker import fix_rows
from trainwright.trainer.run import RunDirectory, RunKind, RunState
from trainwright.trainer.run.artifacts import FixedRows
from trainwright.trainer.run.digests import run_digests
from trainwright.trainer.supervision.stop import StopRequest

PATIENT = SplitSection(by="group", group="patient", validation=0.25, test=0.25)
HEARD = """
class Heard(torch.utils.data.Dataset):
    def __init__(self):
        self.x = torch.randn(480, 4, generator=torch.Generator().manual_seed(0))
        self.x[:, 3] = torch.arange(480) // 12
    def __len__(self): return 480
    def __getitem__(self, i):
        return {"x": self.x[i], "patient": f"p{i // 12:02}", "label": (self.x[i, 0] > 0).long()}
def data(): return Heard()
"""
VALUES: dict[str, Any] = {
    "model": {"use": "mine:Net"},
    "data": {"use": "mine:data", "split": PATIENT.model_dump(exclude_unset=True)},
    "loader": {"batch_size": 16},
    "training": {"epochs": 1},
    "logging": {"tensorboard": False},
    "metrics": ["accuracy"],
}


def samples(count: int = 100, patients: int = 20) -> list[dict[str, Any]]:
    """Return recordings whose first number says whose they are."""
    return [
        {"x": torch.tensor([float(n % patients), float(n)]), "label": n % 2, "patient": f"p{n % patients}"}
        for n in range(count)
    ]


class Stream(IterableDataset[Any]):
    """Some samples in one order."""

    def __init__(self, chosen: list[dict[str, Any]]) -> None:
        self.chosen = chosen

    def __len__(self) -> int:
        return len(self.chosen)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.chosen)


@pytest.mark.requirement("TRAIN-1")
def test_a_text_key_divides_whole_groups_and_is_no_part_of_the_samples() -> None:
    splits = from_user(samples(), PATIENT, source="own", seed=0)
    assert {tuple(sample) for part in splits.samples.values() for sample in part} == {("x", "label")}
    seen = {name: {int(sample["x"][0]) for sample in part} for name, part in splits.samples.items()}
    assert sum(map(len, seen.values())) == len(set.union(*seen.values())) == 20
    assert splits.split is not None
    assert splits.split["groups"] == {name: len(patients) for name, patients in seen.items()}


def test_a_recording_that_two_patients_have_keeps_them_in_one_split() -> None:
    given = samples()
    given[1] = given[0] | {"patient": "p1"}
    splits = from_user(given, PATIENT, source="own", seed=0)
    both = [name for name, part in splits.samples.items() if {0, 1} & {int(one["x"][0]) for one in part}]
    assert len(both) == 1


def test_dates_divide_in_the_spelling_that_samples_have_them_in() -> None:
    days = [date(2026, 1, 1) + timedelta(days=n // 4) for n in range(100)]
    section = SplitSection(by="time", time="day")
    for spelled in (days, [day.isoformat() for day in days], [day.strftime("%d.%m.%Y") for day in days]):
        given = [{"x": torch.tensor([float(n)]), "day": day} for n, day in enumerate(spelled)]
        own = user_parts(given, section)
        assert [float(one["x"]) for name in ("train", "validation", "test") for one in own.samples[name]] == [
            *range(100)
        ]
        assert {tuple(one) for one in own.samples["test"]} == {("x",)}


def test_the_target_stays_where_it_is_what_divides() -> None:
    own = user_parts(
        [{"x": torch.tensor([float(n)]), "label": n % 10} for n in range(60)], SplitSection(by="group", group="label")
    )
    assert {tuple(one) for one in own.samples["train"]} == {("x", "label")}


@pytest.mark.parametrize("kind", [list, Stream])
def test_groups_are_read_off_samples_that_the_user_divided(kind: Any) -> None:
    given = samples()
    parts = {
        name: kind([one for one in given if int(one["x"][0]) in of])
        for name, of in {"train": range(12), "validation": range(12, 16), "test": range(16, 20)}.items()
    }
    own = user_parts(parts, PATIENT)
    assert not own.divided
    for name, part in own.samples.items():
        found = [*part]
        assert len(found) == len(part)
        assert {tuple(one) for one in found} == {("x", "label")}
        assert own.key is not None
        assert own.key[own.places[name]].tolist() == [f"p{int(one['x'][0])}" for one in found]
    with pytest.raises(DataError, match="patient 'p0' and 11 more are in train and in test, as your code divides"):
        user_parts({"train": parts["train"], "test": parts["train"]}, PATIENT)


def test_what_no_rows_are_divided_by_is_named() -> None:
    for wrong, told in (([1, 2], "is a list"), (torch.zeros(2), "is a Tensor"), (None, "is empty in 100 of 100")):
        with pytest.raises(DataError, match=told):
            from_user([one | {"patient": wrong} for one in samples()], PATIENT, source="own", seed=0)


def test_shared_times_of_own_data_are_the_units_of_intervals(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import torch\ndef data(): return [{'x': torch.ones(1) * n, 'day': n // 4, 'y': n % 2} for n in range(80)]"
    )
    data = {"use": "mine.py:data", "split": {"by": "time", "time": "day"}}
    raw = raw_splits_of(TrainingConfig.model_validate({"model": {"use": "mlp"}, "data": data}), tmp_path)
    assert raw.grouped_by == "times"
    assert {*np.unique(raw.groups["test"], return_counts=True)[1]} == {4}


@pytest.mark.slow
@pytest.mark.requirement("GATE-6")
def test_a_run_by_patients_trains_exports_and_is_certified_over_whole_patients(
    prepared: Any, make_run: Any, work: Any, tmp_path: Path
) -> None:
    smoke: RunDirectory = prepared(HEARD, VALUES, kind=RunKind.SMOKE)
    fix_rows(smoke, smoke.specification(), 1, StopRequest(smoke.stop_reason))
    fixed = smoke.part(FixedRows).splits["validation"]
    assert fixed.order == ["x"]
    run = make_run(tmp_path / "run-2", VALUES, code_root=str(tmp_path / "project"), exports_program=True)
    assert work(run) == 0, run.log.read_text()
    assert run.evidence("program")["inputs"] == ["x"]
    found = evaluate_program(Sealed(run, run_digests(run)), Others(Sealed(smoke, run_digests(smoke))))
    assert found is not None
    record = found.splits["validation"]
    rows = np.load(smoke.artifacts / fixed.inputs["x"].path)
    assert (record["rows"], record["groups"], record["grouped_by"]) == (120, len(np.unique(rows[:, 3])), "groups")
    assert "accuracy" in record["intervals"]


@pytest.mark.slow
def test_a_forward_that_wants_the_key_is_told_that_it_is_no_input(ended_here: Any) -> None:
    code = HEARD + "class Net(Net):\n    def forward(self, x, patient): return super().forward(x)\n"
    run = ended_here(code, VALUES, kind=RunKind.SMOKE, max_steps=2)
    assert run.status().state is RunState.FAILED
    failure = run.status().failure
    assert "requires `patient`, by which data.split divides the samples" in failure.message
    assert "under another name" in failure.remedy
