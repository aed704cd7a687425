"""Proof of `predict.py`: it answers raw held-out inputs in a process of its own, as the model does in training's.

Skew is what a deployed model gives otherwise than the trained one for the same rows of the user's files: they are read
here as whoever uses the folder reads them, and the outputs and the answers are compared.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.engine.session import Session
from trainwright.trainer.jobs.export.isolated import REPORT, run_alone
from trainwright.trainer.jobs.export.parity import difference
from trainwright.trainer.jobs.export.predict import Schema
from trainwright.trainer.jobs.export.raw_inputs import KINDS
from trainwright.trainer.jobs.export.raw_texts import KINDS as TEXTS
from trainwright.trainer.jobs.export.served import Served
from trainwright.trainer.prediction.assembly import PREDICT
from trainwright.trainer.run.results import Skew

CLOSE = 1e-3
"""By which probabilities may differ, and a second class may follow the first, beside the tolerance of the outputs."""
NEVER_MET = "the training data"
"""In each note of predict.py on a category, or a number, that is not among what training read."""
STARTER = "import runpy, sys; sys.argv.pop(0); runpy.run_path(sys.argv[0], run_name='__main__')"


class Told(NamedTuple):
    """What predict.py gave."""

    outputs: Tensor
    answers: list[dict[str, Any]]
    notes: list[list[str]]


def prove(session: Session, folder: Path, served: Served, schema: Schema) -> Skew | str:
    """Let predict.py answer raw held-out inputs, and compare; return why not where there are none to compare.

    Raises:
        IntegrityError: it fails, or its answers differ by more than the tolerance of the export.
    """
    with tempfile.TemporaryDirectory(prefix="raw-inputs-") as place:
        given = (KINDS | TEXTS)[schema["kind"]](session, served, schema, Path(place))
        if isinstance(given, str):
            return given
        told = answered(folder, given.arguments, Path(place), schema["needs"], _remedy(session, schema))
    found, tolerance = difference(told.outputs, given.wanted, "raw inputs"), session.config.deployment.onnx_tolerance
    find = given.wrong or partial(wrong_answer, schema["answer"], given.wanted)
    wrong = find(told.answers)
    if found.ratio > tolerance or wrong:
        raise IntegrityError(
            f"Raw inputs through {PREDICT} are predicted otherwise than in training: {wrong or found}.",
            remedy="Report this with one of the inputs (of a table: its header and first rows, and leave the columns "
            "concerned out of data.args.features until it is resolved).",
        )
    return Skew(
        kind=schema["kind"],
        answer=schema["answer"]["kind"],
        rows_compared=len(told.answers),
        max_abs_difference=found.difference,
        tolerance=tolerance,
        passed=True,
        beyond=beyond_training(told.notes),
    )


def _remedy(session: Session, schema: Schema) -> str:
    """Return what is to be done where predict.py fails: by whoever wrote the functions that it calls."""
    data, own = session.config.data, {"prepare": schema["kind"], "present": schema["answer"]["kind"]}
    named = [f"`{name}` ({getattr(data, name)})" for name, kind in own.items() if kind == "own"]
    if not named:
        return REPORT
    return f"Change {' or '.join(named)}, then export_model again: {contract_of(schema['program']['inputs'])}"


def contract_of(inputs: Sequence[str]) -> str:
    """Return what the user's prepare and present are given, and what is expected of them, for these inputs."""
    return (
        "prepare is given each of the validation data set's raw_inputs and returns one sample without a batch axis, as "
        f"the program takes it ({', '.join(inputs)}); present is given one output, and the input and `run` where it "
        "takes them. Both run in another folder, with the files that theirs import: paths in raw_inputs are whole ones."
    )


def answered(folder: Path, arguments: Sequence[str], place: Path, needs: str, remedy: str = REPORT) -> Told:
    """Return what predict.py gives in a process of its own. Raises IntegrityError, with a remedy, where it fails."""
    outputs = place / "outputs.npy"
    printed = run_alone(
        STARTER, [str(folder / PREDICT), "--json", "--outputs", str(outputs), *arguments], place,
        needs=needs, failed=f"{PREDICT} does not answer raw inputs that training read", remedy=remedy,
    )  # fmt: skip
    lines = [json.loads(line) for line in printed.splitlines()]
    notes = [line.get("notes", []) for line in lines]
    return Told(torch.from_numpy(np.load(outputs)), [line["answer"] for line in lines], notes)


def beyond_training(notes: Sequence[Sequence[str]]) -> dict[str, int]:
    """Return by column how many rows' notes say that training never met its value, the most frequent first."""
    found = Counter(name for row in notes for name in {note.partition(":")[0] for note in row if NEVER_MET in note})
    return dict(found.most_common())


def wrong_answer(meaning: Mapping[str, Any], wanted: Tensor, answers: Sequence[Mapping[str, Any]]) -> str:
    """Return the first answer that is not what the model's outputs, (rows, ...), mean; empty where all are."""
    if len(answers) != len(wanted):
        return f"{len(answers)} answers to {len(wanted)} inputs"
    if meaning["kind"] not in MEANT:
        return ""
    for place, (outputs, answer) in enumerate(zip(wanted.double(), answers, strict=True), start=1):
        if wrong := MEANT[meaning["kind"]](meaning, outputs.reshape(-1), answer):
            return f"input {place}: {wrong}"
    return ""


def _meant_class(meaning: Mapping[str, Any], outputs: Tensor, answer: Mapping[str, Any]) -> str:
    both = torch.stack([-outputs[0], outputs[0]]) / 2 if len(outputs) == 1 else outputs
    shares = outputs if meaning["are_probabilities"] else both.softmax(0)
    best = int(shares.argmax())
    said = float(shares[meaning["classes"].index(answer["label"])])
    is_close = abs(said - float(shares[best])) < CLOSE and abs(answer["probability"] - said) < CLOSE
    return (
        ""
        if is_close
        else f"{answer['label']!r} ({answer['probability']:.4f}) for {meaning['classes'][best]!r} ({shares[best]:.4f})"
    )


def _meant_labels(meaning: Mapping[str, Any], outputs: Tensor, answer: Mapping[str, Any]) -> str:
    shares = outputs.sigmoid().tolist()
    far = [
        name
        for name, one in zip(meaning["classes"], shares, strict=True)
        if abs(answer["probabilities"][name] - one) > CLOSE
    ]
    return f"{far[0]!r} has another probability" if far else ""


def _meant_numbers(_: Mapping[str, Any], outputs: Tensor, answer: Mapping[str, Any]) -> str:
    values = answer.get("values", answer.get("value"))
    listed = list(values.values()) if isinstance(values, dict) else values
    told = torch.tensor(listed, dtype=torch.float64).reshape(-1)
    return "" if difference(told, outputs, "").ratio < CLOSE else f"{listed} for {outputs.tolist()[:10]}"


def _meant_rows(meaning: Mapping[str, Any], outputs: Tensor, answer: Mapping[str, Any]) -> str:
    width = len(outputs) // len(answer["forecast"])
    told = [value for row in answer["forecast"] for value in list(row.values())[-width:]]
    return _meant_numbers(meaning, outputs, {"value": told})


def _meant_rank(_: Mapping[str, Any], outputs: Tensor, answer: Mapping[str, Any]) -> str:
    score = outputs[-1:] - outputs[:1] if len(outputs) == 2 else outputs
    return _meant_numbers(_, score, {"value": answer["score"]})


MEANT: dict[str, Callable[[Mapping[str, Any], Tensor, Mapping[str, Any]], str]] = {
    "classes": _meant_class, "labels": _meant_labels, "numbers": _meant_numbers, "forecast": _meant_rows,
    "ranks": _meant_rank,
}  # fmt: skip
