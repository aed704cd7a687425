"""Raw rows of a table: the transform that is shipped with a final model, and its skew against training.

Skew is what a deployed model gives otherwise than the trained one, for the same rows of the user's file. Rows are read
and encoded by the shipped files alone, as whoever serves the model does, and predicted by the shipped program.
"""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.data.preprocessing import Table as TablePreprocessing
from trainwright.trainer.data.sources import open_source
from trainwright.trainer.data.sources.reading import Reading
from trainwright.trainer.data.sources.tables import Table
from trainwright.trainer.data.table import transform
from trainwright.trainer.data.tensors import TensorSamples
from trainwright.trainer.engine.session import Session
from trainwright.trainer.jobs.export.parity import difference, wanted_of
from trainwright.trainer.jobs.export.serving import Serving
from trainwright.trainer.run.results import Skew

TRANSFORM, SCHEMA = "transform.py", "schema.json"
ROWS = 256
LINES_OF_JSON = (".jsonl", ".ndjson")


def ship_transform(session: Session, folder: Path) -> bool:
    """Write transform.py and schema.json into the folder; return whether the data is a table that needs them."""
    splits = session.work.splits
    if splits.schema is None or splits.series is not None:  # a window is no row
        return False
    schema = splits.schema.shipped(_known(splits.preprocessing))
    (folder / TRANSFORM).write_bytes(Path(transform.__file__).read_bytes())
    (folder / SCHEMA).write_text(json.dumps(schema, indent=2, ensure_ascii=False), encoding="utf-8")
    return True


def _known(preprocessing: Any) -> dict[str, set[int]]:
    """Return the codes of the categories that the train split has, by column."""
    if not isinstance(preprocessing, TablePreprocessing):
        return {}
    return {one["name"]: set(one["known"]) for one in preprocessing.columns if one["kind"] == "category"}


def measure_skew(session: Session, folder: Path, serving: Serving) -> Skew | None:
    """Compare raw rows through the shipped files with the training's own; None where there are none to compare.

    Raises:
        IntegrityError: they differ by more than the tolerance of the export.
    """
    splits = session.work.splits
    samples = splits.samples.get("validation", splits.samples["train"])
    if type(samples) is not TensorSamples or samples.rows is None:
        return None
    places = samples.rows[:ROWS].tolist()
    shipped = runpy.run_path(str(folder / TRANSFORM))
    schema = json.loads((folder / SCHEMA).read_text(encoding="utf-8"))
    rows = _rows_at(places, _raw_rows(session, shipped, schema))
    inputs = shipped["encode_rows"](rows, schema)
    wanted = wanted_of(serving, {"input": samples.raw.gather(range(len(places)))[0]})[0]
    found = difference(torch.from_numpy(_predicted(folder, inputs, serving)), wanted, "raw rows")
    tolerance = session.config.deployment.onnx_tolerance
    skew = Skew(
        rows_compared=len(rows),
        max_abs_difference=found.difference,
        tolerance=tolerance,
        passed=found.ratio <= tolerance,
    )
    if not skew.passed:
        raise IntegrityError(
            f"Raw rows through the shipped {TRANSFORM} are predicted otherwise than in training: {found}.",
            remedy="Report this with the table's header and first rows; leave the columns concerned out of "
            "data.args.features until it is resolved.",
        )
    return skew


def _predicted(folder: Path, inputs: np.ndarray[Any, Any], serving: Serving) -> np.ndarray[Any, Any]:
    program = folder / "model.onnx"
    if not program.is_file():
        return wanted_of(serving, {"input": torch.from_numpy(inputs)})[0].numpy()
    import onnxruntime

    session = onnxruntime.InferenceSession(program, providers=["CPUExecutionProvider"])
    found: np.ndarray[Any, Any] = session.run(None, {session.get_inputs()[0].name: inputs})[0]
    return found


def _rows_at(places: list[int], rows: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    wanted, last = set(places), max(places)
    found = {}
    for place, row in enumerate(rows):
        if place in wanted:
            found[place] = row
        if place == last:
            break
    return [found[place] for place in places]


def _raw_rows(session: Session, shipped: dict[str, Any], schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of the user's files that are samples.

    Rows of text files are as the shipped code reads them, others as JSON would hold them.
    """
    section = session.config.data
    assert section is not None, "a built-in source"  # noqa: S101
    source = open_source(section.use, section.args)
    assert isinstance(source, Table), "it has a schema"  # noqa: S101
    files = source.files(session.context.code_root)
    reading = Reading(source, files)
    if source.name == "csv" or all(file.suffix in LINES_OF_JSON for file in files):
        dropped = set(reading.dropped.tolist())
        rows = chain.from_iterable(shipped["read_rows"](file, schema) for file in files)
        return (row for place, row in enumerate(rows) if place not in dropped)
    batches = reading.batches(reading.header)
    return (json.loads(json.dumps(row, default=str)) for batch in batches for row in batch.to_pylist())
