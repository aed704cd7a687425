"""What a run says of the user's model: how it is called and why, what was found in its output, what goes in."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from trainwright.trainer.assembly.calling import input_parameters, target_parameter
from trainwright.trainer.data.first_sample import first_sample
from trainwright.trainer.objectives.supervised import split_batch

if TYPE_CHECKING:
    from trainwright.trainer.data.splits import Splits
    from trainwright.trainer.objectives.work import Work

VOCABULARY_NAMES = ("vocab_size", "vocabulary_size", "n_vocab", "num_tokens", "n_tokens", "ntoken", "num_embeddings")
"""Names of a model's argument that takes the size of a text source's vocabulary."""
MOST_CHARACTERS = 140
READINGS = {
    "output": "goes to loss {loss}",
    "logits,loss": "is (logits, loss)",
    "loss,logits": "is (loss, logits)",
    ".loss": "has .loss, which is minimised, and .logits, which metrics get",
    "loss": "is the loss",
    "compute_loss": "of compute_loss(batch) is the loss",
}


def told_of_model(work: Work) -> list[str]:
    """Return a few short sentences; the last ones on input and vocabulary."""
    sample = first_sample(work.splits.samples["train"])
    batch = "" if work.batch_size is None else "batch, "
    lines = [_call(work, sample), _read(work), _input(sample, batch), _vocabulary(work)]
    return [line if len(line) <= MOST_CHARACTERS else line[: MOST_CHARACTERS - 1] + "…" for line in lines if line]


def vocabulary_argument(function: Any, args: Mapping[str, Any], splits: Splits) -> dict[str, int]:
    """Return the vocabulary's size under the name by which the user's model takes it, where `args` do not give it."""
    if splits.text is None:
        return {}
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
    name = next((name for name in VOCABULARY_NAMES if name in parameters), None)
    return {} if name is None or name in args else {name: splits.text.vocabulary_size}


def vocabulary_place(function: Any, args: Mapping[str, Any]) -> str | None:
    """Return which argument of the user's model has the vocabulary's size, and who gave it."""
    given = next((name for name in VOCABULARY_NAMES if name in args), None)
    if given is not None:
        return f"model.args.{given} is {args[given]}"
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    name = next((name for name in VOCABULARY_NAMES if name in parameters), None)
    return f"passed as `{name}`" if name is not None else None


def _call(work: Work, sample: Any) -> str:
    name = type(work.model).__name__
    if work.step is not None or work.train_step is not None:
        return f"{name}: called by the task's own {'step' if work.step is not None else 'train_step'}"
    if work.returns == "compute_loss":
        return f"{name}.compute_loss(batch): the model has one"
    args, named, target = split_batch(sample)
    alone = work.returns == "output"
    if named:
        keys = [*named, *([] if alone or target is None else [key for key in sample if key not in named])]
        return f"{name}({', '.join(f'{key}=' for key in keys)}): by the samples' keys"
    places = ", ".join(input_parameters(work.model, len(args)) or ["…"])
    if alone or target is None:
        return f"{name}.forward({places}): inputs by their order, no target"
    goes = target_parameter(work.model, len(args))
    why = f"the target by the name `{goes}`" if goes else "the target behind the inputs, as `returns` says"
    return f"{name}.forward({places}, {goes or 'target'}): {why}"


def _read(work: Work) -> str:
    found = f", {work.found}," if work.found else ""
    if work.step is not None or work.train_step is not None:
        return f"for metrics: {work.found}" if work.found else ""
    loss = work.loss.name if work.loss is not None else "of the objective"
    return f"its output{found} {READINGS[work.returns or 'output'].format(loss=loss)}"


def _input(sample: Any, batch: str) -> str:
    args, named, _ = split_batch(sample)
    parts = [*(("", value) for value in args), *((f"{name} ", value) for name, value in named.items())]
    shown = [
        f"{name}{str(value.dtype).removeprefix('torch.')} ({batch}{', '.join(map(str, value.shape))})"
        for name, value in parts
        if isinstance(value, Tensor)
    ]
    return f"input: {'; '.join(shown[:3])}" if shown else ""


def _vocabulary(work: Work) -> str:
    text = work.splits.text
    if text is None:
        return ""
    return f"vocabulary: {text.vocabulary_size} tokens, {work.vocabulary_goes or 'passed to no argument of the model'}"
