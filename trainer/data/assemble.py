"""Samples made ready: split, standardised on the train split, recorded, and checked before a step is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import IterableDataset, Subset

from trainwright.trainer.assembly.work import Splits
from trainwright.trainer.canonical import digest_json, digest_path
from trainwright.trainer.config.schema import SplitSection
from trainwright.trainer.data.alike import compare
from trainwright.trainer.data.fingerprint import (
    EMPTY,
    MAX_SAMPLES_READ,
    SplitRecord,
    label_of,
    record_split,
    sample_digest,
)
from trainwright.trainer.data.first_sample import first_sample
from trainwright.trainer.data.sources import Loaded
from trainwright.trainer.data.split import split_indices
from trainwright.trainer.data.tensors import TensorSamples, in_memory
from trainwright.trainer.errors import DataError
from trainwright.trainer.reproducibility import seeding

NAMES = ("train", "validation", "test")


def from_loaded(loaded: Loaded, section: SplitSection, *, source: str) -> Splits:
    """Split a built-in source's samples and standardise its features where it asks for that."""
    samples = loaded.samples
    _require_finite(None, samples)
    parts = _divide(samples, section, samples.subset)
    preprocessing = raw_test = None
    if loaded.standardize:
        raw_test = record_split(parts["test"], section.seed).digests if "test" in parts else None
        preprocessing = _measure(parts["train"].tensors[0], by_channel=loaded.by_channel)
        parts = {name: _standardize(part, preprocessing) for name, part in parts.items()}
    records = {name: record_split(part, section.seed) for name, part in parts.items()}
    return Splits(
        parts,
        records,
        source,
        loaded.class_names,
        loaded.feature_names,
        preprocessing,
        loaded.files,
        raw_test,
        section.model_dump(mode="json"),
    )


def from_user(data: Any, section: SplitSection | None, *, source: str, seed: int) -> Splits:
    """Take what user code handed over: one data set (split here when there is a section), or several by split name.

    What is recorded of random augmentation is drawn from `seed`, which must not be the run's own: runs that differ only
    in their seed have the same data.

    Raises:
        DataError: not a data set, empty, or with values that are not finite.
    """
    given = dict(data) if isinstance(data, Mapping) else {"train": data}
    parts = {name: _as_samples(given[name], name) for name in NAMES if given.get(name) is not None}
    if "train" not in parts:
        raise DataError(f"The data has no `train` ({', '.join(given) or 'nothing'} given).", remedy="Return `train`.")
    divided = section is not None and set(parts) == {"train"} and not isinstance(parts["train"], IterableDataset)
    if divided and section is not None:
        whole = parts["train"]
        choose: Callable[[Any], Any] = whole.subset if isinstance(whole, TensorSamples) else _subset_of(whole)
        parts = _divide(whole, section, choose)
    records = {name: record_split(part, seed) for name, part in parts.items()}
    for name, record in records.items():
        _require_finite(record, parts[name], name)
    return Splits(parts, records, source, split=section.model_dump(mode="json") if divided and section else None)


def data_evidence(splits: Splits, code_root: Path) -> dict[str, Any]:
    """Return the `data` evidence: sizes, fingerprints, class counts, overlap, preprocessing, source files."""
    records = {name: splits.records.get(name, EMPTY) for name in NAMES}
    described = {name: record.as_dict() for name, record in records.items()}
    described["test"].pop("classes", None)
    digests = {name: set(record.digests) for name, record in records.items()}
    shared = (
        (digests["train"] & digests["validation"])
        | (digests["train"] & digests["test"])
        | (digests["validation"] & digests["test"])
    )
    preprocessing = digest_json(splits.preprocessing)
    sample = next(iter(_first(splits.samples["train"])), None)
    return {
        "source": splits.source,
        "splits": described,
        "disjoint": not shared,
        "shared_samples": len(shared),
        "alike_samples": _alike(records),
        "split": splits.split,
        "text": splits.text.as_dict() if splits.text is not None else None,
        "preprocessing": {"standardize": splits.preprocessing is not None},
        "preprocessing_digest": preprocessing,
        "files": {_relative(path, code_root): digest_path(path) for path in splits.files},
        "class_names": splits.class_names,
        "feature_names": splits.feature_names,
        "input": {
            "shape": list(getattr(sample, "shape", ())),
            "dtype": str(getattr(sample, "dtype", type(sample).__name__)),
        },
        "fingerprint": digest_json([[record.fingerprint for record in records.values()], preprocessing]),
        "sampled": any(record.sampled for record in records.values()),
    }


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


def _as_samples(data: Any, name: str) -> Any:
    if isinstance(data, tuple | list) and len(data) == 2 and all(hasattr(part, "shape") for part in data):
        data = TensorSamples(*(torch.as_tensor(part) for part in data))  # a pair of arrays (x, y)
    samples = in_memory(data)
    if isinstance(samples, IterableDataset):
        return samples
    if not hasattr(samples, "__getitem__") or not hasattr(samples, "__len__"):
        raise DataError(
            f"`{name}` is a {type(samples).__name__}; it needs __len__ and __getitem__ (or be an IterableDataset).",
            remedy="Return a torch Dataset, a list of samples, or a pair of arrays (x, y). Not a DataLoader: "
            "the engine makes the batches.",
        )
    if len(samples) == 0:
        raise DataError(f"The {name} split is empty.", remedy="Check the paths and filters of the data set.")
    return samples


def _divide(samples: Any, section: SplitSection, choose: Callable[[Any], Any]) -> dict[str, Any]:
    size = len(samples)
    if size <= MAX_SAMPLES_READ or isinstance(samples, TensorSamples):
        read = []
        with seeding.preserved():
            for index in range(size):
                seeding.seed_sample(section.seed, 0, index)
                read.append((sample_digest(sample := samples[index]), label_of(sample)))
        digests = [digest for digest, _ in read]
        labels = [label for _, label in read if label is not None]
    else:  # reading every sample twice would cost too much: copies are then not looked for
        digests, labels = [str(index) for index in range(size)], []
    found = split_indices(digests, labels if len(labels) == size else None, section)
    return {name: choose(torch.from_numpy(indices)) for name, indices in found.items() if len(indices)}


def _subset_of(whole: Any) -> Callable[[Any], Any]:
    return lambda indices: Subset(whole, indices.tolist())


def _measure(inputs: torch.Tensor, *, by_channel: bool) -> dict[str, Any]:
    over = (0, *range(2, inputs.dim())) if by_channel else (0,)
    mean = inputs.double().mean(dim=over, keepdim=by_channel)
    scale = inputs.double().std(dim=over, unbiased=False, keepdim=by_channel)
    if by_channel:
        mean, scale = mean[0], scale[0]  # (channels, 1, 1)
    return {"mean": mean.tolist(), "scale": torch.where(scale > 0, scale, torch.ones_like(scale)).tolist()}


def _standardize(part: TensorSamples, preprocessing: dict[str, Any]) -> TensorSamples:
    inputs, *others = part.tensors
    mean, scale = (torch.tensor(preprocessing[name], dtype=torch.float32) for name in ("mean", "scale"))
    return TensorSamples((inputs - mean) / scale, *others)


def _require_finite(record: SplitRecord | None, samples: Any, name: str = "data") -> None:
    places = record.non_finite if record is not None else []
    if record is None and isinstance(samples, TensorSamples):
        bad = [~torch.isfinite(t.flatten(1) if t.dim() > 1 else t[:, None]).all(1) for t in samples.tensors]
        places = torch.stack(bad).any(0).nonzero().flatten()[:20].tolist()
    if places:
        raise DataError(
            f"The {name} split has NaN or infinite values, first in samples {places[:5]}."
            if name != "data"
            else f"The data has NaN or infinite values, first in samples {places[:5]}.",
            remedy="Fill or drop these samples in the data set: one NaN would turn every weight into NaN.",
            details={"split": name, "samples": places},
        )


def _relative(path: Path, root: Path) -> str:
    resolved = root.resolve()
    return path.relative_to(resolved).as_posix() if path.is_relative_to(resolved) else path.name
