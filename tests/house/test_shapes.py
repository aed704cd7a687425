"""Shapes and sources in docstrings: what a public function's tensors look like, and where an algorithm comes from."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trainwright.trainer.data import curriculum
from trainwright.trainer.data.sections import DIFFICULTIES
from trainwright.trainer.losses import LOSSES
from trainwright.trainer.metrics import BUILT_IN as METRICS
from trainwright.trainer.models import MODELS
from trainwright.trainer.models.adapters import ADAPTERS
from trainwright.trainer.objectives.mixing_sections import MIXINGS
from trainwright.trainer.objectives.sections import OBJECTIVES
from trainwright.trainer.optimization.optimizers import OPTIMIZERS
from trainwright.trainer.optimization.schedules import SCHEDULES
from trainwright.trainer.optimization.weight_averaging import EmaSection, SwaSection
from trainwright.trainer.strategies.parallel import Ddp
from trainwright.trainer.strategies.sharded import Fsdp2
from trainwright.trainer.strategies.zero import DeepSpeed

ROOT = Path(__file__).parents[2]
TENSOR = re.compile(r"\bTensor\b")
_SIZE = r"(?:\.\.\.|\*?\w+(?: [-+*/] \w+| of \w+(?: \w+)*)?)"
SHAPE = re.compile(rf"(?<!\w)\({_SIZE}(?:,|(?:, {_SIZE})+)\)|\bscalars?\b|\b(?:any|same) shape\b")
"""`(batch, classes)`, `(samples,)`, `(stop - start,)`, `(2B, ...)`; not a call, and not a remark in parentheses."""
SOURCE = re.compile(r"arXiv|doi|http|torch's|\b[A-Z][\w'-]+[\w ,.]* (?:19|20)\d\d\b")
"""`arXiv:1711.05101`, `torch's LBFGS`, `Loshchilov and Hutter 2019`."""
WITHOUT_SOURCE = {"own", "SupervisedSection"}
"""The user's own optimizer, and the plain loss of model and data, which is the loss's source."""


def test_the_shapes_of_tensors_are_in_the_docstring_of_every_public_function() -> None:
    assert not [
        f"{path.relative_to(ROOT)}:{function.lineno} {function.name}"
        for path in sorted((ROOT / "trainer").rglob("*.py"))
        for function in _public(ast.parse(path.read_text(encoding="utf-8")))
        if _has_tensors(function) and not SHAPE.search(ast.get_docstring(function) or "")
    ]


@pytest.mark.parametrize("shape", ["(batch, classes)", "(N, C, H, W)", "(rows,)", "(stop - start,)", "a scalar"])
def test_a_shape_is_found(shape: str) -> None:
    assert SHAPE.search(f"Return logits, {shape}, of the batch.")


@pytest.mark.parametrize("words", ["(one per class)", "loss(output, target)", "(here, as in torch)", "(batch)"])
def test_other_parentheses_are_no_shape(words: str) -> None:
    assert not SHAPE.search(f"Return the weights {words}.")


def test_every_algorithm_names_its_paper_or_page() -> None:
    assert not [name for name, documents in _algorithms() if not any(map(SOURCE.search, documents))]


def _public(node: ast.Module | ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for child in node.body:
        if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
            yield from _public(child)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and not child.name.startswith("_"):
            yield child


def _has_tensors(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether an annotation names a tensor. Tensors by name (a state dict) have as many shapes as names."""
    arguments = [node.annotation for node in ast.walk(function.args) if isinstance(node, ast.arg)]
    return any(TENSOR.search(_but_by_name(node)) for node in (*arguments, function.returns) if node is not None)


def _but_by_name(annotation: ast.expr) -> str:
    text = ast.unparse(annotation)
    for node in ast.walk(annotation):
        if isinstance(node, ast.Subscript) and ast.unparse(node).startswith(("dict[str, ", "Mapping[str, ")):
            text = text.replace(ast.unparse(node), "")
    return text


def _algorithms() -> Iterator[tuple[str, list[str]]]:
    """Yield every registered algorithm with the docstrings that may say where it comes from."""
    forms = (*OBJECTIVES, *MIXINGS, EmaSection, SwaSection, *ADAPTERS.values(), Ddp, Fsdp2, DeepSpeed)
    made: list[tuple[str, Any]] = [*OPTIMIZERS.items(), *SCHEDULES.items(), *((form.__name__, form) for form in forms)]
    made += [(name, form if form.of_library else form()._network()) for name, form in MODELS.items()]
    made += [(name, getattr(curriculum, function)) for name, function in DIFFICULTIES.items()]
    made += [(name, metric.of_loss or metric.compute) for name, metric in METRICS.items()]
    made += LOSSES.items()
    for name, what in made:
        if name not in WITHOUT_SOURCE:
            documents = [what.__doc__, sys.modules[what.__module__].__doc__]
            documents += [what().function().__doc__] if what in LOSSES.values() else []
            yield f"{what.__module__}: {name}", [document or "" for document in documents]
