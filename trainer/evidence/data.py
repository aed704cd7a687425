"""Data of a run as evidence: sizes, fingerprints and overlap of its splits, and the files that it comes from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from itertools import accumulate, combinations
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from trainwright.trainer.base import download_log
from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.data import cache
from trainwright.trainer.data.assemble import shared_rows
from trainwright.trainer.data.fingerprint import EMPTY, MAX_NAMED, SplitRecord
from trainwright.trainer.data.first_look import first_sample
from trainwright.trainer.data.near_duplicates import compare
from trainwright.trainer.data.split_methods.rows import NAMES
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.table.schema import Column
from trainwright.trainer.data.tensors import TensorSamples, known_targets
from trainwright.trainer.run.evidence import AlikeSamples, Data, Split
from trainwright.trainer.run.profile import QUANTILES, ColumnProfile, Profile

MAX_INPUTS = 30


def data_evidence(splits: Splits, code_root: Path) -> Data:
    """Return sizes, fingerprints, class counts, overlap, preprocessing, source files."""
    records = {name: splits.records.get(name, EMPTY) for name in NAMES}
    digests = {name: set(record.digests) for name, record in records.items()}
    pairs = list(combinations(NAMES, 2))
    shared = splits.shared_with_test.union(
        *(digests[one] & digests[other] | shared_rows(splits, one, other) for one, other in pairs)
    )
    fitted = splits.preprocessing.record() if splits.preprocessing is not None else None
    schema = splits.schema.record() if splits.schema is not None else None
    preprocessing = digest_json(fitted if schema is None else [fitted, schema])
    sample = next(iter(_first(splits.samples["train"])), None)
    return Data(
        source=splits.source,
        splits={name: _described(name, record) for name, record in records.items()},
        disjoint=not shared,
        shared_samples=len(shared),
        shared_examples=_where(splits, records, shared),
        alike_samples=[AlikeSamples.model_validate(found) for found in _alike_of(splits, records)],
        split=splits.split,
        text=splits.text.as_dict() if splits.text is not None else None,
        preprocessing={"kind": fitted["kind"] if fitted is not None else None},
        preprocessing_digest=preprocessing,
        columns=schema,
        files={_relative(path, code_root): cache.current().digests.of(path) for path in splits.files},
        class_names=splits.class_names,
        target_names=splits.target_names,
        feature_names=splits.feature_names,
        places=places_of(splits),
        wide=wide_of(splits),
        categories=categories_of(splits),
        input={
            "shape": list(getattr(sample, "shape", ())),
            "dtype": str(getattr(sample, "dtype", type(sample).__name__)),
        },
        understood=_target(splits) | _inputs(splits) | splits.understood,
        skipped=len(splits.skipped),
        skipped_files=splits.skipped[:MAX_NAMED],
        fingerprint=digest_json([[record.fingerprint for record in records.values()], preprocessing]),
        first_look=None if splits.look is None else "known" if splits.look.is_known else "now",
        sampled=any(record.sampled for record in records.values()),
    )


def _where(splits: Splits, records: Mapping[str, SplitRecord], shared: Collection[str]) -> list[dict[str, int]]:
    """Return the numbers of the first samples that splits share, in each of them; of those that were read whole."""
    if not shared:
        return []
    found: dict[str, dict[str, int]] = {digest: {} for digest in sorted(shared)}
    for name, record in records.items():
        samples = splits.samples.get(name)
        rows = samples.rows if splits.placed_in and isinstance(samples, TensorSamples) else None
        for place, digest in enumerate([] if record.sampled else record.digests):
            if digest in found:
                found[digest].setdefault(name, place if rows is None else int(rows[place]))
    named = sorted((list(one.items()) for one in found.values() if len(one) > 1), key=lambda one: one[0][1])
    return [dict(one) for one in named[:MAX_NAMED]]


def _described(name: str, record: SplitRecord) -> Split:
    """Return the record of a split: of test, only its size before it is evaluated."""
    found = {"size": record.size, "different": len(set(record.digests)), "fingerprint": record.fingerprint}
    return Split.model_validate(found if name == "test" else found | {"classes": record.classes})


def _target(splits: Splits) -> dict[str, str]:
    """Return what the target was taken for, in words; empty where the data's own code says it."""
    columns = splits.schema.target_columns if splits.schema is not None else []
    targets, names = known_targets(splits.samples["train"]), splits.target_names or [one.name for one in columns]
    if len(names) > 1:
        of = columns or [Column(name, "boolean", "") for name in names]
        each = names
        if targets is not None and targets.shape[1:] == (len(of),):
            each = [_told(one, targets[:, place]) for place, one in enumerate(of)]
        strata = "; rows are split without strata" if splits.class_names is not None else ""
        return {"target": f"{len(names)} at once{strata}: {'; '.join(each)}"}
    if splits.class_names is not None:
        return {"target": f"{columns[0].name if columns else 'target'}: {len(splits.class_names)} classes"}
    if not columns or targets is None or targets.dim() != 1 or not targets.is_floating_point():
        return {}
    return {"target": _told(columns[0], targets)}


def _told(column: Column, targets: Tensor) -> str:
    """Return what one of the targets was taken for: numbers, or a label by which of its values is 1; (rows,)."""
    if column.kind == "boolean" or column.values:
        said = "".join(f" ({name!r} is 1)" for name, label in column.values.items() if label)
        return f"{column.name}: yes or no{said}, {targets.mean():.3g} of the train rows are"
    unit = f" {column.unit}" if column.unit else ""
    reads = f" ({column.reason})" if column.decimal == "," or column.thousands or column.unit else ""
    return f"{column.name}: a number from {targets.min():g} to {targets.max():g}{unit}, mean {targets.mean():g}{reads}"


def _inputs(splits: Splits) -> dict[str, str]:
    """Return which columns the model gets, shortened where they are many; empty where they have no names."""
    features = splits.schema.features if splits.schema is not None else []
    names = [one.name for one in features] or splits.feature_names or []
    more = [f"and {len(names) - MAX_INPUTS} more"] if len(names) > MAX_INPUTS else []
    return {"inputs": f"{len(names)}: {', '.join([*names[:MAX_INPUTS], *more])}"} if names else {}


def _alike_of(splits: Splits, records: dict[str, SplitRecord]) -> list[dict[str, Any]]:
    """Return how many inputs are almost equal, as found now or by the first look, which is kept once it is complete."""
    look = splits.look
    if look is None:
        return [] if splits.series is not None else _alike(records)
    if look.is_known and look.found is not None and look.found.alike is not None:
        return look.found.alike
    alike = _alike(records)
    if look.found is not None:
        look.looks.keep(look.key, replace(look.found, alike=alike))
    return alike


def _alike(records: dict[str, SplitRecord]) -> list[dict[str, Any]]:
    """Return, for every two splits and tolerance by which some of their inputs are almost equal, how many are."""
    return [
        {"splits": [first, other], **asdict(one)}
        for first, others in (("train", ("validation", "test")), ("validation", ("test",)))
        for other, found in zip(others, compare(records[first], [records[name] for name in others]), strict=True)
        for one in found
        if one.alike
    ]


def _first(samples: Any) -> list[Any]:
    sample = first_sample(samples)
    if isinstance(sample, Mapping):
        return list(sample.values())
    return list(sample) if isinstance(sample, tuple | list) else [sample]


def _relative(path: Path, root: Path) -> str:
    resolved = root.resolve()
    if (elsewhere := download_log.name_of(path)) is not None:
        return elsewhere
    return path.relative_to(resolved).as_posix() if path.is_relative_to(resolved) else path.name


# Profile of the train split: what each column of a table holds. Of held-out rows nothing is read.

MAX_ROWS = 100_000
MAX_COLUMNS = 500
MAX_VALUES = 50
"""Distinct values of a column that are listed with their shares; of one with more, quantiles are kept."""
DIGITS = 6


def profile_evidence(splits: Splits) -> Profile:
    """Return what the columns of the train split hold, as the source has them."""
    train = splits.samples["train"]
    if type(train) is not TensorSamples or train.base[0].dim() != 2:
        return Profile(problem="the samples are no rows of a table in memory")
    places = places_of(splits) or {f"column_{place}": place for place in range(train.base[0].shape[1])}
    size = len(train)
    chosen = np.arange(size)
    if size > MAX_ROWS:
        chosen = np.sort(np.random.default_rng(size).choice(size, MAX_ROWS, replace=False))
    inputs = train.column(0)[chosen].double().numpy()
    known = categories_of(splits)
    columns = {
        name: column_profile(inputs[:, place], known.get(name))
        for name, place in list(places.items())[:MAX_COLUMNS]
        if place < inputs.shape[1]
    }
    return Profile(columns=columns, rows=len(chosen))


def places_of(splits: Splits) -> dict[str, int]:
    """Return the input that each column of a table is, of those that are one input; empty where they have no names.

    Of a date with its time of day it is the day.
    """
    if splits.schema is None:
        return {name: place for place, name in enumerate(splits.feature_names or [])}
    found, place = {}, 0
    for column in splits.schema.features:
        if column.width == 1 or column.kind == "date":
            found[column.name] = place
        place += column.width
    return found


def wide_of(splits: Splits) -> dict[str, list[int]]:
    """Return the first input and the width of each column of a table that is several inputs."""
    columns = splits.schema.features if splits.schema is not None else []
    starts = accumulate((column.width for column in columns), initial=0)
    return {
        column.name: [start, column.width] for column, start in zip(columns, starts, strict=False) if column.width > 1
    }


def categories_of(splits: Splits) -> dict[str, list[str]]:
    """Return the values of each column of categories, in the order of their codes."""
    columns = splits.schema.features if splits.schema is not None else []
    return {
        column.name: sorted(column.values, key=lambda value: column.values[value])
        for column in columns
        if column.kind == "category" and column.values
    }


def column_profile(values: np.ndarray[Any, Any], categories: list[str] | None = None) -> ColumnProfile:
    """Return the profile of a column, (rows,) of float64; NaN is missing, and so is a code below 0.

    Args:
        categories: of a column of codes, the value of each.
    """
    there = np.isfinite(values) if categories is None else values >= 0
    held = values[there]
    found: dict[str, Any] = {"count": len(values), "missing": int((~there).sum())}
    if not len(held):
        return ColumnProfile(**found)
    distinct, counts = np.unique(held, return_counts=True)
    if categories is not None or len(distinct) <= MAX_VALUES:
        order = np.argsort(-counts, kind="stable")[:MAX_VALUES]
        found["shares"] = {_named(distinct[at], categories): _rounded(counts[at] / len(held)) for at in order}
    if categories is None:
        ends = np.quantile(held, np.linspace(0.0, 1.0, QUANTILES))
        found |= {"mean": _rounded(held.mean()), "deviation": _rounded(held.std())}
        found["quantiles"] = [_rounded(end) for end in ends]
    return ColumnProfile(**found)


def _named(value: float, categories: list[str] | None) -> str:
    if categories is None:
        return f"{value:g}"
    return categories[int(value)] if int(value) < len(categories) else f"{value:g}"


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
