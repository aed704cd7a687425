"""Permutation importance of a table's columns: how much worse the model is on held-out rows without each.

Breiman 2001, "Random forests", section 10; Fisher et al. 2019, arXiv:1801.01489, for any model. Cells are permuted
before preprocessing, so a category counts once, however many inputs it becomes. Columns of which one tells another
(sex and who), or several together (a sum and its parts), are permuted together: one by one, each would seem needless
beside the others. What each of them adds to the others is told apart.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.clean_room import metrics
from trainwright.trainer.engine.session import Session
from trainwright.trainer.jobs.evaluation.forms import kept_of
from trainwright.trainer.jobs.evaluation.outputs import Call, Outputs
from trainwright.trainer.jobs.evaluation.shown import Place, is_table, table_columns
from trainwright.trainer.run.evaluation import Importance, PermutationImportance

MAX_ROWS = 2000
MAX_COLUMNS = 40
PERMUTATIONS = 3
MAX_SECONDS = 10.0
"""Of this process's processors: on a busy machine as many columns are measured as on a quiet one."""
MIN_AT_ONCE = 256
"""Rows of a forward pass, where the run's batches are smaller."""
TOLD = 0.8
"""Share of a column's variance, adjusted for the inputs used, from which another column tells it."""
COMPUTED, MAX_SOURCES = 0.99, 3
"""The same share of a number, from which up to so many others together tell it: a sum, a difference."""
MAX_ALONE = 8
"""Columns that tell each other which are permuted alone too."""
BLOCKS = 20
"""Parts of the rows of which one is left out at a time, for the interval over rows (jackknife: Efron & Tibshirani 1993,
chapter 11)."""
Z = 1.96


class _Scorer:
    """Scores a model on a table's rows, with each block of rows left out in turn: the larger the better.

    Args:
        form: of the outputs.
        rows: places in a split of the rows that are scored, by split.
    """

    def __init__(self, session: Session, call: Call, form: str, rows: Mapping[str, Array]) -> None:
        tables = [(session.work.splits.samples[split], places) for split, places in rows.items()]
        self.raw, self.target = (torch.cat([one.column(part)[places] for one, places in tables]) for part in (0, 1))
        self.prepare = tables[0][0].prepare
        self.call, self.form, self.size = call, form, max(session.work.batch_size or MAX_ROWS, MIN_AT_ONCE)
        section = session.config.selection
        self.metric = section.metric if section.metric in metrics.OF_OUTPUTS else None
        self.sign = 1.0 if self.metric is not None and section.direction == "maximize" else -1.0
        blocks = np.random.default_rng(0).permutation(len(self.raw)) % min(BLOCKS, len(self.raw))
        split = np.repeat(np.arange(len(rows)), [len(places) for places in rows.values()])
        self.masks = [*masks_of(blocks), *(split == number for number in range(len(rows)))]

    def __call__(self, raw: Tensor) -> Array:
        """Return the score of rows, (rows, inputs): of all, without each block, of each split; (1 + blocks + splits,).

        Args:
            raw: before preprocessing.
        """
        outputs, losses = [], []
        for start in range(0, len(raw), self.size):
            rows = raw[start : start + self.size]
            inputs = rows if self.prepare is None else self.prepare.call(rows)
            output, target = self.call((inputs, self.target[start : start + self.size]))
            outputs.append(output.float().cpu())
            losses.append(kept_of(self.form, output, target).loss)
        if (metric := self.metric) is not None:
            found, targets = torch.cat(outputs).numpy(), self.target.numpy(force=True)
            try:
                return self.sign * np.array([metrics.compute(metric, found[of], targets[of]) for of in self.masks])
            except (ValueError, IndexError):  # not of these outputs
                self.metric, self.sign = None, -1.0
        each = torch.cat(losses).double().numpy()
        return self.sign * np.array([each[of].mean() for of in self.masks])


def masks_of(blocks: Array) -> list[Array]:
    """Return masks of all rows, then of those outside each block, each (rows,).

    Args:
        blocks: number of each row's block, (rows,).
    """
    return [np.ones(len(blocks), dtype=bool), *(blocks != block for block in range(int(blocks.max()) + 1))]


def permutation_importance(session: Session, call: Call, found: Mapping[str, Outputs]) -> PermutationImportance | None:
    """Return the importance of columns, as many as there is time for; None where the data are no table.

    Args:
        found: the model's outputs, by split: the rows of all are permuted together.
    """
    if not all(is_table(session.work.splits.samples[split]) for split in found):
        return None
    started, most = time.process_time(), MAX_ROWS // len(found)
    rows = {split: _spread(one.arrays["row"], most) for split, one in found.items()}
    score = _Scorer(session, call, next(iter(found.values())).form, rows)
    columns = table_columns(session.work.splits, score.raw.shape[1])
    groups = told_together(score.raw.numpy(force=True), columns[:MAX_COLUMNS])
    score(score.raw)  # which finds out whether the metric is of these outputs
    whole, draws = score(score.raw), np.random.default_rng(0)
    measured: list[Importance] = []
    for group in groups:
        if measured and time.process_time() - started > MAX_SECONDS:
            break
        measured.append(measured_of(score, score.raw, whole, group, draws, splits=list(found)))
    each = [one for group in groups[: len(measured)] if 1 < len(group) <= MAX_ALONE for one in group]
    alone = [measured_of(score, score.raw, whole, [one], draws, splits=list(found)) for one in each[:MAX_ALONE]]
    return PermutationImportance(
        score=score.metric or "loss", permutations=PERMUTATIONS, rows=len(score.raw), splits=list(found),
        columns=sorted(measured, key=_by_size), alone=sorted(alone, key=_by_size),
        left_out=len(columns) - sum(len(group) for group in groups[: len(measured)]),
    )  # fmt: skip


def _spread(rows: Array, most: int) -> Array:
    spread: Array = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), most)).round().astype(int))]
    return spread


def _by_size(one: Importance) -> float:
    return -one.worsening


def measured_of(
    score: Callable[[Tensor], Array], raw: Tensor, whole: Array, group: list[Place], draws: np.random.Generator,
    *, splits: Sequence[str] = (),
) -> Importance:  # fmt: skip
    """Return the importance of columns that are permuted together; its interval is over rows and permutations.

    Args:
        score: of rows, (rows, inputs): of all, without each block, of each split; (1 + blocks + splits,).
        raw: (rows, inputs).
        whole: the score of `raw`.
        splits: whose rows these are.
    """
    inputs = np.concatenate([np.arange(one.start, one.start + one.width) for one in group])
    drops = []
    for _ in range(PERMUTATIONS):
        permuted = raw.clone()
        permuted[:, inputs] = raw[torch.from_numpy(draws.permutation(len(raw)))][:, inputs]
        drops.append(whole - score(permuted))
    (mean, *others), deviation = np.mean(drops, axis=0), float(np.std([one[0] for one in drops], ddof=1))
    without, of_splits = np.split(others, [len(others) - len(splits)])
    over_rows = (len(without) - 1) * float(np.var(without))
    half = Z * float(np.sqrt(over_rows + deviation**2 / PERMUTATIONS))
    name = " + ".join(one.name for one in group)
    by_split = dict(zip(splits, of_splits.tolist(), strict=True))
    interval = (mean - half, mean + half)
    return Importance(column=name, worsening=mean, deviation=deviation, interval=interval, by_split=by_split)


def told_together(raw: Array, columns: Sequence[Place]) -> list[list[Place]]:
    """Return columns in groups: in one stand those of which one, or several numbers, tell another, by regression.

    Args:
        raw: encoded rows before preprocessing, (rows, inputs).
        columns: where each column stands among the inputs.
    """
    spans, centred = [], []
    for one in columns:
        part = np.nan_to_num(raw[:, one.start : one.start + one.width].astype(np.float64))
        part = part - part.mean(axis=0)
        left, sizes, _ = np.linalg.svd(part, full_matrices=False)
        spans.append(left[:, sizes > 1e-9 * max(float(sizes.max(initial=0.0)), 1e-300)])
        centred.append(part)
    group = list(range(len(columns)))
    for first, second in itertools.permutations(range(len(columns)), 2):
        if group[first] != group[second] and _share_told(spans[first], centred[second]) >= TOLD:
            group = [group[first] if each == group[second] else each for each in group]
    single = [place for place, each in enumerate(group) if group.count(each) == 1]
    for known in _computed(centred, single):
        group = [group[known[0]] if each in {group[one] for one in known} else each for each in group]
    return [[column for column, of in zip(columns, group, strict=True) if of == each] for each in dict.fromkeys(group)]


def _share_told(span: Array, centred: Array) -> float:
    """Return the adjusted R² of a column's inputs, (rows, inputs), regressed on a column's span, (rows, rank)."""
    total, (rows, rank) = float(np.square(centred).sum()), span.shape
    if not total or not rank or rows <= 4 * (rank + 1):
        return 0.0
    share = float(np.square(span.T @ centred).sum()) / total
    return 1.0 - (1.0 - share) * float(rows - 1) / float(rows - rank - 1)


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


def _computed(centred: list[Array], single: list[int]) -> list[list[int]]:
    """Return columns of one number each that several others tell together, each with these, found one by one.

    Args:
        single: places of the columns that no other one tells.
    """
    scales = [float(np.linalg.norm(part)) for part in centred]
    able = [place for place in single if centred[place].shape[1] == 1 and scales[place] > 0]
    if len(able) <= MAX_SOURCES - 1 or len(centred[0]) <= 4 * (MAX_SOURCES + 1):
        return []
    unit = np.concatenate([centred[place] / scales[place] for place in able], axis=1)
    alike, found = unit.T @ unit, list[list[int]]()
    for told in range(len(able)):
        chosen: list[int] = []
        share = 0.0
        while share < COMPUTED and len(chosen) < min(MAX_SOURCES, len(able) - 1):
            shares = {
                one: _share_of(alike, told, [*chosen, one]) for one in range(len(able)) if one not in {told, *chosen}
            }
            chosen.append(max(shares, key=lambda one: shares[one]))
            share = shares[chosen[-1]]
        if share >= COMPUTED:
            found.append([able[one] for one in (told, *chosen)])
    return found


def _share_of(alike: Array, told: int, by: list[int]) -> float:
    """Return the R² of a column regressed on others, by the correlations of all, (columns, columns)."""
    weights = np.linalg.lstsq(alike[np.ix_(by, by)], alike[by, told], rcond=None)[0]
    return float(weights @ alike[by, told])
