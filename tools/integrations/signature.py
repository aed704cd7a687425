"""Signature of a released model: what one row is, what is answered, and what training saw, from `final_model/` alone.

All parts are generated from it; the service reads it as `signature.json`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from trainwright.tools.integrations.final_model import PROGRAM, FinalModel
from trainwright.tools.integrations.inputs import Inputs, inputs_of
from trainwright.tools.integrations.own_code import own_packages, require_presentable, words_of
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.losses import LOSSES

MAX_PROMPTS = 16
DIGITS = 12
"""Of a digest that names a release or its file."""
Task = Literal["classification", "regression", "forecast", "generation", "mask", "labels", "own"]


class Release(BaseModel):
    """Which release the model is."""

    model_config = ConfigDict(frozen=True)

    number: int | None
    """None where the folder is a copy that does not say it."""
    name: str
    """The number; of a copy the first twelve digits of `program_sha256`."""
    run: str
    sealed_at: str | None
    program_sha256: str


class Signature(BaseModel):
    """What a released model takes and gives."""

    model_config = ConfigDict(frozen=True)

    project: str
    release: Release
    task: Task
    target: str
    """Name of what is predicted."""
    classes: list[str]
    """By the number of the output; empty where numbers are predicted or text is written."""
    numbers: int
    """Numbers that are predicted together; 0 where none are."""
    names: list[str] = []
    """Of these numbers by their place; empty where the data gave none. Of a forecast its targets."""
    inputs: Inputs
    answers: str | None = None
    """Class of predict.py that words the answers, where the user's own code decides what they are."""
    packages: list[str] = []
    """What these functions import beside the service's own packages, as pip takes them."""
    most_rows: int | None
    """Rows of a request where each takes many runs of the program; None: as many as the service's settings say."""
    metrics: dict[str, float]
    """Of the test split, certified where they could be."""
    certified: list[str]
    """Names of those that a clean process computed."""
    files: dict[str, str]
    """SHA-256 (hex) of each file of the model that is served."""


def read_signature(folder: Path, *, classes: Sequence[str] | None = None, as_samples: bool = False) -> Signature:
    """Return the signature of the released model in a folder. Raises as `FinalModel.opened` and `signature_of`."""
    return signature_of(FinalModel.opened(folder), classes=classes, as_samples=as_samples)


def signature_of(model: FinalModel, *, classes: Sequence[str] | None, as_samples: bool) -> Signature:
    """Return the signature of a released model.

    Args:
        classes: names of the classes, where the data gave none.
        as_samples: whether rows are given as the user's code gave them to the model, where such code made them.

    Raises:
        ConfigurationError: preprocessing, class names or a tokenizer are missing, or the outputs fit no form.
        IntegrityError: a file cannot be read.
    """
    inputs = inputs_of(model, as_samples=as_samples)
    words = words_of(model, inputs)
    if words is not None:
        require_presentable(model, inputs)
    task, names, numbers = _answers(model, inputs, classes) if words is None else _own_answers(model, classes)
    test = model.metrics.get("test") or {}
    number, digest = model.number, model.digests[PROGRAM]
    return Signature(
        project=model.project,
        release=Release(
            number=number,
            name=digest[:DIGITS] if number is None else str(number),
            run=model.metrics["run"],
            sealed_at=model.metrics.get("sealed_at"),
            program_sha256=digest,
        ),
        task=task,
        target=_target(model, task, numbers),
        classes=names,
        numbers=numbers,
        names=_names(model, task, numbers),
        inputs=inputs,
        answers=words,
        packages=own_packages(model),
        most_rows=MAX_PROMPTS if task == "generation" else None,
        metrics=test.get("metrics") or {},
        certified=test.get("certified") or [],
        files=model.digests,
    )


def _target(model: FinalModel, task: Task, numbers: int) -> str:
    text = model.schema.get("text") or {}
    args = model.data.get("args") or {}
    given = model.schema.get("targets") or model.schema.get("target") or text.get("target") or args.get("target")
    given = ", ".join(given) if isinstance(given, list) else given
    if task == "generation":
        return "what comes after a prompt"
    if task == "own":
        return "an answer"
    return str(given or ("class" if task == "classification" else "a number" if numbers == 1 else f"{numbers} numbers"))


def _names(model: FinalModel, task: Task, numbers: int) -> list[str]:
    if task == "forecast":
        return list(model.schema["targets"])
    return (model.resolved.get("target_names") or []) if numbers > 1 else []


def _answers(model: FinalModel, inputs: Inputs, classes: Sequence[str] | None) -> tuple[Task, list[str], int]:
    """Return the task, its classes and how many numbers it gives, by the program's first output.

    Raises ConfigurationError.
    """
    shape = model.outputs()[0][1]
    if inputs.kind == "prompt":
        if len(shape) != 3 or shape[1] is not None:
            raise _no_form(model, shape, [], "of texts of any length the next token's score at each place is needed")
        return "generation", [], 0
    if inputs.kind == "series":
        return "forecast", [], model.schema["series"]["horizon"] * len(model.schema["targets"])
    width = 1 if len(shape) == 1 else shape[-1] if len(shape) == 2 else None
    names = list(model.resolved.get("class_names") or [])
    task = _task(model)
    if names and classes and list(classes) != names:
        raise ConfigurationError(
            f"The model has the classes {', '.join(names)} of its data; {', '.join(classes)} are others.",
            remedy="Leave --classes out.",
        )
    names = names or list(classes or [])
    if task == "binary" and width != 1:
        raise _no_form(model, shape, names, "several labels that may hold at once are no one class")
    if width is not None and len(names) > 1 and width in {len(names), 1 if len(names) == 2 else -1}:
        return "classification", names, 0
    if names or width is None:
        raise _no_form(model, shape, names)
    if task == "regression" or (width == 1 and task not in {"binary", "classification"}):
        return "regression", [], width
    raise ConfigurationError(
        f"The model of {model.project} gives {width} scores and final_model/ names no classes; a service answers with "
        "the name of one.",
        remedy=f"Name them in the order of their numbers: --classes {','.join(f'class_{n}' for n in range(width))}.",
    )


def _own_answers(model: FinalModel, classes: Sequence[str] | None) -> tuple[Task, list[str], int]:
    """Return the same of answers that predict.py words. Raises ConfigurationError where classes are given to them."""
    answer, shape = model.schema["answer"], model.outputs()[0][1]
    if classes and list(classes) != answer.get("classes"):
        raise ConfigurationError(
            f"The answers of {model.project} are those of its predict.py, which {', '.join(classes)} would not change.",
            remedy="Leave --classes out.",
        )
    width = 1 if len(shape) == 1 else shape[-1] if len(shape) == 2 else None
    if answer["kind"] == "numbers" and width is not None and (width == 1 or not answer.get("names")):
        return "regression", [], width
    tasks: dict[str, Task] = {"classes": "classification", "mask": "mask", "labels": "labels"}
    task = tasks.get(answer["kind"], "own")
    return task, [] if task == "own" else answer["classes"], 0


def _task(model: FinalModel) -> str | None:
    """Return the kind of targets that the clean room recorded; by the built-in loss where it recorded none."""
    recorded, loss = model.evaluation.get("order", {}).get("task"), LOSSES.get(str(model.resolved.get("loss")))
    return recorded or (loss.task if loss is not None else None)


def _no_form(
    model: FinalModel, shape: list[Any], names: list[str], rule: str = "the templates answer with a class, or numbers"
) -> ConfigurationError:
    sizes = " x ".join("any" if size is None else str(size) for size in shape)
    return ConfigurationError(
        f"The model of {model.project} gives an output of {sizes or 'no size'} "
        f"for {len(names) or 'no'} classes; {rule}.",
        remedy="Serve it with the code of the model card (README.md, 'Use'); "
        "its evaluate.py shows how its rows are fed.",
    )
