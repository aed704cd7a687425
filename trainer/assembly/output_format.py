"""Output format of a model: found once on a real batch, and reported to the agent."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor, nn

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.data.first_look import first_sample
from trainwright.trainer.data.plain_values import TARGET_KEYS
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.models.weight_types import told_types
from trainwright.trainer.objectives.objective import Work
from trainwright.trainer.objectives.supervised import describe, reading_of, split_batch

TARGET_NAMES = frozenset({*TARGET_KEYS, "y_true", "y_target", "ground_truth"})


def find_returns(model: nn.Module, batch: Any, key: str | None = None) -> str:
    """Return the `returns` that fits the model's output for this batch.

    Tried in order: the model's `compute_loss`; the inputs alone; the inputs together with the target, which goes to
    a parameter only by its name: as the key of a sample, or where the next parameter is called one of TARGET_NAMES.

    Args:
        model: whose forward is called.
        batch: of samples as they are trained on.
        key: by which these were divided, and which was taken off them.

    Raises:
        ConfigurationError: the model needs a parameter that the samples do not name, or no known way of reading its
            output fits; names what the model returned.
    """
    if callable(getattr(model, "compute_loss", None)):
        return "compute_loss"
    args, named, target = split_batch(batch)
    _require_known(model, args, named, target, key)
    inputs: tuple[Any, ...] = args if target is None else (*args, target)
    with_target = ((), dict(batch)) if isinstance(batch, Mapping) else (inputs, {})
    attempts = [(*with_target, False)] if target is None else [(args, named, True)]
    if target is not None and (isinstance(batch, Mapping) or target_parameter(model, len(args)) is not None):
        attempts.append((*with_target, False))
    seen: list[str] = []
    result: Any = None
    wrong_arguments: TypeError | None = None
    for positional, keywords, may_be_output in attempts:
        try:
            result = model(*positional, **keywords)
        except TypeError as error:  # the model wants other arguments; the next attempt gives them
            wrong_arguments = wrong_arguments or error
            continue
        found = reading_of(result, may_be_output=may_be_output)
        if found is not None:
            return found
        seen.append(describe(result))
    if wrong_arguments is not None and not seen:
        raise wrong_arguments
    raise _unreadable(model, result, " and ".join(seen), has_target=target is not None)


def _unreadable(model: nn.Module, result: Any, seen: str, *, has_target: bool) -> ConfigurationError:
    """Return the error for a model's result in which neither a prediction nor a loss was found, by what it is."""
    remedy = (
        "Return the prediction alone from forward, a tensor (batch, ...); or set `returns`, or use a task with `step`."
    )
    why = ""
    if result is None:
        why, remedy = ": forward has no `return`", "End forward with `return output`."
    elif isinstance(result, np.ndarray):
        why, remedy = ": an array has no gradient", "Return the tensor from forward, without .numpy()."
    elif isinstance(result, Tensor) and not has_target:
        why = ": a sample is one value, so that no target is there for the loss"
        remedy = "Return (inputs, target) from __getitem__; of samples that are their own target, (x, x)."
    return ConfigurationError(
        f"How to read the output of {type(model).__name__} could not be found; it returned {seen}{why}.", remedy=remedy
    )


def target_parameter(model: nn.Module, inputs: int) -> str | None:
    """Return the parameter behind the positional inputs, where its name says that it takes the target."""
    names = [name for name, _ in _positional(model)]
    return names[inputs] if inputs < len(names) and names[inputs] in TARGET_NAMES else None


def input_parameters(model: nn.Module, inputs: int) -> list[str]:
    """Return the names of the parameters that positional inputs fill."""
    return [name for name, _ in _positional(model)][:inputs]


def _positional(model: nn.Module) -> list[tuple[str, bool]]:
    """Return the positional parameters of the model's forward, each with whether it is required."""
    try:
        given = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):  # a compiled or scripted one may have no signature
        return []
    kinds = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    return [(one.name, one.default is one.empty) for one in given if one.kind in kinds]


def _require_known(
    model: nn.Module, args: tuple[Any, ...], named: dict[str, Any], target: Any, key: str | None
) -> None:
    """Refuse to fill a required parameter whose name does not show its input."""
    behind = _positional(model)[len(args) :]
    missing = [name for name, required in behind if required and name not in named]
    if target is not None and missing and missing[0] in TARGET_NAMES:
        missing = missing[1:]
    if not missing:
        return
    name, forward = type(model).__name__, ", ".join(one for one, _ in _positional(model))
    if missing[0] == key:
        raise ConfigurationError(
            f"{name}.forward({forward}) requires `{key}`, by which data.split divides the samples: that is no input.",
            remedy=f"Take `{key}` out of forward; where the model is to know it, return it under another name too.",
            document="configs/splits.md",
        )
    keys = ", ".join(f'"{one}": ...' for one, _ in _positional(model))
    has = f"the keys {', '.join(named)}" if named else f"{len(args)} input{'s' if len(args) != 1 else ''}"
    raise ConfigurationError(
        f"{name}.forward({forward}) requires `{missing[0]}`, and a sample has {has}"
        f"{' and a target' if target is not None else ''}: what goes there is not guessed.",
        remedy=f'Hand over samples as dicts by parameter name, {{{keys}, "labels": ...}}; give `{missing[0]}` a '
        "default; set `returns` where the target comes behind the inputs; or use a task with `step`.",
        document="configs/your_code.md",
    )


VOCABULARY_NAMES = ("vocab_size", "vocabulary_size", "n_vocab", "num_tokens", "n_tokens", "ntoken", "num_embeddings")
"""Names of a model's argument that takes the size of a text source's vocabulary."""
MAX_CHARACTERS = 140
READINGS = {
    "output": "goes to loss {loss}",
    "logits,loss": "is (logits, loss)",
    "loss,logits": "is (loss, logits)",
    ".loss": "has .loss, which is minimised, and .logits, which metrics get",
    "loss": "is the loss",
    "compute_loss": "of compute_loss(batch) is the loss",
}


def notes_on_model(work: Work) -> list[str]:
    """Return a few short sentences; the last ones on input and vocabulary."""
    sample = first_sample(work.splits.samples["train"])
    batch = "" if work.batch_size is None else "batch, "
    lines = [_call(work, sample), _read(work), _input(sample, batch), _vocabulary(work), told_types(work.model)]
    return [line if len(line) <= MAX_CHARACTERS else line[: MAX_CHARACTERS - 1] + "…" for line in lines if line]


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
