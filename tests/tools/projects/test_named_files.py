"""Arguments of the user's functions, held to their parameters before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainwright.tools import projects
from trainwright.tools.projects.named_files import require_files
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import parse_config

CODE = """
import functools
import torch

def load(path, scale=1.0): ...
def any_of(**options): ...
@functools.cache
def cached(path): ...
def wrapped(path): ...
wrapped = functools.partial(any_of, path="a")
class Net(torch.nn.Module):
    def __init__(self, width: int, *, depth: int = 2): ...
class Bare(torch.nn.Module): ...
"""


def check(folder: Path, data: tuple[str, dict[str, Any]], model: tuple[str, dict[str, Any]], *changed: str) -> None:
    (folder / "own.py").write_text(CODE)
    sections = {"data": data, "model": model}
    values: dict[str, Any] = {name: {"use": use, "args": args} for name, (use, args) in sections.items()}
    require_files(dict.fromkeys(changed, 1) or values, parse_config(values), folder)


@pytest.mark.requirement("CONF-1")
@pytest.mark.parametrize(
    ("data", "model"),
    [
        (("own.py:load", {"path": "a", "scale": 2}), ("own.py:Net", {"width": 3, "depth": 1})),
        (("own.py:any_of", {"whatever": 1}), ("own.py:Bare", {"whatever": 1})),
        (("own.py:cached", {"whatever": 1}), ("mlp", {"hidden": [8]})),
        (("own.py:wrapped", {"whatever": 1}), ("mlp", {"hidden": [8]})),
    ],
)
def test_arguments_that_a_function_takes_or_whose_text_leaves_open_pass(data: Any, model: Any, tmp_path: Path) -> None:
    check(tmp_path, data, model)


@pytest.mark.requirement("CONF-1")
@pytest.mark.parametrize(
    ("data", "model", "changed", "says", "changes"),
    [
        (("own.py:load", {"path": "a", "standardize": True}), ("mlp", {}), ["data.args.standardize"],
         r"load\(path, scale\) of own.py takes no 'standardize'", {"data.args.standardize": None}),
        (("own.py:load", {"path": "a"}), ("own.py:Net", {"widht": 8}), [],
         r"Net\(width, depth\) of own.py takes no 'widht'", {"model.args.widht": None, "model.args.width": 8}),
    ],
)  # fmt: skip
def test_an_argument_that_no_parameter_takes_is_refused_before_a_run(
    data: Any, model: Any, changed: list[str], says: str, changes: dict[str, Any], *, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=says) as refused:
        check(tmp_path, data, model, *changed)
    assert refused.value.details["changes"] == changes


@pytest.mark.requirement("CONF-1")
def test_an_argument_of_a_section_that_a_call_leaves_alone_is_left_to_the_run(tmp_path: Path) -> None:
    check(tmp_path, ("own.py:load", {"standardize": True}), ("mlp", {}), "optimizer.learning_rate")


@pytest.mark.requirement("GATE-6")
def test_a_function_named_like_a_built_in_metric_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def dice(outputs, targets): return 0.5\n")
    values = {"model": {"use": "mlp"}, "data": {"use": "digits"}, "metrics": ["own.py:dice"]}
    with pytest.raises(ConfigurationError, match="that is the name of the built-in metric `dice`") as caught:
        require_files(values, parse_config(values), tmp_path)
    assert "own_dice" in caught.value.remedy


@pytest.mark.parametrize(
    ("path", "order"), [("[no]*.csv", "new.csv, old.csv"), (["old.csv", "new.csv"], "old.csv, new.csv")]
)
def test_a_changed_path_is_answered_with_the_files_that_it_stands_for(tmp_path: Path, path: object, order: str) -> None:
    for name in ("old.csv", "new.csv", "other.txt"):
        (tmp_path / name).write_text("a,b\n1,0\n")
    workspace = Workspace.open(tmp_path / "workspace")
    values = {"model": {"use": "mlp"}, "data": {"use": "csv", "args": {"path": "old.csv", "target": "b"}}}
    goal = {"metric": "accuracy", "direction": "maximize", "target": 0.8}
    values["code_root"] = str(tmp_path)  # type: ignore[assignment]
    projects.create_project(workspace, "one", intent="", goal=goal, config=values)
    answer = projects.configure(workspace, "one", changes={"data.args.path": path}, reason="both")
    assert answer.taken_as == [f"data.args.path stands for 2 files: {order}"]
    assert projects.configure(workspace, "one", changes={"training.epochs": 3}, reason="less").taken_as is None
    workspace.close()
