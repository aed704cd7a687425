"""Worst samples: those with the highest losses among the steps that were inspected, by their rows."""

from __future__ import annotations

import heapq

from trainwright.trainer.watch.silent.record import StepRecord

MOST = 20


def losses_by_row(record: StepRecord) -> dict[int, float]:
    """Return the loss of each sample of a step by its row of the train split; empty where it was not seen.

    Of several losses of a batch the last counts; a batch of sequences has the mean of each.
    """
    calls = [call for call in record.functions.losses if call.learns and call.per_row is not None]
    count = len(record.batches)
    if not count or not calls or len(record.indices) != record.rows:
        return {}
    if count > 1 and len(calls) != count:
        return {}
    found: dict[int, float] = {}
    place = 0
    for call in calls[-count:]:
        rows = record.rows // count if count == 1 else min(len(record.indices) - place, record.rows // count)
        losses = call.per_row
        if losses is None or not rows or len(losses) % rows:
            return {}
        means = losses.reshape(rows, -1).mean(dim=1).tolist()
        found |= dict(zip(record.indices[place : place + rows], means, strict=True))
        place += rows
    return found


class Worst:
    """The samples with the highest losses since the last epoch's end."""

    def __init__(self) -> None:
        self.losses: dict[int, float] = {}
        self.seen = 0

    def add(self, losses: dict[int, float]) -> None:
        """Take the losses of a step by row; a row's newest counts."""
        self.seen += len(losses)
        self.losses |= losses
        worst = heapq.nlargest(MOST, self.losses.items(), key=lambda pair: pair[1])
        self.losses = dict(worst)

    def take(self) -> dict[str, object] | None:
        """Return rows and losses, the worst first, and of how many samples they are; and begin anew."""
        if not self.losses:
            return None
        found = {"split": "train", "rows": [*self.losses], "losses": [float(f"{v:.6g}") for v in self.losses.values()]}
        record = {**found, "of": self.seen}
        self.losses, self.seen = {}, 0
        return record
