"""Permutation importance of a table's columns: how much worse the model is on validation rows without each.

Breiman 2001, "Random forests", section 10; Fisher et al. 2019, arXiv:1801.01489, for any model. Cells are permuted
before preprocessing, so a category counts once, however many inputs it becomes. Correlated columns share importance.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainwright.trainer.clean_room import metrics
from trainwright.trainer.data.tensors import TensorSamples
from trainwright.trainer.engine.session import Session
from trainwright.trainer.jobs.evaluation.forms import kept_of
from trainwright.trainer.jobs.evaluation.outputs import Array, Call, Outputs
from trainwright.trainer.jobs.evaluation.shown import is_table, table_columns
from trainwright.trainer.run.evaluation import Importance, PermutationImportance

MOST_ROWS = 2000
MOST_COLUMNS = 40
PERMUTATIONS = 3
MOST_SECONDS = 2.0


class _Scorer:
    """Scores a model on a table's rows: the larger the better.

    Args:
        raw: encoded rows before preprocessing, (rows, inputs).
        target: (rows,) or (rows, labels).
    """

    def __init__(self, session: Session, call: Call, found: Outputs, places: Array) -> None:
        samples = session.work.splits.samples["validation"]
        assert isinstance(samples, TensorSamples)  # noqa: S101 - the caller has checked it
        self.raw, self.target = samples.column(0)[places], samples.column(1)[places]
        self.prepare = samples.prepare
        self.call, self.form, self.size = call, found.form, session.work.batch_size or MOST_ROWS
        section = session.config.selection
        self.metric = section.metric if section.metric in metrics.OF_OUTPUTS else None
        self.sign = 1.0 if self.metric is not None and section.direction == "maximize" else -1.0

    def __call__(self, raw: Tensor) -> float:
        """Return the score of rows, (rows, inputs)."""
        outputs, losses = [], []
        for start in range(0, len(raw), self.size):
            rows = raw[start : start + self.size]
            inputs = rows if self.prepare is None else self.prepare.call(rows)
            output, target = self.call((inputs, self.target[start : start + self.size]))
            outputs.append(output.float().cpu())
            losses.append(kept_of(self.form, output, target).loss)
        if self.metric is not None:
            try:
                value = metrics.compute(self.metric, torch.cat(outputs).numpy(), self.target.numpy(force=True))
            except (ValueError, IndexError):  # not of these outputs
                self.metric, self.sign = None, -1.0
            else:
                return self.sign * value
        return self.sign * float(torch.cat(losses).double().mean())


def permutation_importance(session: Session, call: Call, found: Outputs) -> PermutationImportance | None:
    """Return the importance of columns, as many as there is time for; None where the data are no table."""
    samples = session.work.splits.samples["validation"]
    if not is_table(samples):
        return None
    started, rows = time.monotonic(), found.arrays["row"]
    chosen = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), MOST_ROWS)).round().astype(int))]
    score = _Scorer(session, call, found, chosen)
    columns = table_columns(session.work.splits, score.raw.shape[1])
    score(score.raw)  # which finds out whether the metric is of these outputs
    whole, draws = score(score.raw), np.random.default_rng(0)
    measured: list[Importance] = []
    for column in columns[:MOST_COLUMNS]:
        if measured and time.monotonic() - started > MOST_SECONDS:
            break
        drops = []
        for _ in range(PERMUTATIONS):
            raw = score.raw.clone()
            part = slice(column.start, column.start + column.width)
            raw[:, part] = raw[torch.from_numpy(draws.permutation(len(raw)))][:, part]
            drops.append(whole - score(raw))
        measured.append(
            Importance(column=column.name, worsening=float(np.mean(drops)), deviation=float(np.std(drops, ddof=1)))
        )
    measured.sort(key=lambda one: -one.worsening)
    return PermutationImportance(
        score=score.metric or "loss", permutations=PERMUTATIONS, rows=len(chosen), columns=measured,
        left_out=len(columns) - len(measured),
    )  # fmt: skip


def latency_ms(session: Session, call: Call, batch: Any) -> dict[str, float]:
    """Return median milliseconds of a forward pass of one row and of a batch, of those that this batch holds."""
    times: dict[str, float] = {}
    for size in (1, 32):
        part = _first(batch, size)
        if part is None:
            break
        spent = [_seconds(session, call, part) for _ in range(8)]
        times[f"batch_size_{size}_median"] = round(1000.0 * float(np.median(spent[2:])), 4)
    return times


def _seconds(session: Session, call: Call, batch: Any) -> float:
    started = time.perf_counter()
    call(batch)
    if session.device.type == "cuda":
        torch.cuda.synchronize(session.device)
    return time.perf_counter() - started


def _first(batch: Any, size: int) -> Any:
    """Return the first rows of a batch of tensors; None where it has fewer, or other values."""
    if isinstance(batch, Tensor):
        return batch[:size] if batch.dim() and len(batch) >= size else None
    if isinstance(batch, dict):
        parts = {name: _first(value, size) for name, value in batch.items()}
        return None if any(part is None for part in parts.values()) else parts
    if type(batch) in {tuple, list}:
        found = [_first(value, size) for value in batch]
        return None if any(part is None for part in found) else type(batch)(found)
    return None
