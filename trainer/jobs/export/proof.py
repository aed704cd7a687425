"""Proof of `predict.py`: it answers raw held-out inputs in a process of its own, as the model does in training's.

Skew is what a deployed model gives otherwise than the trained one for the same rows of the user's files: they are read
here as whoever uses the folder reads them, and the outputs and the answers are compared.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trainwright.trainer.base.errors import ConfigurationError, IntegrityError
from trainwright.trainer.data.images.samples import ImageSamples
from trainwright.trainer.data.sources import open_source
from trainwright.trainer.data.sources.reading import Reading
from trainwright.trainer.data.sources.tables import Table
from trainwright.trainer.data.table import transform
from trainwright.trainer.data.tensors import TensorSamples
from trainwright.trainer.data.text.blocks import TokenRows
from trainwright.trainer.engine.session import Session
from trainwright.trainer.jobs.export.inputs import Inputs
from trainwright.trainer.jobs.export.parity import difference, length, part, wanted_of
from trainwright.trainer.jobs.export.predict import Schema
from trainwright.trainer.jobs.export.served import Served
from trainwright.trainer.prediction.assembly import PREDICT
from trainwright.trainer.run.results import Skew

ROWS, FEW = 256, 16
"""Inputs that are compared: of tables, and of what takes longer."""
LINES_OF_JSON = (".jsonl", ".ndjson")
CLOSE = 1e-3
"""By which probabilities may differ, and a second class may follow the first, beside the tolerance of the outputs."""
TIMEOUT_SECONDS = 600.0
STARTER = (
    "import runpy, sys; sys.path += sys.argv.pop(1).split(chr(10)); sys.argv.pop(0); "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)
Rows = list[dict[str, Any]]


class Given(NamedTuple):
    """Raw inputs as arguments of predict.py, and what the model gives for them."""

    arguments: list[str]
    wanted: Tensor


class Told(NamedTuple):
    """What predict.py gave."""

    outputs: Tensor
    answers: list[dict[str, Any]]


def prove(session: Session, folder: Path, served: Served, schema: Schema) -> Skew | None:
    """Let predict.py answer raw held-out inputs, and compare; None where there are none to compare.

    Raises:
        IntegrityError: it fails, or its answers differ by more than the tolerance of the export.
    """
    with tempfile.TemporaryDirectory(prefix="raw-inputs-") as place:
        given = KINDS[schema["kind"]](session, served, schema, Path(place))
        if given is None:
            return None
        told = answered(folder, given.arguments, Path(place))
    found, tolerance = difference(told.outputs, given.wanted, "raw inputs"), session.config.deployment.onnx_tolerance
    wrong = wrong_answer(schema["answer"], given.wanted, told.answers)
    if found.ratio > tolerance or wrong:
        raise IntegrityError(
            f"Raw inputs through {PREDICT} are predicted otherwise than in training: {wrong or found}.",
            remedy="Report this with one of the inputs (of a table: its header and first rows, and leave the columns "
            "concerned out of data.args.features until it is resolved).",
        )
    return Skew(
        kind=schema["kind"],
        answer=schema["answer"]["kind"],
        rows_compared=len(given.wanted),
        max_abs_difference=found.difference,
        tolerance=tolerance,
        passed=True,
    )


def answered(folder: Path, arguments: Sequence[str], place: Path) -> Told:
    """Return what predict.py gives in a process of its own. Raises IntegrityError where it fails.

    The process is isolated: no path and no variable of this one's, but the folders of the packages that it needs.
    """
    needs = [importlib.util.find_spec(name) for name in ("numpy", "onnxruntime", "PIL", "tokenizers", "torch")]
    origins = [str(Path(spec.origin).parents[1]) for spec in needs if spec is not None and spec.origin]
    environment = {
        "PATH": os.environ.get("PATH", ""), "HOME": str(place), "LANG": "C.UTF-8", "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": str(torch.get_num_threads()),
    }  # fmt: skip
    outputs = place / "outputs.npy"
    done = subprocess.run(
        [sys.executable, "-I", "-B", "-c", STARTER, "\n".join(dict.fromkeys(origins)), str(folder / PREDICT), "--json",
         "--outputs", str(outputs), *arguments],
        capture_output=True, text=True, check=False, cwd=place, env=environment, timeout=TIMEOUT_SECONDS,
    )  # fmt: skip
    if done.returncode:
        last = (done.stderr.strip() or f"it ended with {done.returncode}")[-600:]
        raise IntegrityError(
            f"{PREDICT} does not answer raw inputs that training read: {last}",
            remedy="Report this with one of the inputs; deployment.formats says which programs are exported.",
        )
    return Told(torch.from_numpy(np.load(outputs)), [json.loads(line)["answer"] for line in done.stdout.splitlines()])


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


MEANT: dict[str, Callable[[Mapping[str, Any], Tensor, Mapping[str, Any]], str]] = {
    "classes": _meant_class, "labels": _meant_labels, "numbers": _meant_numbers, "forecast": _meant_rows,
}  # fmt: skip


def _held_out(session: Session) -> Any:
    samples = session.work.splits.samples
    return samples.get("validation", samples["train"])


def _table(session: Session, served: Served, schema: Schema, place: Path) -> Given | None:
    samples = _held_out(session)
    if type(samples) is not TensorSamples or samples.rows is None:
        return None
    places = samples.rows[:ROWS].tolist()
    inputs = samples.raw.gather(range(len(places)))[0]
    if session.work.splits.schema is None:  # of a source without a file
        names = [column["name"] for column in schema["columns"]]
        rows = [dict(zip(names, row, strict=True)) for row in inputs.tolist()]
    else:
        rows = _rows_at(places, _raw_rows(session, schema))
    file = _written(rows, schema, place / "rows", as_text=_is_csv(session))
    return Given([str(file)], wanted_of(served.serving, {"input": inputs})[0])


def _series(session: Session, served: Served, schema: Schema, place: Path) -> Given | None:
    series, samples = session.work.splits.series, _held_out(session)
    assert series is not None, "of a series"  # noqa: S101
    starts = samples.rows[:FEW].tolist()
    windows = [series.order[start : start + series.window].tolist() for start in starts]
    rows = iter(_rows_at([row for window in windows for row in window], _raw_rows(session, schema)))
    several = [[next(rows) for _ in window] for window in windows]
    files = [_written(some, schema, place / str(n), as_text=_is_csv(session)) for n, some in enumerate(several)]
    inputs = samples.raw.gather(range(len(starts)))[0]
    return Given([str(file) for file in files], wanted_of(served.serving, {"input": inputs})[0])


def _pictures(session: Session, served: Served, schema: Schema, place: Path) -> Given | None:  # noqa: ARG001
    samples = _held_out(session)
    assert isinstance(samples, ImageSamples)  # noqa: S101
    files = [samples.pictures.files[row] for row in samples.rows[:FEW]]
    pixels = torch.stack([torch.as_tensor(samples.raw[place][0]) for place in range(len(files))])
    return Given(files, wanted_of(served.serving, {"input": pixels})[0])


def _texts(session: Session, served: Served, schema: Schema, place: Path) -> Given | None:
    samples = _held_out(session)
    if not isinstance(samples, TokenRows) or samples.places is None:
        return None
    source = _source(session)
    texts = Reading(source, source.files(session.context.code_root)).cells().column(schema["text"]["column"])
    wanted = _alone(served, FEW)
    rows = [{schema["text"]["column"]: texts[row]} for row in samples.places[: len(wanted)].tolist()]
    return Given([str(_written(rows, schema, place / "texts", as_text=False))], wanted)


def _prompts(session: Session, served: Served, schema: Schema, place: Path) -> Given | None:  # noqa: ARG001
    from trainwright.trainer.data.text.transform import encoder

    text = "The beginning of a text"
    tokens = torch.tensor(
        [encoder(schema["text"], session.run.artifacts / "final_model")(text)[-schema["text"]["block_size"] :]]
    )
    named = {
        "input_ids": tokens,
        "attention_mask": torch.ones_like(tokens),
        "position_ids": torch.arange(tokens.shape[1])[None],
    }
    names = list(next(served.rows.batches()))
    given = named if set(names) <= named.keys() else dict(zip(names, named.values(), strict=False))
    return Given(["--tokens", "4", text], wanted_of(served.serving, {name: given[name] for name in names})[0][:, -1])


def _arrays(session: Session, served: Served, schema: Schema, place: Path) -> Given | None:  # noqa: ARG001
    first = next(served.rows.batches())
    rows = [part(first, 0, ROWS)] if not served.rows.ragged else served.rows.singles(1)
    if not rows:
        return None
    arrays: dict[str, Any] = {name: value.numpy() for name, value in rows[0].items()}
    np.savez(place / "samples.npz", **arrays)
    return Given([str(place / "samples.npz")], wanted_of(served.serving, rows[0])[0])


def _own(session: Session, served: Served, schema: Schema, place: Path) -> Given | None:  # noqa: ARG001
    raw = raw_inputs_of(_held_out(session))
    if raw is None:
        raise ConfigurationError(
            "`data.prepare` is named, and nothing says what the held-out samples were raw: it cannot be proven.",
            remedy="Give the validation data set an attribute `raw_inputs`: of each sample the text (a path, a "
            "sentence) that prepare takes; or leave data.prepare out.",
        )
    wanted = _alone(served, FEW)
    return Given([str(one) for one in raw[: len(wanted)]], wanted)


def raw_inputs_of(samples: Any) -> list[Any] | None:
    """Return what the user's samples were before they were prepared, one of each; None where nothing says it."""
    if hasattr(samples, "raw_inputs"):
        return list(samples.raw_inputs)
    inner, places = getattr(samples, "dataset", None), getattr(samples, "indices", None)
    if inner is None or places is None:
        return None
    whole = raw_inputs_of(inner)
    return None if whole is None else [whole[place] for place in places]


KINDS: dict[str, Callable[[Session, Served, Schema, Path], Given | None]] = {
    "table": _table, "series": _series, "picture": _pictures, "text": _texts, "prompt": _prompts, "array": _arrays,
    "own": _own,
}  # fmt: skip


def _alone(served: Served, count: int) -> Tensor:
    """Return the model's outputs, (rows, ...), for the first rows of the first batch, each alone."""
    first = next(served.rows.batches())
    singles: list[Inputs] = served.rows.singles(count) or [
        part(first, row, row + 1) for row in range(min(count, length(first)))
    ]
    return torch.cat([wanted_of(served.serving, one)[0] for one in singles])


def _source(session: Session) -> Table:
    section = session.config.data
    assert section is not None, "a built-in source"  # noqa: S101
    source = open_source(section.use, section.args)
    assert isinstance(source, Table), "it has rows"  # noqa: S101
    return source


def _is_csv(session: Session) -> bool:
    return session.config.data is not None and session.config.data.use == "csv"


def _written(rows: Rows, schema: Schema, path: Path, *, as_text: bool) -> Path:
    """Write rows as the user's file has them: as CSV with its marks, or as JSON lines; return the file."""
    if not as_text:
        path = path.with_suffix(".jsonl")
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path
    path = path.with_suffix(".csv")
    with path.open("w", encoding=schema.get("encoding") or "utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=schema.get("delimiter") or ",")
        header = [list(rows[0])] if schema.get("names") is None or schema.get("header") else []
        writer.writerows([[]] * ((schema.get("header") or 1) - 1) + header + [list(row.values()) for row in rows])
    return path


def _rows_at(places: list[int], rows: Iterator[dict[str, Any]]) -> Rows:
    wanted, last = set(places), max(places)
    found = {}
    for place, row in enumerate(rows):
        if place in wanted:
            found[place] = row
        if place == last:
            break
    return [found[place] for place in places]


def _raw_rows(session: Session, schema: Schema) -> Iterator[dict[str, Any]]:
    """Yield the rows of the user's files that are samples.

    Rows of text files are as the shipped code reads them, others as JSON would hold them.
    """
    source = _source(session)
    files = source.files(session.context.code_root)
    reading = Reading(source, files)
    if source.name == "csv" or all(file.suffix in LINES_OF_JSON for file in files):
        dropped = set(reading.dropped.tolist())
        rows = chain.from_iterable(transform.read_rows(file, schema) for file in files)
        return (row for place, row in enumerate(rows) if place not in dropped)
    batches = reading.batches(reading.header)
    return (json.loads(json.dumps(row, default=str)) for batch in batches for row in batch.to_pylist())
