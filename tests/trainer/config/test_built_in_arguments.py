"""The arguments of built-in parts are judged where a configuration is written, and mean what their builders take."""

# ruff: noqa: E501 - tables of one case a line read better than wrapped ones

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import PydanticUndefined
from tests.function_text import body_of

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.catalog.names import BUILT_IN
from trainwright.trainer.config import apply_changes, parse_config
from trainwright.trainer.data.sources import SOURCES
from trainwright.trainer.losses import LOSSES
from trainwright.trainer.models import MODELS

BASE: dict[str, Any] = {"model": {"use": "mlp"}, "data": {"use": "digits"}}
SKILL = Path(__file__).parents[3] / "skills" / "ml-trainer"


def _model(use: str, **args: Any) -> dict[str, Any]:
    return {"model": {"use": use, "args": args}}


def _data(use: str, **args: Any) -> dict[str, Any]:
    return {"data": {"use": use, "args": args}}


def _loss(use: str, **args: Any) -> dict[str, Any]:
    return {"loss": {"use": use, "args": args}}


TASKS = {"a": {"outputs": 2, "loss": {"use": "huber", "args": {"delt": 1}}}, "b": {"outputs": 1, "loss": "mse"}}

BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": (_model("mlp", hiden=[8]), "unknown key `model.args.hiden`; did you mean `model.args.hidden`?"),
    "unknown to all": (_model("cnn", zzz=1), "unknown key `model.args.zzz`; known: channels, dropout"),
    "no width": (_model("mlp", hidden=[8, 0]), "`model.args.hidden.1` = 0: Input should be greater than or equal to 1"),
    "text for widths": (_model("mlp", hidden="8"), "`model.args.hidden` = '8': Input should be a valid list"),
    "all dropped": (_model("mlp", dropout=1.0), "`model.args.dropout` = 1.0: Input should be less than 1"),
    "activation": (_model("mlp", activation="rel"), "`model.args.activation` = 'rel': Input should be 'relu', 'leaky_relu', 'gelu' or 'tanh'"),
    "depth": (_model("resnet", depth=21), "depth is 6n + 2 (8, 14, 20, 32, 44, 56, 110), not 21"),
    "norm": (_model("resnet", norm="layer"), "`model.args.norm` = 'layer': Input should be 'batch', 'group' or 'none'"),
    "heads": (_model("gpt", width=30, heads=4), "width must be a multiple of heads, and 30 is none of 4"),
    "flag": (_model("timm", model="resnet18", pretrained="yes"), "`model.args.pretrained` = 'yes'"),
    "timm without a name": (_model("timm"), "`model.args.model` is required, and missing"),
    "no origin": (_model("transformers"), "exactly one of path (a folder under code_root), hub"),
    "two origins": (_model("transformers", path="bert", hub="x"), "exactly one of path"),
    "foreign code": (_model("transformers", path="bert", trust_remote_code=True), "unknown key `model.args.trust_remote_code`"),
    "no type": (_model("transformers", config={"hidden_size": 8}), "config needs model_type"),
    "no path": (_data("csv", target="y"), "`data.args.path` is required, and missing"),
    "column of no name": (_data("csv", path="a.csv", target="y", features=[]), "`data.args.features` = []"),
    "target as feature": (_data("csv", path="a.csv", target="y", features=["x", "y"]), "features must not name the target 'y'"),
    "guess": (_data("jsonl", path="a.jsonl", target="y", task="class"), "'classification' or 'regression'"),
    "delimiter of another source": (_data("jsonl", path="a.jsonl", target="y", delimiter=";"), "unknown key `data.args.delimiter`"),
    "block of a table of numbers": (_data("csv", path="a.csv", target="y", block_size=8), "unknown key `data.args.block_size`"),
    "block of no token": (_data("csv", path="a.csv", text="t", block_size=0), "`data.args.block_size` = 0"),
    "image sides": (_data("images", path="photos", size=[32]), "`data.args.size` = [32]"),
    "image channels": (_data("images", path="photos", channels=4), "`data.args.channels` = 4: Input should be 1 or 3"),
    "no text file": (_data("text", path=[]), "`data.args.path` = []"),
    "split by": (_data("text", path="a.txt", split_by="line"), "'document' or 'position'"),
    "standardise": ({"data.args.standardise": True}, "did you mean `data.args.standardize`?"),
    "loss": (_loss("focal", gama=1), "unknown key `loss.args.gama`; did you mean `loss.args.gamma`?"),
    "gamma": (_loss("focal", gamma=-1), "`loss.args.gamma` = -1: Input should be greater than or equal to 0"),
    "beta": (_loss("class_balanced", beta=1.0), "`loss.args.beta` = 1.0: Input should be less than 1"),
    "two losses": (_loss("class_balanced", gamma=2, label_smoothing=0.1), "exclude each other"),
    "weights by name": (_loss("cross_entropy", weights="even"), "`loss.args.weights` = 'even': Input should be 'balanced' or a valid list"),
    "no weight at all": (_loss("cross_entropy", weights=[0, 0.0]), "one of the weights must be above 0"),
    "delta": (_loss("huber", delta=0), "`loss.args.delta` = 0: Input should be greater than 0"),
    "flag for a number": (_loss("dice", smooth=True), "`loss.args.smooth` = true"),
    "takes nothing": (_loss("mse", reduction="sum"), "unknown key `loss.args.reduction`; known: none"),
    "metric": ({"metrics": [{"use": "f1", "args": {"average": "micro"}}]}, "unknown key `metrics.0.args.average`; known: none"),
    "difficulty": ({"curriculum": {"use": "length", "args": {"key": "x"}}}, "unknown key `curriculum.args.key`"),
    "task": ({"objective": {"name": "multi_task", "tasks": TASKS}}, "did you mean `objective.tasks.a.loss.args.delta`?"),
    "teacher": ({"objective": {"name": "distillation", "teacher": {"use": "mlp", "weights": "w", "args": {"hiden": [1]}}}}, "did you mean `objective.teacher.args.hidden`?"),
}  # fmt: skip


@pytest.mark.requirement("CONF-1")
@pytest.mark.parametrize("fault", BROKEN)
def test_an_argument_that_cannot_work_is_refused_with_key_value_and_rule(fault: str) -> None:
    changes, told = BROKEN[fault]
    with pytest.raises(ConfigurationError) as caught:
        parse_config(apply_changes(BASE, changes))
    assert told in caught.value.message
    assert caught.value.document != "configs/README.md", "the document is that of the key"


@pytest.mark.requirement("CONF-1")
def test_every_broken_argument_is_told_at_once_beside_the_other_keys() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_config({**BASE, **_model("mlp", hiden=[8], dropout=2.0), "training": {"epochs": 0}})
    for key in ("model.args.hiden", "model.args.dropout", "training.epochs"):
        assert f"`{key}`" in caught.value.message


@pytest.mark.requirement("CONF-1")
def test_the_arguments_of_your_own_parts_are_free() -> None:
    config = parse_config({**BASE, "model": {"use": "mine:Net", "args": {"hiden": [8], "anything": {"at": "all"}}}})
    assert config.model is not None
    assert config.model.args["anything"] == {"at": "all"}


def _taken(*builders: Callable[..., Any], without: set[str] | None = None) -> dict[str, Any]:
    """Return the keyword arguments of builders with their defaults."""
    return {
        name: PydanticUndefined if parameter.default is parameter.empty else parameter.default
        for builder in builders
        for name, parameter in inspect.signature(builder).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and name not in (without or set())
    }


def _said(section: type[Any]) -> dict[str, Any]:
    return {name: about.get_default(call_default_factory=True) for name, about in section.model_fields.items()}


def _as_lists(defaults: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in defaults.items()}


@pytest.mark.requirement("CONF-1")
def test_the_sections_of_the_models_are_their_builders_signatures() -> None:
    for name, section in MODELS.items():
        if not section.of_library:
            assert _said(section) == _as_lists(_taken(section()._network())), name


DOCUMENTED = {"models.md": MODELS, "losses.md": LOSSES, "data.md": SOURCES, "metrics.md": BUILT_IN["metrics"]}


@pytest.mark.requirement("CONF-1")
@pytest.mark.parametrize("document", DOCUMENTED)
def test_the_document_names_every_argument_of_every_part(document: str) -> None:
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in (SKILL / "configs" / document).read_text().splitlines()
        if line.startswith("| ")
    ]
    for name, section in DOCUMENTED[document].items():
        shown = re.sub(r"(pinball|coverage_error)_\d+", r"\1_90", name)  # one quantile stands for all
        own = [" ".join(row[1:]) for row in rows if shown in re.split(r"[, ]+", row[0]) and "`text`" not in row[0]]
        assert own, name
        for argument in section.model_fields:
            assert re.search(rf"\b{argument}\b", own[0]), f"{document}: {name} does not tell {argument}"


@pytest.mark.requirement("CONF-1")
def test_judging_arguments_loads_no_torch() -> None:
    assert subprocess.run([sys.executable, "-P", "-c", body_of(judge_arguments)], check=False).returncode == 0


def judge_arguments() -> None:
    import sys

    from trainwright.trainer.config import parse_config

    parse_config({"model": {"use": "mlp", "args": {"hidden": [8]}}, "data": {"use": "iris"}})
    sys.exit("torch" in sys.modules)
