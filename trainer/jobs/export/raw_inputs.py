"""Raw held-out inputs as the user has them, for the proof of `predict.py`: rows, series, pictures, arrays, own ones."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence, Sized
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.data.images.samples import ImageSamples
from trainwright.trainer.data.sources import open_source
from trainwright.trainer.data.sources.reading import Reading
from trainwright.trainer.data.sources.tables import Table
from trainwright.trainer.data.table import transform
from trainwright.trainer.data.tensors import TensorSamples
from trainwright.trainer.data.text.blocks import TokenRows
from trainwright.trainer.engine.session import Session
from trainwright.trainer.jobs.export.inputs import Inputs
from trainwright.trainer.jobs.export.observations import observations
from trainwright.trainer.jobs.export.own_functions import held_out, raw_inputs_of
from trainwright.trainer.jobs.export.parity import length, part, wanted_of
from trainwright.trainer.jobs.export.predict import Schema
from trainwright.trainer.jobs.export.served import Served
from trainwright.trainer.jobs.export.trainer_texts import text_columns

ROWS, FEW = 256, 16
"""Inputs that are compared: of tables, and of what takes longer."""
LINES_OF_JSON = (".jsonl", ".ndjson")
Rows = list[dict[str, Any]]
Answers = Sequence[dict[str, Any]]


class Given(NamedTuple):
    """Raw inputs as arguments of predict.py, and what the model gives for them."""

    arguments: list[str]
    wanted: Tensor
    wrong: Callable[[Answers], str] | None = None
    """Returns which answer is not what the model says, empty where all are; None: the outputs alone tell."""


def _table(session: Session, served: Served, schema: Schema, place: Path) -> Given | str:
    samples = held_out(session)
    if type(samples) is not TensorSamples or samples.rows is None:
        return "which rows of the files the held-out samples are is not known"
    places = samples.rows[:ROWS].tolist()
    inputs = samples.raw.gather(range(len(places)))[0]
    if session.work.splits.schema is None:  # of a source without a file
        names = [column["name"] for column in schema["columns"]]
        rows = [dict(zip(names, row, strict=True)) for row in inputs.tolist()]
    else:
        rows = _rows_at(places, _raw_rows(session, schema))
    file = written_rows(rows, schema, place / "rows", as_text=_is_csv(session))
    return Given([str(file)], wanted_of(served.serving, {"input": inputs})[0])


def _series(session: Session, served: Served, schema: Schema, place: Path) -> Given | str:
    series, samples = session.work.splits.series, held_out(session)
    assert series is not None, "of a series"  # noqa: S101
    starts = samples.rows[:FEW].tolist()
    windows = [series.order[start : start + series.window].tolist() for start in starts]
    rows = iter(_rows_at([row for window in windows for row in window], _raw_rows(session, schema)))
    several = [[next(rows) for _ in window] for window in windows]
    files = [written_rows(some, schema, place / str(n), as_text=_is_csv(session)) for n, some in enumerate(several)]
    inputs = samples.raw.gather(range(len(starts)))[0]
    return Given([str(file) for file in files], wanted_of(served.serving, {"input": inputs})[0])


def _pictures(session: Session, served: Served, schema: Schema, place: Path) -> Given | str:  # noqa: ARG001
    samples = held_out(session)
    assert isinstance(samples, ImageSamples)  # noqa: S101
    files = [samples.pictures.files[row] for row in samples.rows[:FEW]]
    pixels = torch.stack([torch.as_tensor(samples.raw[place][0]) for place in range(len(files))])
    return Given(files, wanted_of(served.serving, {"input": pixels})[0])


def _texts(session: Session, served: Served, schema: Schema, place: Path) -> Given | str:
    samples, column, wanted = held_out(session), schema["text"]["column"], _wanted_alone(served, FEW)
    if session.config.data is None:
        texts, places = text_columns(samples)[column], list(range(len(wanted)))
    elif isinstance(samples, TokenRows) and samples.places is not None:
        source = _source(session)
        texts = Reading(source, source.files(session.context.code_root)).cells().column(column)
        places = samples.places[: len(wanted)].tolist()
    else:
        return "which texts of the files the held-out samples are is not known"
    rows = [{column: texts[place]} for place in places]
    return Given([str(written_rows(rows, schema, place / "texts", as_text=False))], wanted)


def _arrays(session: Session, served: Served, schema: Schema, place: Path) -> Given | str:  # noqa: ARG001
    seen, first = observations(session, served, ROWS), next(served.rows.batches())
    rows = [part(first, 0, ROWS) if seen is None else seen] if not served.rows.ragged else served.rows.singles(1)
    if not rows:
        return "no held-out row can be taken alone"
    arrays: dict[str, Any] = {name: value.numpy() for name, value in rows[0].items()}
    np.savez(place / "samples.npz", **arrays)
    return Given([str(place / "samples.npz")], wanted_of(served.serving, rows[0])[0])


def _own(session: Session, served: Served, schema: Schema, place: Path) -> Given | str:  # noqa: ARG001
    texts, wanted = raw_texts_of(session, FEW), _wanted_alone(served, FEW)
    return Given(texts[: len(wanted)], wanted)


def raw_texts_of(session: Session, count: int) -> list[str]:
    """Return what the first held-out samples were raw, as `prepare` is given it.

    Raises:
        ConfigurationError: nothing says it, or it is not one of each sample.
    """
    samples = held_out(session)
    raw = raw_inputs_of(samples)
    remedy = (
        "Give the validation data set an attribute `raw_inputs`: of each sample the text (a path, a sentence) that "
    )
    remedy += "prepare takes; or leave data.prepare out."
    if raw is None:
        raise ConfigurationError(
            "`data.prepare` is named, and nothing says what the held-out samples were raw: it cannot be proven.",
            remedy=remedy,
        )
    if isinstance(samples, Sized) and len(raw) != len(samples):
        raise ConfigurationError(
            f"`raw_inputs` of the validation data set has {len(raw)} entries for {len(samples)} samples.", remedy=remedy
        )
    return [str(one) for one in raw[:count]]


KINDS: dict[str, Callable[[Session, Served, Schema, Path], Given | str]] = {
    "table": _table, "series": _series, "picture": _pictures, "text": _texts, "array": _arrays, "own": _own,
}  # fmt: skip


def alone(served: Served, count: int) -> list[Inputs]:
    """Return the first rows of the first batch, (1, ...) each."""
    first = next(served.rows.batches())
    return served.rows.singles(count) or [part(first, row, row + 1) for row in range(min(count, length(first)))]


def _wanted_alone(served: Served, count: int) -> Tensor:
    """Return the model's outputs, (rows, ...), for the first rows, each alone."""
    return torch.cat([wanted_of(served.serving, one)[0] for one in alone(served, count)])


def _source(session: Session) -> Table:
    section = session.config.data
    assert section is not None, "a built-in source"  # noqa: S101
    source = open_source(section.use, section.args)
    assert isinstance(source, Table), "it has rows"  # noqa: S101
    return source


def _is_csv(session: Session) -> bool:
    return session.config.data is not None and session.config.data.use == "csv"


def written_rows(rows: Rows, schema: Schema, path: Path, *, as_text: bool) -> Path:
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
