"""Samples whose inputs are picture files: decoded when they are asked for, in whichever process asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from blake3 import blake3
from torch import Tensor

from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.fingerprint import SplitRecord
from trainwright.trainer.data.images.augmentation import Augmentation
from trainwright.trainer.data.images.decoding import PictureError, decode
from trainwright.trainer.data.images.masks import Coding, decode_mask
from trainwright.trainer.data.marks import marks_from
from trainwright.trainer.data.near_duplicates import Sketches
from trainwright.trainer.data.preprocessing import Preprocessing, Unfitted
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources.source import Loaded
from trainwright.trainer.data.split_methods.facts import facts_of
from trainwright.trainer.data.splits import Splits, split_indices
from trainwright.trainer.data.tensors import InMemory, KnownSamples, TensorSamples

SKETCHED = 2000
"""Pictures of a split that are decoded to look for near-duplicates, where they are not all in memory."""
WITHHELD = ""
"""In place of the path of a picture that training must not see."""

Rows = np.ndarray[Any, np.dtype[np.int64]]


@dataclass
class Pictures:
    """All pictures of a source, which its splits share."""

    files: list[str]
    names: list[str]
    """As errors name them."""
    digests: list[str]
    """Of the files' bytes: of the picture, and of its mask where there is one."""
    size: tuple[int, int]
    """Height and width, to which pictures are scaled."""
    channels: int
    targets: Tensor | None = None
    """(pictures,) of int64 or float32, or (pictures, labels) of float32; None with masks."""
    masks: list[str] = field(default_factory=list)
    classes: list[str] | None = None
    """Names of the classes, or of the labels."""
    coding: Coding | None = None
    """What the masks' values mean."""
    orientations: list[int] = field(default_factory=list)
    """Of the pictures that have masks, as the camera noted them."""
    pixels: Tensor | None = None
    """(pictures, channels, height, width) of uint8, where all were decoded once."""

    def raw(self, row: int) -> tuple[Any, Any]:
        """Return a picture (channels, height, width) of uint8 and its target, as arrays or a tensor.

        Raises:
            DataError: damage that its header and end did not show; or a mask that has changed since.
        """
        if self.files[row] == WITHHELD:
            raise DataError("The test pictures are withheld from training.", remedy="They are evaluated by the server.")
        pixels = self.pixels[row].numpy() if self.pixels is not None else self._decoded(row)
        if self.targets is not None:
            return pixels, self.targets[row]
        return pixels, self._mask(row)

    def _decoded(self, row: int) -> Any:
        try:
            found = decode(self.files[row], size=self.size, channels=self.channels)
        except PictureError as error:
            raise DataError(
                f"The image {self.names[row]} cannot be read: {error}.",
                remedy="Replace the file or take it out, and start the run again; or leave such files out: "
                "configure(project, changes={'data.args.skip_unreadable': true}).",
                details={"files": [self.names[row]]},
            ) from error
        return found

    def _mask(self, row: int) -> Any:
        assert self.coding is not None, "of pictures without targets"  # noqa: S101
        try:
            return decode_mask(self.masks[row], self.coding, size=self.size, orientation=self.orientations[row])
        except PictureError as error:
            raise DataError(
                f"The mask of {self.names[row]} cannot be read: {error}.",
                remedy="Replace the file or take it out, and start the run again.",
            ) from error


class ImageSamples(KnownSamples):
    """Pictures of a split, each a sample (picture, target).

    Args:
        pictures: those of all splits.
        rows: which of them are the samples, (samples,); None: all.
        prepare: applied to every picture; None: they stay uint8.
        augment: changes pictures at random before that, and their masks; draws are the loader's, keyed to the sample.
    """

    def __init__(
        self,
        pictures: Pictures,
        rows: Rows | None = None,
        prepare: Preprocessing | None = None,
        augment: Augmentation | None = None,
    ) -> None:
        self.pictures, self.prepare, self.augment = pictures, prepare, augment
        self.rows: Rows = np.arange(len(pictures.files)) if rows is None else np.asarray(rows, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        pixels, target = self.pictures.raw(int(self.rows[index]))
        if self.augment is not None:
            mask = None if isinstance(target, Tensor) else target
            pixels, mask = self.augment(pixels, mask)
            target = target if mask is None else mask
        picture = torch.from_numpy(np.ascontiguousarray(pixels))
        if self.prepare is not None:
            picture = self.prepare(picture[None])[0]
        return picture, target if isinstance(target, Tensor) else torch.from_numpy(target)

    @property
    def raw(self) -> ImageSamples:
        """The samples as they are in the files, but for their size: uint8, unchanged by chance."""
        return made(self.pictures, self.rows)

    def subset(self, indices: Sequence[int] | Rows | Tensor) -> ImageSamples:
        """Return the samples at `indices`, (chosen,)."""
        return made(self.pictures, self.rows[np.asarray(indices)], self.prepare, self.augment)

    def prepared_by(self, prepare: Preprocessing | None, augment: Augmentation | None = None) -> ImageSamples:
        """Return the same samples with another preprocessing, and changed at random where asked."""
        return made(self.pictures, self.rows, prepare, augment)

    @property
    def targets(self) -> Tensor | None:
        """Of the samples, (samples,) or (samples, labels); None where they are masks."""
        whole = self.pictures.targets
        return None if whole is None else whole[torch.from_numpy(self.rows)]

    @property
    def labels(self) -> Rows | None:
        """The samples' classes, (samples,); None where they have no single one."""
        found = self.targets
        return None if found is None or found.dim() > 1 or found.is_floating_point() else found.numpy()

    @property
    def inputs(self) -> list[str]:
        """Digests of the samples' files, in order: equal files are the same picture, whatever their labels."""
        return [self.pictures.digests[row] for row in self.rows.tolist()]

    @property
    def contents(self) -> list[str]:
        """Digests of the samples: of their files, and of what is in no file of theirs; of classes by their names."""
        if self.targets is None:
            return self.inputs
        names = self.pictures.classes if self.labels is not None else None
        targets = [names[one] if names is not None else one for one in self.targets.tolist()]
        pairs = zip(self.inputs, targets, strict=True)
        return [blake3(f"{digest} {target}".encode()).hexdigest(length=16) for digest, target in pairs]

    def record(self) -> SplitRecord:
        """Describe the split by its files' digests and labels; some pictures are decoded and sketched."""
        return _recorded(self)

    def erase(self) -> None:
        """Forget the pictures, as those of the test split are forgotten before training."""
        for row in self.rows.tolist():
            self.pictures.files[row] = self.pictures.digests[row] = WITHHELD
            if self.pictures.masks:
                self.pictures.masks[row] = WITHHELD
        places = torch.from_numpy(self.rows)
        for tensor in (self.pictures.pixels, self.pictures.targets):
            if tensor is not None:
                tensor[places] = 0


class DecodedImages(ImageSamples, InMemory):
    """Pictures that were all decoded before: a batch is one gather."""

    def gather(self, indices: Sequence[int] | Tensor) -> tuple[Tensor, ...]:
        """Return a batch: pictures (samples, channels, height, width), and their targets (samples, ...)."""
        pictures = self.pictures
        assert pictures.pixels is not None, "by `made`"  # noqa: S101
        assert pictures.targets is not None, "by `made`"  # noqa: S101
        rows = torch.from_numpy(self.rows)[torch.as_tensor(indices, dtype=torch.int64)]
        pixels = pictures.pixels[rows]
        return pixels if self.prepare is None else self.prepare(pixels), pictures.targets[rows]

    def each(self, indices: Sequence[int]) -> Iterator[Any]:
        """Yield the samples at `indices`, one by one."""
        return (self[index] for index in indices)


def made(
    pictures: Pictures,
    rows: Rows | None = None,
    prepare: Preprocessing | None = None,
    augment: Augmentation | None = None,
) -> ImageSamples:
    """Return samples, of the kind that gathers whole batches where nothing has to be decoded or drawn."""
    gathers = pictures.pixels is not None and pictures.targets is not None and augment is None
    return (DecodedImages if gathers else ImageSamples)(pictures, rows, prepare, augment)


def some(samples: ImageSamples, most: int) -> Rows:
    """Return the samples to decode for a look: all in memory, else at most so many, always the same ones."""
    size = len(samples)
    if size <= most or samples.pictures.pixels is not None:
        return np.arange(size)
    return np.sort(np.random.default_rng([size, most]).choice(size, most, replace=False))


def _recorded(samples: ImageSamples) -> SplitRecord:
    plain, size = samples.raw, len(samples)
    labels = samples.labels
    digests = samples.contents
    chosen = some(samples, SKETCHED)
    sketches = Sketches()
    for row in chosen.tolist():
        sketches.note(row, plain[row])
    return SplitRecord(
        size,
        [digests[row] for row in chosen.tolist()],
        len(chosen) < size,
        Counter() if labels is None else Counter(labels.tolist()),
        sketches=sketches,
        content=digest_json([samples.pictures.size, samples.pictures.channels, digests]),
    )


# Splits of pictures: by their files' digests, without decoding them; measured on some of the train split.

Key = np.ndarray[Any, Any] | None
MEASURED = 2000
"""Train pictures on which mean and deviation are measured, where they are not all in memory."""
MEASURED_BYTES = 128 << 20


def picture_splits(loaded: Loaded, section: SplitSection, source: str) -> Splits:
    """Return the splits of a source's pictures, its preprocessing fitted on the train split, which alone is augmented.

    Raises:
        DataError: too few pictures that differ, or one that cannot be decoded.
    """
    assert isinstance(loaded.samples, ImageSamples), "asked for these alone"  # noqa: S101
    key = loaded.keys.get(section.key or "")
    parts = picture_parts(loaded.samples, section, key)
    unfitted: Unfitted | None = loaded.preprocessing
    preprocessing = None if unfitted is None else unfitted.fit(_measured(parts["train"]))
    samples = {
        name: part.prepared_by(preprocessing, loaded.augment if name == "train" else None)
        for name, part in parts.items()
    }
    return Splits(
        dict(samples),
        {name: part.record() for name, part in samples.items()},
        source,
        loaded.class_names,
        preprocessing=preprocessing,
        files=loaded.files,
        split=section.describe() | facts_of(section, key, {name: part.rows for name, part in parts.items()}),
        skipped=loaded.skipped,
        understood=loaded.understood,
        target_names=loaded.target_names,
    )


def picture_parts(samples: ImageSamples, section: SplitSection, key: Key) -> dict[str, ImageSamples]:
    """Return the pictures of each split, equal files in the same.

    Args:
        samples: all of the source.
        section: how to split them.
        key: the column that the split needs, (samples,).

    Raises:
        DataError: too few distinct pictures, or a column that cannot be split by.
    """
    found = split_indices(
        samples.inputs, samples.labels, section, key, lambda: marks_from(samples.contents, samples.inputs)
    )
    return {name: samples.subset(places) for name, places in found.items() if len(places)}


def _measured(train: ImageSamples) -> TensorSamples:
    """Return train pictures in memory, (pictures, channels, height, width) of uint8: all there, or some decoded now."""
    pictures = train.pictures
    if pictures.pixels is not None:
        return TensorSamples(pictures.pixels, rows=torch.from_numpy(train.rows))
    each = pictures.channels * pictures.size[0] * pictures.size[1]
    plain = train.raw
    chosen = some(train, max(min(MEASURED, MEASURED_BYTES // each), 16))
    return TensorSamples(torch.stack([plain[row][0] for row in chosen.tolist()]))
