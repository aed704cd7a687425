"""Reasons why a model has no program, in plain words, each with what to change in the model."""

from __future__ import annotations

import math
import re
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from trainwright.trainer.base.errors import ConfigurationError, IntegrityError, TrainwrightError
from trainwright.trainer.jobs.export.parity import Worst
from trainwright.trainer.objectives.supervised import describe

WITHOUT_ONNX: dict[str, Any] = {"changes": {"deployment.formats": ["safetensors"]}}
"""Details of the error for a model that cannot be written as ONNX: the change that fixes it."""
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
"""Colour codes that torch puts into its messages."""

BRANCHING = (
    "The model's computation depends on the values of its inputs, which a program cannot follow",
    "Do not branch or loop in Python on values of tensors (`if x.sum() > 0`, `.item()`, int(tensor)): compute both "
    "sides and choose with torch.where, or take the number from the configuration.",
)
KNOWN: tuple[tuple[str, str, str], ...] = (
    (r"data-dependent|DataDependent|GuardOnDataDependent|Could not guard|aten\._local_scalar_dense", *BRANCHING),
    (
        r'missing the required "forward"',
        "The model has no forward: only the task's step knows how to call it",
        "Give the model a `forward(inputs)` that returns the prediction, and let the step call it.",
    ),
    (
        r"missing \d+ required|unexpected keyword|takes .* positional argument",
        "The model cannot be called with its inputs alone",
        "Let forward take the inputs that the samples hold, with defaults (None) for everything else, the target "
        "included, and return the prediction.",
    ),
    (
        r"same device|device type|CUDA",
        "The model makes tensors on another device than its inputs'",
        "Make them on the input's device (`x.device`), and register constants with register_buffer.",
    ),
    (
        r"UnsupportedOperator|not supported|No decompositions|No ONNX function|aten::",
        "An operation of the model has no counterpart in ONNX or torch.export",
        "Replace the operation that the message names by basic tensor operations.",
    ),
    (
        r"Constraint|specializ|dynamic",
        "The model's computation is fixed to one size of its inputs",
        "Take sizes from the input (`x.shape[0]`) and leave the batch dimension free.",
    ),
    (
        r"No space left|Errno 28",
        "The program could not be written",
        "Free disk space.",
    ),
)
OTHERWISE = (
    "The model could not be exported",
    "Let forward take tensors alone and return a tensor or a dict of tensors, computed by tensor operations "
    "without Python branching on values.",
)


def in_plain_words(error: BaseException) -> tuple[str, str]:
    """Return what is wrong and what to change, for an error of the model, of an exporter or of ours."""
    cause = error.__cause__
    if isinstance(error, TrainwrightError) and error.category != "user_code":
        return error.message, error.remedy
    text = reason_of(cause if isinstance(error, TrainwrightError) and cause is not None else error)
    for pattern, what, remedy in KNOWN:
        if re.search(pattern, text):
            return f"{what}: {text}", remedy
    what, remedy = OTHERWISE
    return f"{what}: {text}", remedy


def reason_of(error: BaseException) -> str:
    """Return an error in one line."""
    lines = [line.strip() for line in COLOUR.sub("", str(error)).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines)[:240]}"


def refusal(failed: list[tuple[str, Exception | Worst]], tolerance: float) -> TrainwrightError:
    """Return the error for what no exporter could write, or wrote with other outputs than the model's."""
    differing = [(exporter, found) for exporter, found in failed if isinstance(found, Worst)]
    finite = [pair for pair in differing if math.isfinite(pair[1].difference)] or differing
    if finite:
        exporter, worst = min(finite, key=lambda pair: pair[1].ratio)
        return IntegrityError(
            f"The program written by {exporter} differs from the model by {worst.difference:g}, more than "
            f"{tolerance:g} of outputs up to {worst.scale:g} ({worst.where}).",
            remedy="Look for Python branching on values or sizes in forward, which the exporter fixes to what it saw "
            "(use torch.where and x.shape); or raise deployment.onnx_tolerance if that is acceptable.",
            details={
                "max_abs_difference": worst.difference,
                "tolerance": tolerance,
                "ratio": worst.ratio,
                **WITHOUT_ONNX,
            },
        )
    errors = [error for _, error in failed if isinstance(error, Exception)]
    known = [in_plain_words(error) for error in reversed(errors)]
    message, remedy = next((pair for pair in known if not pair[0].startswith(OTHERWISE[0])), known[0])
    return ConfigurationError(message, remedy=remedy, details=WITHOUT_ONNX)


def no_forward(model: nn.Module) -> ConfigurationError:
    """Return the error for a model that only its task's step knows how to call."""
    return ConfigurationError(
        f"The model ({type(model).__name__}) has no forward: only the task's step knows how to call it.",
        remedy="Give the model a `forward(inputs)` that returns the prediction, and let the step call it.",
        details=WITHOUT_ONNX,
    )


def unlike_example(model: nn.Module, example: dict[str, Any], error: Exception) -> ConfigurationError:
    """Return the error for an `example_input`, by the names under which it was given, that the model refused."""
    given = ", ".join(f"{name} {describe(value)}" for name, value in example.items())
    return ConfigurationError(
        f"The model ({type(model).__name__}) does not take the task's `example_input` ({given}): {reason_of(error)}.",
        remedy="Return an `example_input` with all that forward needs: a dict by its parameters' names, or a tuple in "
        "their order, tensors with the batch first; or leave it out where the samples hold all inputs.",
        document="configs/your_code.md",
    )


def no_output(name: str) -> ConfigurationError:
    """Return the error for a run whose metrics compare no outputs."""
    return ConfigurationError(
        f"{name} reports no output of the model that could be compared with the targets.",
        remedy='Return "output" and "target" beside "loss" from the step (or validation_step), where output is what '
        "model(inputs) gives.",
        document="configs/your_code.md",
    )


def other_each_time(*, drops: bool) -> ConfigurationError:
    """Return the error for a model that gives other outputs each time; `drops`: by a dropout that is always on."""
    remedy = "Draw random numbers and change kept state only while self.training is true."
    if drops:
        remedy = (
            "Give the mode to the function: F.dropout(x, p, training=self.training), and of attention "
            "dropout_p=p if self.training else 0.0; nn.Dropout does so itself. Then train again."
        )
    return ConfigurationError(
        "The model gives other outputs for the same inputs when it is called again in evaluation"
        + (": a dropout is on there too (its default is training=True)." if drops else "."),
        remedy=remedy,
        document="diagnostics/dropout_in_validation.md" if drops else None,
        details={"changes": {} if drops else WITHOUT_ONNX["changes"], "is_servable": False},
    )


def beside_others(model: nn.Module) -> ConfigurationError:
    """Return the error for a model whose answer to a row depends on the rows beside it."""
    remedy = (
        "Compute each row by itself: no mean, sort, softmax or attention over the first dimension of a batch, and no "
        "branch on its values (torch.where chooses row by row)."
    )
    of_batches = [
        name for name, one in model.named_modules() if isinstance(one, _BatchNorm) and one.running_mean is None
    ]
    if of_batches:
        remedy = (
            f"{of_batches[0]} normalizes by its batch in evaluation too: leave track_running_stats=True, or take "
            "LayerNorm or GroupNorm."
        )
    return ConfigurationError(
        "The model gives other outputs for a row alone than for the same row among others: its figures depend on which "
        "rows share a batch.",
        remedy=f"{remedy} Then train again.",
        document="configs/your_code.md",
        details={"changes": {}, "is_servable": False},
    )


def other_output(alone: Tensor, reported: Tensor) -> ConfigurationError:
    """Return the error for a model that gives other outputs, (batch, ...), without its targets than with them."""
    return ConfigurationError(
        f"For its inputs alone the model gives {describe(alone)}, and in training and validation {describe(reported)} "
        "with other values.",
        remedy="Return the same prediction whether or not targets are given.",
    )


def padded() -> ConfigurationError:
    """Return the error for a model whose output depends on the padding of its batch."""
    return ConfigurationError(
        "The model gives other outputs for a row alone than for the row padded to the length of its batch.",
        remedy="Leave the padded places out of attention, pooling and recurrence (a mask, or pack_padded_sequence).",
    )
