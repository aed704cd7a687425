"""Graph of a loss, read before its backward pass: the terms that it adds up, and what each is computed from."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor

MAX_NODES = 20_000
NEAR = 400
"""Nodes from the loss on in which its own functions are searched."""
PASSING = tuple(
    f"{name}Backward"
    for name in (
        "ToCopy", "Clone", "Alias", "View", "ReshapeAlias", "Squeeze", "Unsqueeze", "Transpose", "T", "Permute",
        "UnsafeView", "Index", "Select", "Slice", "Expand", "Contiguous",
    )
)  # fmt: skip
FLAT = ("RoundBackward", "SignBackward", "SgnBackward", "FloorBackward", "CeilBackward", "TruncBackward")
"""Functions whose derivative is zero: nothing before them learns through them."""
SQUASHED = ("SoftmaxBackward", "SigmoidBackward")


@dataclass(frozen=True)
class Term:
    """One term of a loss.

    Attributes:
        kind: mean, sum, or unknown.
        shape: of what was reduced, () where it is not known.
        divided: whether the term is divided by a count (a number of at least two) after the reduction.
    """

    kind: str
    shape: tuple[int, ...] = ()
    divided: bool = False


@dataclass(frozen=True)
class LossGraph:
    """The graph of one backward pass.

    Attributes:
        value: the loss.
        is_connected: whether any operation leads to the loss at all.
        squashed: in words, the probabilities that a loss took for logits; None where all is well.
        over_rows: whether probabilities are normalised over the rows of the batch instead of the classes.
        broadcast: shape of a difference that is far larger than its operands; None where there is none.
        flat: name of a function near the loss whose derivative is zero; None where there is none.
    """

    value: float
    is_connected: bool
    terms: tuple[Term, ...] = ()
    squashed: str | None = None
    over_rows: bool = False
    broadcast: tuple[int, ...] | None = None
    flat: str | None = None


def read(loss: Tensor, rows: int) -> LossGraph:
    """Return what the graph of a loss, a scalar, shows.

    Args:
        rows: samples in the batch.
    """
    value = float(loss.detach().double().mean())
    if loss.grad_fn is None:
        return LossGraph(value, is_connected=False)
    near = list(_near(loss.grad_fn))
    found = [node for node in near if (_name(node)).startswith(("NllLoss", "BinaryCrossEntropyWithLogits"))]
    return LossGraph(
        value,
        is_connected=True,
        terms=tuple(_terms(loss.grad_fn, rows)),
        squashed=next((words for node in found if (words := _squashed(node)) is not None), None),
        over_rows=any(_over_rows(node) for node in found),
        broadcast=next((shape for node in near if (shape := _broadcast(node, rows)) is not None), None),
        flat=next((_plain(_name(node)) for node in near if _name(node).startswith(FLAT)), None),
    )


def _near(root: Any) -> Iterator[Any]:
    """Yield the nodes of a graph from the loss on, each once."""
    seen, waiting = {root}, deque([root])
    while waiting and len(seen) < NEAR:
        node = waiting.popleft()
        yield node
        for child, _ in node.next_functions:
            if child is not None and child not in seen:
                seen.add(child)
                waiting.append(child)


def _terms(root: Any, rows: int) -> Iterator[Term]:
    """Yield the terms of a sum of scalars, as far as its arithmetic is known."""
    waiting = [(root, False)]
    for _ in range(MAX_NODES):
        if not waiting:
            return
        node, divided = waiting.pop()
        name = _name(node)
        children = [child for child, _ in node.next_functions]
        if name.startswith(("AddBackward", "SubBackward")):
            waiting += [(child, divided) for child in children if child is not None]
        elif name.startswith(("MulBackward", "DivBackward")):
            step = _divides(node, rows)
            inner = [child for child in children if child is not None]
            waiting += [(child, divided or step) for child in inner] if len(inner) == 1 else []
        elif name.startswith(("NegBackward", *PASSING)):
            waiting += [(child, divided) for child in children[:1] if child is not None]
        else:
            yield _end(node, divided)


def _end(node: Any, divided: bool) -> Term:
    name, reduction = _name(node), getattr(node, "_saved_reduction", None)
    if name.startswith("MeanBackward") or reduction == 1:
        return Term("mean", divided=divided)
    if name == "SumBackward0" and not _is_penalty(node):
        return Term("sum", tuple(node._saved_self_sym_sizes), divided)
    if reduction == 2:
        child = node.next_functions[0][0]
        shape = _shape(child) if child is not None else ()
        return Term("sum", shape or _saved_shape(node, "_saved_self"), divided)
    return Term("unknown", divided=divided)


def _is_penalty(node: Any) -> bool:
    """Whether a sum is over a parameter alone: a penalty on weights, which no batch has a part in."""
    for _ in range(4):
        children = [child for child, _ in node.next_functions if child is not None]
        if len(children) != 1:
            return False
        node = children[0]
        if _name(node).endswith("AccumulateGrad"):
            return True
    return False


def _divides(node: Any, rows: int) -> bool:
    """Whether the factor of a product or quotient makes a mean of a sum."""
    values = [_number(node, "_saved_other"), _number(node, "_saved_self")]
    factors = [abs(value) for value in values if value is not None]
    if not factors:
        return True  # not known: nothing is claimed of it
    return factors[0] >= 2 if _name(node).startswith("DivBackward") else factors[0] <= 2 / max(rows, 1)


def _number(node: Any, name: str) -> float | None:
    try:
        value = getattr(node, name, None)
    except RuntimeError:  # changed in place since
        return None
    if isinstance(value, Tensor):
        return float(value) if value.numel() == 1 else None
    return float(value) if isinstance(value, int | float) else None


def _squashed(node: Any) -> str | None:
    """Say in words where a loss on logits, or on log-probabilities, was given probabilities."""
    wants_log = _name(node).startswith("NllLoss")
    child = _through(node)
    if child is None:
        return None
    name = _name(child)
    if wants_log and name.startswith(SQUASHED):
        return f"the negative log-likelihood was given probabilities ({_plain(name)}) without their logarithm"
    if wants_log and name.startswith("LogSoftmaxBackward"):
        child = _through(child)
        name = _name(child) if child is not None else ""
        return f"cross-entropy was given the output of a {_plain(name)}" if name.startswith(SQUASHED) else None
    if not wants_log and name.startswith(SQUASHED):
        return f"binary cross-entropy with logits was given the output of a {_plain(name)}"
    return None


def _through(node: Any) -> Any:
    """Return the node that a node's first input comes from, past those that only reorder."""
    for _ in range(12):
        node = node.next_functions[0][0] if node.next_functions else None
        if node is None or not _name(node).startswith(PASSING):
            return node
    return None


def _over_rows(node: Any) -> bool:
    """Whether the likelihood's probabilities are normalised over the first of two dimensions."""
    child = _through(node)
    if child is None or not _name(child).startswith("LogSoftmaxBackward"):
        return False
    shape, dim = _shape(child), getattr(child, "_saved_dim", None)
    return len(shape) == 2 and dim in {0, -2, (1 << 64) - 2}


def _broadcast(node: Any, rows: int) -> tuple[int, ...] | None:
    """Return the shape of a difference between (rows, 1) outputs and (rows,) targets: one of all pairs."""
    if not _name(node).startswith("SubBackward") or rows < 2:
        return None
    children = [child for child, _ in node.next_functions]
    graded = [child for child in children if child is not None]
    shape = _shape(node)
    if len(graded) != 1 or len(children) != 2 or shape != (rows, rows):
        return None
    return shape if _shape(graded[0]) in {(rows, 1), (rows,)} else None


def _shape(node: Any) -> tuple[int, ...]:
    """Return the shape of a node's output, as far as it is known: torch 2.4 describes none, and some keep it."""
    described = getattr(node, "_input_metadata", None)
    return tuple(described[0].shape) if described else _saved_shape(node, "_saved_result")


def _saved_shape(node: Any, name: str) -> tuple[int, ...]:
    try:
        value = getattr(node, name, None)
    except RuntimeError:  # changed in place since
        return ()
    return tuple(value.shape) if isinstance(value, Tensor) else ()


def _name(node: Any) -> str:
    return str(node.name()).rpartition("::")[2]


def _plain(name: str) -> str:
    return name.partition("Backward")[0].lower()
