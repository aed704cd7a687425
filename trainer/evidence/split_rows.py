"""Rows that each split holds, by digests of their content as the source has it: grown data say what is new."""

from __future__ import annotations

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.canonical import digest_bytes
from trainwright.trainer.data import marks, rows
from trainwright.trainer.data.cells import mixed
from trainwright.trainer.data.fingerprint import MAX_SAMPLES_READ, chosen_rows
from trainwright.trainer.data.split_methods.rows import NAMES
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.tensors import KnownSamples, TensorSamples
from trainwright.trainer.run import RunDirectory
from trainwright.trainer.run.directory import write_atomically
from trainwright.trainer.run.split_rows import CELL, FILE, HASH, INDEX, MAX_ROWS, ORDER, RECORD, SplitRows


def record_split_rows(run: RunDirectory, splits: Splits) -> None:
    """Write which rows each split holds: `artifacts/split_rows.bin` and, as evidence, what is in it."""
    recorded = rows_of(splits)
    if recorded is None:
        why = f"samples that are read one by one, more than {MAX_SAMPLES_READ} of them"
        run.write_evidence(SplitRows(not_recorded=why))
        return
    found, level, columns = recorded
    groups = splits.group_marks if level == 0 else []  # which are as many as rows at most
    content = b"".join([*(b"".join(found.get(name, [])) for name in ORDER), *groups])
    write_atomically(run.artifacts / FILE, content)
    run.written[f"artifacts/{FILE}"] = digest_bytes(content)
    kept, digest = {name: len(records) for name, records in found.items()}, digest_bytes(content)
    size = RECORD + CELL * len(columns)
    known = {"level": level, "kept": kept, "size": size, "columns": columns, "source": splits.placed_in}
    known |= {"groups": len(groups)}
    run.write_evidence(SplitRows(**known, digest=digest))


def rows_of(splits: Splits) -> tuple[dict[str, list[bytes]], int, list[str]] | None:
    """Return the sorted records of each split's rows, the level at which they were drawn, and their columns.

    None where rows are not in memory and too many to have been read one by one.
    """
    parts = {name: splits.samples[name] for name in NAMES if name in splits.samples}
    if splits.series is not None:  # windows overlap: rows are what is held
        parts = {name: splits.series.forecast(samples) for name, samples in parts.items()}
    size = sum(len(one) if type(one) is TensorSamples else splits.records[name].size for name, one in parts.items())
    level = max((size // MAX_ROWS).bit_length(), 0) if size > MAX_ROWS else 0
    found, cells, known = dict[str, list[bytes]](), list[str](), marks.Known.of(splits, size)
    for name, samples in parts.items():
        if type(samples) is TensorSamples:
            marked, indices = _of_tensors(samples, known, level)
            records, cells = marked.records, marked.columns
        elif splits.records[name].sampled and not isinstance(samples, KnownSamples):
            return None
        else:
            records, indices = _of_digests(splits, name, level)
        if splits.series is None:
            records = [one + int(at).to_bytes(CELL, "big") for one, at in zip(records, indices, strict=True)]
        found[name] = sorted(set(records))
    return found, level, cells if splits.series is not None else [*cells, INDEX]


def contents_and_inputs(splits: Splits, name: str) -> tuple[list[str], list[str]]:
    """Return the digests of a split's samples, of those that its record read, and of these without their targets."""
    samples, record = splits.samples[name], splits.records[name]
    if isinstance(samples, KnownSamples):
        return samples.contents, samples.inputs
    if type(samples) is not TensorSamples:
        return record.digests, record.inputs
    held = samples if splits.series is None else splits.series.forecast(samples)
    return record.digests, rows.row_digests(rows.without_targets(held), chosen_rows(len(held)))


def _of_digests(splits: Splits, name: str, level: int) -> tuple[list[bytes], Array]:
    """Return the records of the samples that are drawn, and their indices."""
    limit = 1 << (64 - level)
    pairs = (tuple(map(bytes.fromhex, pair)) for pair in zip(*contents_and_inputs(splits, name), strict=True))
    drawn = [(at, pair) for at, pair in enumerate(pairs) if int.from_bytes(pair[0][:HASH]) < limit]
    records = [content[:HASH] + content + inputs + marks.NOWHERE for _, (content, inputs) in drawn]
    return records, np.array([at for at, _ in drawn], dtype=np.int64)


def _of_tensors(samples: TensorSamples, known: marks.Known, level: int) -> tuple[marks.Marks, Array]:
    """Return the marks of the rows that are recorded, and their indices among the samples."""
    hashes = mixed(rows.row_hashes(marks.by_class_name(samples, known.class_names)))
    chosen = np.flatnonzero(hashes < np.uint64(1 << (64 - level))) if level else np.arange(len(hashes))
    return marks.marks_of(samples, known, chosen, hashes[chosen]), chosen
