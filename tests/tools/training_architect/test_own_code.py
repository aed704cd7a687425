"""A plan that names the user's own code: the call that creates its project, or what is missing, in one answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainwright.tools.projects import create_project
from trainwright.tools.training_architect import PlanAnswer, plan_training
from trainwright.tools.training_architect.request import read_request
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConfigurationError

pytestmark = pytest.mark.requirement("ARCH-1")
SENTENCE = "Tell the kind of a flower, accuracy 0.9"
NET = """
from torch import nn
def Net(): return nn.Linear(2, 2)
def rows(n=50): return [([0.0, 1.0], 1)] * n
def build(config, context): return {}
"""
NETWORK = """
from torch import nn
class Net(nn.Module):
    def forward(self, images, scale=1.0): raise NotImplementedError
class Loss(nn.Module):
    def forward(self, outputs, targets): raise NotImplementedError
1 / 0
"""


def refused(**given: Any) -> ConfigurationError:
    with pytest.raises(ConfigurationError, match="cannot be looked at by a plan: code of yours runs in") as found:
        read_request(**{"intent": SENTENCE, "goal": "balanced", "limits": None, "task": None, **given})
    return found.value


@pytest.mark.parametrize(
    ("given", "config"),
    [
        (
            {"model": "net.py:Net", "data": "net.py:rows"},
            {"model": {"use": "net.py:Net"}, "data": {"use": "net.py:rows"}, "metrics": ["accuracy"]},
        ),
        (
            {"model": "mlp", "data": {"use": "net.py:rows", "args": {"n": 3}}},
            {"data": {"use": "net.py:rows", "args": {"n": 3}}, "model": {"use": "mlp", "args": {}},
             "metrics": ["accuracy"]},
        ),
        (
            {"task": "net.py:build", "intent": "The sum, with a mean absolute error below 0.1"},
            {"task": {"use": "net.py:build"}, "metrics": ["mae"], "loss": "mse"},
        ),
    ],
)  # fmt: skip
def test_the_call_that_creates_its_project_is_next(
    given: dict[str, Any], config: dict[str, Any], tmp_path: Path
) -> None:
    call = refused(**given, code_root=str(tmp_path)).details["next"]
    assert (call["tool"], call["arguments"]["name"]) == ("create_project", "net")
    assert call["arguments"]["config"] == {**config, "code_root": str(tmp_path)}
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "settings.yaml").write_text("code_roots: ['..']\n")
    workspace = Workspace.open(tmp_path / "w")
    assert create_project(workspace, **call["arguments"]).next.tool == "advance"
    workspace.close()


def test_what_is_missing_is_asked_for() -> None:
    assert "Name its data too, data='file.py:name'" in refused(model="net.py:Net").remedy
    assert "Name its model too" in refused(data="net.py:rows").remedy
    open_goal = refused(model="net.py:Net", data="net.py:rows", intent="Tell the kind of a flower")
    assert "Ask the user for a metric and its value" in open_goal.remedy
    assert "next" not in open_goal.details
    given = {"intent": "Tell the kind", "metric": "f1", "target": 0.8}
    call = refused(model="net.py:Net", data="net.py:rows", **given).details["next"]
    assert call["arguments"]["goal"] == {"metric": "f1", "direction": "maximize", "target": 0.8}


@pytest.mark.slow
def test_files_are_planned_for_the_users_network_which_the_call_or_the_sentence_names(tmp_path: Path) -> None:
    rows = np.random.default_rng(3).normal(size=(60, 1, 6, 6)).astype(np.float32)
    np.savez(tmp_path / "signs.npz", x=rows, y=np.arange(60) % 3)
    (tmp_path / "net.py").write_text(NETWORK)
    (tmp_path / "words.csv").write_text("text,kind\n" + "".join(f"word {n} of it,{n % 2}\n" for n in range(60)))
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "settings.yaml").write_text("code_roots: ['..']\n")
    workspace = Workspace.open(tmp_path / "w")

    def planned(**given: Any) -> PlanAnswer:
        return plan_training(workspace, read_request(code_root=str(tmp_path), **given))

    for given in (
        {"intent": "Tell the sign, accuracy 0.9", "data": "signs.npz", "model": "net.py:Net"},
        {"intent": "Try ideas on net.py over signs.npz until accuracy 0.9"},
    ):
        found = planned(**given)
        assert found.next.arguments["config"]["model"] == {"use": "net.py:Net"}
        assert found.next.arguments["config"]["data"] == {"use": "npz", "args": {"path": "signs.npz"}}
        [stands_in] = [one for one in found.assumed if "does not run net.py:Net" in one]
        assert stands_in.startswith("rate, length and memory are those of cnn")
    plain = planned(intent="Tell the sign, accuracy 0.9", data="signs.npz")
    assert plain.next.arguments["config"]["model"]["use"] == "resnet", "no model of columns for images"
    with pytest.raises(ConfigurationError, match="settles model and tokenizer together"):
        planned(intent="Tell the kind, accuracy 0.9", data="words.csv", model="net.py:Net")
    with pytest.raises(ConfigurationError, match="own_code"):
        planned(intent="Never use net.py; signs.npz, accuracy 0.9")
    for of_another in ("Beat the network in net.py on signs.npz", "Use signs.npz and, instead of net.py, a resnet"):
        with pytest.raises(ConfigurationError, match="own_code"):
            planned(intent=f"{of_another}, accuracy 0.9")
    for no_network in ("Net(LightningModule)", "Net(nn.Module):\n    def __init__(self, width): pass\nclass Other(X)"):
        (tmp_path / "net.py").write_text(NETWORK.replace("Net(nn.Module)", no_network).replace("Loss(nn", "Loss(x"))
        with pytest.raises(ConfigurationError, match="own_code"):
            planned(intent="Try ideas on net.py over signs.npz until accuracy 0.9")
    (tmp_path / "net.py").write_text(f"{NETWORK}train()\n")
    with pytest.raises(ConfigurationError, match="own_code"):
        planned(intent="Try ideas on net.py over signs.npz until accuracy 0.9")
    np.savez(tmp_path / "pixels.npz", x=(rows * 50).astype(np.int64), y=np.arange(60) % 3)
    whole = planned(intent="Tell the sign, accuracy 0.9", data="pixels.npz", model="net.py:Net")
    assert whole.next.arguments["config"]["data"]["args"] == {"path": "pixels.npz", "standardize": True}
    np.savez(tmp_path / "signs.npz", x=rows.transpose(0, 2, 3, 1), y=np.arange(60) % 3)
    with pytest.raises(ConfigurationError, match="channels last"):
        planned(intent="Tell the sign, accuracy 0.9", data="signs.npz")
    workspace.close()


def test_a_script_that_makes_a_trainer_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("from transformers import Trainer\ntrainer = Trainer(model=None)\n")
    given = {"intent": SENTENCE, "goal": "balanced", "limits": None, "task": None, "code_root": str(tmp_path)}
    for named in ({"model": "train.py:trainer", "data": "rows.csv"}, {"task": "train.py:trainer"}):
        with pytest.raises(ConfigurationError, match="train.py makes a Trainer") as found:
            read_request(**{**given, **named})
        assert "{'trainer': {'use': 'train.py:make_trainer'}}" in found.value.remedy
        assert found.value.document == "configs/own_trainer.md"
