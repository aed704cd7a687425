"""The smoke run's probe of `data.prepare` and `data.present`: what the export would refuse is named in planning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.trainer.users import MINE, PARTS

from trainwright.trainer.jobs import export_probe, own_probe
from trainwright.trainer.jobs.export_probe import probe_export
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.artifacts import ExportProbe

pytestmark = pytest.mark.requirement("GATE-1", "CKPT-5")

TEXTS = """
class Texts(torch.utils.data.Dataset):
    def __init__(self, seed):
        self.rows = torch.randn(20, 4, generator=torch.Generator().manual_seed(seed))
        self.raw_inputs = [" ".join(map(str, row)) for row in self.rows.tolist()]
    def __len__(self): return 20
    def __getitem__(self, i): return self.rows[i], int(self.rows[i, 0] > 0)
def texts(): return {"train": Texts(0), "validation": Texts(1)}
"""
SERVE = """
import numpy
from beside import KIND

def prepare(text):
    return numpy.array(text.split(), dtype=KIND)

def present(output, text):
    return {"said": ["no", "yes"][int(output[0] < output[1])], "to": text}
"""
OWN = {"prepare": "serve.py:prepare", "present": "serve.py:present"}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine under test is busy."""
    monkeypatch.setattr(own_probe, "SECONDS", 30.0)


def probed(open_session: Any, folder: Path, serve: str = SERVE, data: str = TEXTS, **more: Any) -> ExportProbe:
    own = {key: more.pop(key) for key in OWN if key in more} or OWN
    name = f"own_{abs(hash((serve, data, str((own, more))))):x}"
    (folder / f"{name}.py").write_text(MINE + data)
    (folder / "serve.py").write_text(serve)
    (folder / "beside.py").write_text("KIND = 'float32'\n")
    section = {"model": {"use": f"{name}:Net"}, "data": {"use": f"{name}:texts", **own}, **more}
    return probe_export(open_session({**PARTS, **section}))


def test_a_present_that_runs_the_program_itself_is_tried_by_the_export(open_session: Any, tmp_path: Path) -> None:
    found = probed(open_session, tmp_path, SERVE.replace("present(output, text)", "present(output, text, run)"))
    assert (found.own_problem, found.own_reason) == (
        "", "data.present, since what `run` gives is known in the export alone"
    )  # fmt: skip


def test_functions_that_answer_as_the_model_does_have_no_problem(open_session: Any, tmp_path: Path) -> None:
    found = probed(open_session, tmp_path)
    assert (found.own_problem, found.own_reason, found.problem) == ("", "", "")
    assert found.parity.passed


def test_a_smoke_run_calls_functions_of_files_that_it_has_not_imported(ended: Any, tmp_path: Path) -> None:
    (root := tmp_path / "project").mkdir()
    (root / "serve.py").write_text(SERVE)
    (root / "beside.py").write_text("KIND = 'float32'\n")
    values = {**PARTS, "data": {"use": "mine:texts", **OWN}}
    found = ended(TEXTS, values, kind=RunKind.SMOKE, max_steps=4).part(ExportProbe)
    assert (found.own_problem, found.problem, found.parity.passed) == ("", "", True)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("def prepare", "def made", "`data.prepare` = 'serve.py:prepare': serve.py defines no 'prepare'"),
        ("def present", "def said", "`data.present` = 'serve.py:present': serve.py defines no 'present'"),
        ("text.split()", "text.split(',')", "could not convert string to float"),
        ("return numpy", "return {}[text]; numpy", "(serve.py, line 6: return {}[text]; numpy.array"),
        ("text.split()", "text.split()[:3]", "makes of raw input 1 input of shape (3,), and the validation sample has"),
        (".split(), dtype=KIND)", ".split(), dtype=KIND) + 1", "input that differs from the validation sample's by up"),
        ("return numpy", "return 2 * [0]; numpy", "input of shape (2,)"),
        ('["no", "yes"]', '["no"][1:]', "`data.present` (serve.py:present): IndexError"),
        ('"to": text', '"to": float("nan")', "`data.present` (serve.py:present): ValueError"),
        ("return numpy", "raise SystemExit(3); numpy", "`data.prepare` (serve.py:prepare): SystemExit: 3"),
        ("return numpy", "import os; os._exit(3); numpy", "ended the process (exit code 3)"),
        ("def prepare(text)", "def prepare(text", "'(' was never closed (serve.py, line 5)"),
        ("return numpy", "print('x'); return numpy", "prints to standard output"),
        ("from beside import KIND", "import absent", "`data.prepare` (serve.py:prepare): ModuleNotFoundError"),
        ("import numpy", "import numpy; open('weights.txt')", "FileNotFoundError"),
    ],
)
def test_what_the_export_would_refuse_is_named_with_the_users_line(
    open_session: Any, tmp_path: Path, old: str, new: str, told: str
) -> None:
    assert SERVE.count(old) == 1
    found = probed(open_session, tmp_path, SERVE.replace(old, new))
    assert told in found.own_problem
    assert found.own_remedy
    assert found.problem == "", "the model itself has its program"


@pytest.mark.parametrize(
    ("raw", "told"),
    [("self.other", "nothing says what the held-out samples were raw"), ("self.raw_inputs, _", "2 entries for 20")],
)
def test_raw_inputs_that_are_missing_or_too_few_are_named(
    open_session: Any, tmp_path: Path, raw: str, told: str
) -> None:
    given = "['a', 'b'], 1" if "_" in raw else "[1]"
    data = TEXTS.replace("self.raw_inputs = [", f"{raw} = {given}; _ = [")
    found = probed(open_session, tmp_path, data=data)
    assert told in found.own_problem
    assert "attribute `raw_inputs`" in found.own_remedy


def test_what_the_model_does_not_heed_is_no_problem(open_session: Any, tmp_path: Path) -> None:
    data = TEXTS + "Deep = Net\nclass Net(Deep):\n    def forward(self, x): return super().forward(x.round())\n"
    assert probed(open_session, tmp_path, SERVE.replace("KIND)", "KIND).round()"), data=data).own_problem == ""


def test_inputs_are_compared_where_the_model_is_not_called(
    open_session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_probe, "MAX_BYTES", 100)
    found = probed(open_session, tmp_path)
    assert (found.own_problem, found.own_reason) == ("", "data.present, since the model was not called")
    found = probed(open_session, tmp_path, SERVE.replace("KIND)", "KIND) + 1"))
    assert "differs from the validation sample's by up to 1" in found.own_problem


def test_functions_that_take_long_are_left_and_the_run_goes_on(
    open_session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_probe, "SECONDS", 0.3)
    found = probed(open_session, tmp_path, SERVE.replace("import numpy", "import time; time.sleep(60); import numpy"))
    assert found.own_problem == ""
    assert "(serve.py:present), which had not answered after 0.3 s" in found.own_reason


def test_outputs_that_nothing_says_the_meaning_of_are_told_apart_from_the_targets_own_values(
    open_session: Any, tmp_path: Path
) -> None:
    def of(data: str, **more: str) -> bool:
        return probed(open_session, tmp_path, data=data, prepare="serve.py:prepare", **more).answers_outputs

    assert of(TEXTS)
    assert not of(TEXTS, present="serve.py:present")
    assert not of(TEXTS.replace("int(self.rows[i, 0] > 0)", "self.rows[i, :2]"), loss="mse"), "a regression"
