"""load.py of models that user code built with its data, of a package's, and beside adapters that are not merged."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import save_file
from torch import nn

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.jobs.export.loaded import ship_loader
from trainwright.trainer.jobs.export.served import rows_to_call_with, served_of
from trainwright.trainer.models.image_library import import_timm
from trainwright.trainer.run.results import Loaded
from trainwright.trainer.user_code.constructions import CALL, made_with, remembered

pytestmark = pytest.mark.requirement("CKPT-5", "PHASE-6")

TASK = """\
import torch
from torch import nn
from parts import Net

ROWS = torch.arange(120, dtype=torch.float32).reshape(40, 3).sin()


def build(config, context):
    labels = torch.arange(40) % 4
    model = {model}
    pairs = [(row, label) for row, label in zip(ROWS, labels)]
    return {{"model": model, "train": pairs[:30], "validation": pairs[30:], "loss": "cross_entropy"}}
"""
PARTS = """\
import numpy
from torch import nn


class Base(nn.Module):
    def __init__(self, *widths, bias=True):
        super().__init__()
        self.layer = nn.Linear(widths[0], widths[-1], bias=bias)

    def forward(self, x):
        return self.layer(x)


class Net(Base):
    def __init__(self, features, names, table=None):
        super().__init__(features, len(names))
"""


def shipped(session: Any, folder: Path, **written: Any) -> Loaded:
    """Ship the session's model with its weights and what loads them."""
    folder.mkdir(exist_ok=True)
    rows, are_real = rows_to_call_with(session)
    state = {name: value.contiguous() for name, value in session.model.state_dict().items()}
    save_file(state, folder / "model.safetensors")
    served = served_of(session, rows, are_real=are_real)
    return ship_loader(session, served.serving, rows, folder, {"library": None, "adapter": None, **written})


@pytest.fixture
def built(tmp_path: Path, open_session: Any) -> Any:
    """`built(model)` ships the model of a task that makes it by this expression."""

    def shipping(model: str) -> Loaded:
        (tmp_path / "task.py").write_text(TASK.format(model=model))
        (tmp_path / "parts.py").write_text(PARTS)
        return shipped(open_session({"task": {"use": "task.py:build"}, "loss": "cross_entropy"}), tmp_path / "m")

    return shipping


def test_a_model_built_with_its_data_is_made_again_by_what_its_class_was_given(built: Any, tmp_path: Path) -> None:
    found = built("Net(ROWS.shape[1], ['a', 'b', *'cd'])")
    assert (found.kind, found.problem, found.max_abs_difference) == ("from_source", None, 0.0)
    assert found.needs == "torch safetensors numpy"
    assert found.made_with == {CALL: "parts:Net", "args": [], "options": {"features": 3, "names": ["a", "b", "c", "d"]}}
    assert not (tmp_path / "m" / "code" / "task.py").exists()
    done = subprocess.run([sys.executable, "load.py"], cwd=tmp_path / "m", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_a_model_of_parts_is_made_again_by_the_calls_of_its_parts(built: Any) -> None:
    found = built("nn.Sequential(Net(3, 'abcde'), nn.ReLU(), nn.Linear(5, int(labels.max()) + 1))")
    assert (found.kind, found.problem, found.max_abs_difference) == ("from_source", None, 0.0)
    assert found.made_with["args"][1] == {CALL: "torch.nn.modules.activation:ReLU", "args": [], "options": {}}


@pytest.mark.parametrize(
    ("model", "why"),
    [
        ("Net(3, 'abcd', table=ROWS)", "Net was called with argument `table`, a Tensor, which is no number"),
        ("__import__('copy').deepcopy(Net(3, 'abcd'))", "Net was not made by calling its class"),
        ("type('Other', (Net,), {'__qualname__': 'build.<locals>.Other'})(3, 'abcd')", "defined inside a function"),
    ],
)
def test_what_no_file_can_repeat_is_told_in_words(built: Any, tmp_path: Path, model: str, why: str) -> None:
    found = built(model)
    assert found.kind is None
    assert why in found.problem
    assert [path.name for path in (tmp_path / "m").rglob("*")] == ["model.safetensors"]


def test_a_function_that_reads_the_data_gives_way_to_the_call_that_it_made(open_session: Any, tmp_path: Path) -> None:
    (tmp_path / "parts.py").write_text(PARTS)
    (tmp_path / "width").write_text("4")
    text = (
        "from pathlib import Path\nfrom parts import Net\n\n\ndef build():\n    return Net(int((Path(__file__).parent"
    )
    (tmp_path / "model.py").write_text(f"{text} / 'width').read_text()), 'abc')\n")
    found = shipped(open_session({"model": {"use": "model.py:build"}, "data": {"use": "iris"}}), tmp_path / "m")
    assert (found.kind, found.problem) == ("from_source", None)
    assert found.made_with == {CALL: "parts:Net", "args": [], "options": {"features": 4, "names": "abc"}}


class Placed(nn.Module):
    """Takes arguments of every kind."""

    def __init__(self, first: int, *more: int, last: Any = None, **others: Any) -> None:
        super().__init__()


def test_a_call_is_kept_as_plain_values_and_keeps_no_model_alive() -> None:
    with remembered() as keep:
        model = Placed(1, 2, last=np.int64(3), named={"a": (0.5, None)})
        keep(model)
        keep("no module")
    name = f"{Placed.__module__}:Placed"
    assert made_with(model) == {CALL: name, "args": [1, 2], "options": {"last": 3, "named": {"a": [0.5, None]}}}
    assert made_with(Placed(1)) is None
    with remembered() as keep:
        model = Placed(1, last=float("inf"))
        keep(model)
    with pytest.raises(ConfigurationError, match="argument `last`, a float"):
        made_with(model)
    gone = weakref.ref(model)
    del model, keep
    gc.collect()
    assert gone() is None


TIMM = """\
from torch import nn


class Net(nn.Module):
    def __init__(self, classes, channels, weights):
        super().__init__()
        self.layer = nn.Linear(channels, classes, bias=weights)

    def forward(self, x):
        return self.layer(x.mean((2, 3)))


def list_models():
    return ["tiny"]


def create_model(name, pretrained=False, num_classes=1000, in_chans=3, drop_rate=0.0):
    return Net(num_classes, in_chans, True)
"""


@pytest.fixture(params=["tiny", "resnet10t"])
def of_timm(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model's name: of a package in timm's place, which has its function, and of the real one where it is there."""
    if request.param != "tiny":
        try:
            import_timm()
        except ConfigurationError as error:
            pytest.skip(error.message[:100])
        return str(request.param)
    (tmp_path / "libraries" / "timm").mkdir(parents=True)
    (tmp_path / "libraries" / "timm" / "__init__.py").write_text(TIMM)
    monkeypatch.syspath_prepend(str(tmp_path / "libraries"))
    for name in [name for name in sys.modules if name.partition(".")[0] == "timm"]:
        monkeypatch.delitem(sys.modules, name)
    return "tiny"


def test_a_model_of_timm_is_made_again_by_its_name_and_sizes(of_timm: str, open_session: Any, tmp_path: Path) -> None:
    args = {"model": of_timm, "options": {"drop_rate": 0.1}}
    found = shipped(open_session({"model": {"use": "timm", "args": args}, "data": {"use": "digits"}}), tmp_path / "m")
    assert (found.kind, found.problem, found.needs) == ("from_source", None, "torch safetensors timm")
    options = {"num_classes": 10, "in_chans": 1, "drop_rate": 0.1, "pretrained": False}
    assert found.made_with == {CALL: "timm:create_model", "args": [of_timm], "options": options}
