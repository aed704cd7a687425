"""Loaders of a LightningModule or its data module: one for each split, made again over other samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch.utils.data import DataLoader

from trainwright.trainer.frameworks.lightning.settings import refused
from trainwright.trainer.frameworks.positioned import PositionedLoader


@dataclass
class LimitedLoader(PositionedLoader):
    """The first batches of each epoch, as limit_train_batches asks for."""

    most: int | None = None

    def __len__(self) -> int:
        """Return the batches of an epoch."""
        return len(self.raw) if self.most is None else min(self.most, len(self.raw))

    def order(self, epoch: int) -> list[list[Any]]:
        """Return the indices of each batch of an epoch."""
        return super().order(epoch)[: self.most]


def limited(raw: Any, seed: int, limit: float) -> LimitedLoader:
    """Return the train loader, positioned.

    Args:
        limit: Lightning's limit_train_batches: a number of batches, or a share of them.
    """
    most = limit if isinstance(limit, int) else int(len(raw) * limit) if limit < 1.0 else None
    return LimitedLoader(raw, seed, most=most)


def one_loader(given: Any, name: str) -> Any:
    """Return the DataLoader of a split. Raises ConfigurationError where there are several, or another object."""
    found = given
    while isinstance(found, Mapping | list | tuple) and len(found) == 1:
        found = next(iter(found.values())) if isinstance(found, Mapping) else found[0]
    if not isinstance(found, DataLoader):
        kind = type(found).__name__
        raise refused(
            f"{name} returned a {kind}, of which a killed run could not find its place again",
            "return one torch DataLoader; join several data sets with ConcatDataset",
        )
    return found


def like(raw: Any, samples: Any) -> Any:
    """Return a loader of all these samples, in their order and to the last, that is otherwise like this one."""
    size = raw.batch_size or max((len(batch) for batch in raw.batch_sampler), default=1)
    return DataLoader(
        samples,
        batch_size=size,
        num_workers=raw.num_workers,
        collate_fn=raw.collate_fn,
        pin_memory=raw.pin_memory,
        worker_init_fn=raw.worker_init_fn,
        multiprocessing_context=raw.multiprocessing_context,
    )


def forget(owners: tuple[Any, ...], samples: Any) -> None:
    """Take a data set away from every object that has it as an attribute."""
    for owner in owners:
        for name, value in list(vars(owner).items()) if owner is not None else ():
            if value is samples:
                setattr(owner, name, None)
