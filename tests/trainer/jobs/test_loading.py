"""load.py: the weights of a released folder become the torch model again, by its own source or plain transformers."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from trainwright.trainer.base.errors import ConfigurationError, IntegrityError
from trainwright.trainer.jobs.export import isolated
from trainwright.trainer.jobs.export.loaded import ship_loader, tensors_in
from trainwright.trainer.jobs.export.own_functions import ship_source
from trainwright.trainer.jobs.export.served import rows_to_call_with, served_of
from trainwright.trainer.jobs.export.serving import Serving
from trainwright.trainer.models import dlinear, ft_transformer, gpt, resnet, small, tabular_resnet, unet
from trainwright.trainer.prediction.assembly import alone, loading
from trainwright.trainer.run.results import Loaded

pytestmark = pytest.mark.requirement("CKPT-5", "PHASE-6")

NET = """\
from torch import nn
from .blocks import width
from pieces import letters


class Net(nn.Module):
    def __init__(self, wide=2):
        super().__init__()
        self.layer = nn.Linear(4, wide * width())

    def forward(self, x):
        return self.layer(x.float())[:, :3]
"""
LOGS = "from torch.utils.tensorboard import SummaryWriter\n\n"
"""Imports a package that torch does not require."""
FILES = {
    "nets/__init__.py": "", "nets/net.py": NET, "nets/blocks.py": "from nets.deep import WIDTH\n\n\ndef width():\n"
    "    return WIDTH\n", "nets/deep.py": "WIDTH = 3\n", "pieces/letters.py": f"{LOGS}LETTERS = 'ab'\n",
    "unused.py": "",
}  # fmt: skip
NETWORKS = (dlinear, ft_transformer, gpt, resnet, small, tabular_resnet, unet)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A code root with a model in a package."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def shipped(session: Any, folder: Path, **written: Any) -> Loaded:
    """Ship the session's model with its weights and what loads them."""
    folder.mkdir()
    rows, are_real = rows_to_call_with(session)
    save_file(
        {name: value.contiguous() for name, value in session.model.state_dict().items()}, folder / "model.safetensors"
    )
    served = served_of(session, rows, are_real=are_real)
    return ship_loader(session, served.serving, rows, folder, {"library": None, "adapter": None, **written})


BOTH_WAYS = """\
import runpy, sys
sys.path[:0] = ["."]
from load import load
try:
    print(load())
except ImportError as error:
    print(error)
runpy.run_path("load.py", run_name="__main__")
"""


def used_both_ways(folder: Path) -> subprocess.CompletedProcess[str]:
    """Import load.py and then run it, in one process: torch takes seconds to load."""
    command = [sys.executable, "-c", BOTH_WAYS]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def values(use: str, **args: Any) -> dict[str, Any]:
    return {"model": {"use": use, "args": args}, "data": {"use": "iris"}}


def test_source_is_shipped_with_what_it_imports_and_no_more_than_a_megabyte(root: Path, tmp_path: Path) -> None:
    assert ship_source(root / "nets" / "net.py", root, tmp_path / "m") == "code/nets/net.py"
    found = sorted(path.relative_to(tmp_path / "m" / "code").as_posix() for path in (tmp_path / "m").rglob("*.py"))
    assert found == ["nets/__init__.py", "nets/blocks.py", "nets/deep.py", "nets/net.py", "pieces/letters.py"]
    (root / "unused.py").write_text(f"DATA = '{'x' * (1 << 20)}'\n")
    with pytest.raises(ConfigurationError, match="more than the 1,048,576 of source"):
        ship_source(root / "unused.py", root, tmp_path / "n")
    (root / "unused.py").write_bytes("# -*- coding: latin-1 -*-\nname = 'ä'\n".encode("latin-1"))
    with pytest.raises(ConfigurationError, match="unused.py goes with the model, and is no UTF-8: byte 34 is 0xe4"):
        ship_source(root / "unused.py", root, tmp_path / "n")


@pytest.mark.parametrize("module", [module.__name__ for module in NETWORKS])
def test_the_source_of_a_built_in_network_stands_alone(module: str) -> None:
    text = alone(module)
    compile(text, module, "exec")
    imported = {name.partition(".")[0] for node in ast.walk(ast.parse(text)) for name in (
        [alias.name for alias in node.names] if isinstance(node, ast.Import)
        else [node.module or ""] if isinstance(node, ast.ImportFrom) else [])}  # fmt: skip
    assert imported <= {"__future__", "collections", "math", "torch", "typing", "dataclasses", "itertools"}


def test_a_built_in_model_is_made_again_by_a_process_of_its_own(open_session: Any, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    found = shipped(open_session(values("mlp", hidden=[5], dropout=0.2)), folder)
    assert (found.kind, found.problem, found.needs) == ("from_source", None, "torch safetensors")
    assert found.max_abs_difference == pytest.approx(0.0, abs=1e-6)  # batches of other sizes round otherwise
    assert found.rows_compared > 20
    done = used_both_ways(folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Linear(in_features=5") == 2


def test_a_model_of_the_users_source_is_made_again(root: Path, open_session: Any, tmp_path: Path) -> None:
    found = shipped(open_session(values("nets/net.py:Net", wide=1)), tmp_path / "m")
    assert (found.kind, found.problem, found.needs) == ("from_source", None, "torch safetensors tensorboard")
    assert found.max_abs_difference == pytest.approx(0.0, abs=1e-6)  # batches of other sizes round otherwise


def test_a_model_that_its_source_does_not_make_again_gets_no_load_py(
    root: Path, open_session: Any, tmp_path: Path
) -> None:
    (root / "nets" / "deep.py").write_text(
        "import pathlib\n\nWIDTH = int((pathlib.Path(__file__).parent / 'w').read_text())\n"
    )
    (root / "nets" / "w").write_text("3")
    found = shipped(open_session(values("nets.net:Net", wide=1)), tmp_path / "m")
    assert found.kind is None
    assert "No such file" in (found.problem or "")
    assert [path.name for path in (tmp_path / "m").rglob("*") if path.is_file()] == ["model.safetensors"]


SUM = """\
from torch import nn


class Sum(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, one, other=0, more=0):
        hidden = self.layer(one + other + more)
        return hidden if isinstance(other, int) else (hidden, hidden[:, :2], hidden.t())
"""


@pytest.mark.long
def test_inputs_and_outputs_that_share_memory_are_compared_as_others_are(
    root: Path, open_session: Any, tmp_path: Path
) -> None:
    (root / "sums.py").write_text(SUM)
    session, folder = open_session(values("sums.py:Sum")), tmp_path / "m"
    folder.mkdir()
    save_file(session.model.state_dict(), folder / "model.safetensors")
    both = torch.rand(6, 4)
    rows = {"one": both[:5], "other": both[:5], "more": both[1:]}
    found = ship_loader(session, Serving(session, None), rows, folder, {"library": None, "adapter": None})
    assert (found.problem, found.rows_compared, found.max_abs_difference) == (None, 5, 0.0)


def test_a_process_that_does_not_end_is_ended_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "TIMEOUT_SECONDS", 0.2)
    with pytest.raises(IntegrityError, match=r"it does not answer: it had not ended after 0\.2 s") as refused:
        isolated.run_alone("import time\ntime.sleep(600)", [], tmp_path, needs="numpy", failed="it does not answer")
    assert "export_model" in refused.value.remedy


def test_what_a_model_gives_is_compared_tensor_by_tensor() -> None:
    one, two = torch.zeros(2), torch.ones(2, 1)
    assert len(tensors_in({"loss": torch.tensor(1.0), "logits": one, "hidden": (one, two)})) == 3
    assert tensors_in("nothing") == []


def test_a_library_model_is_read_by_plain_transformers() -> None:
    text = loading("from_library", {"name": "BertModel", "folder": "transformers"}, "About", "torch")
    compile(text, "load.py", "exec")
    assert "trainwright" not in text
    assert "HOW = {'name': 'BertModel', 'folder': 'transformers'}" in text


def test_a_missing_package_is_named_with_what_to_install_and_without_a_traceback(tmp_path: Path) -> None:
    how = {"paths": [], "model": {"__call__": "not_there:Net", "args": [], "options": {}}, "weights": "m.safetensors"}
    (tmp_path / "load.py").write_text(loading("from_source", how, "About", "torch safetensors"))
    told = "No module named 'not_there'. load.py needs torch safetensors: pip install torch safetensors"
    done = used_both_ways(tmp_path)
    assert (done.returncode, done.stdout.strip(), done.stderr.strip()) == (1, told, told)


def test_what_is_shipped_is_proven_where_nothing_of_ours_can_be_imported(tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match=r"load.py fails: (?s:.*)'trainwright' is not a package"):
        isolated.run_alone(
            f"import numpy, {isolated.OURS}.trainer", [], tmp_path, needs="numpy", failed="load.py fails"
        )


def test_what_is_shipped_is_proven_with_the_packages_that_it_names_and_those_they_require_alone(tmp_path: Path) -> None:
    names = ("numpy", "onnxruntime", "google", "scipy")
    alone = f"import importlib.util as i; print([n for n in {names} if i.find_spec(n)])"
    for needs, found in (("numpy", ["numpy"]), ("onnxruntime", ["numpy", "onnxruntime", "google"])):
        assert isolated.run_alone(alone, [], tmp_path, needs=needs, failed="") == f"{found}\n"
    with pytest.raises(IntegrityError, match=r"it fails: .*No module named 'scipy'"):
        isolated.run_alone("import scipy.stats", [], tmp_path, needs="onnxruntime", failed="it fails")
