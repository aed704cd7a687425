"""Scores beside those of guessing: what a predictor that learns nothing scores, and whether the run's is any better.

Guessing is always the commonest class, equal chances, the shares of the classes, or the mean. A difference counts in
standard errors of such a score over so many validation rows, so that luck is no learning, nor is a large split needed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from typing import NamedTuple

from trainwright.tools.training_monitor.record import RunRecord
from trainwright.trainer.run import RunDirectory
from trainwright.trainer.run.conditions import CROSS_ENTROPY, Sample
from trainwright.trainer.run.looked_at import LookedAt
from trainwright.trainer.run.validation import Validation

BEYOND = 2.0
"""Standard errors above guessing from which on a score is better."""
CHOSEN = 1.0
"""So many are taken off the best epoch's, which was chosen among several."""
MIN_ROWS = 30
"""Of validation; of fewer, only a score that is not above that of guessing is said to be no better."""
MIN_EPOCHS = 2
AGREEMENTS = ("matthews_correlation", "cohen_kappa", "quadratic_kappa")


class Guess(NamedTuple):
    """A metric's value without learning, and how a value counts beside it."""

    metric: str
    value: float
    how: str
    errors: Callable[[float], float]
    """Standard errors by which a value is better; negative: worse."""


class Beside(NamedTuple):
    """A run's score beside that of guessing."""

    guess: Guess
    best: float
    """At the best epoch, whose checkpoint is kept."""
    usual: float
    """Median of the later half of the epochs."""
    rows: int
    step: int
    epoch: int | None

    @property
    def errors(self) -> float:
        """Standard errors by which the run is better than guessing."""
        return max(self.guess.errors(self.usual), self.guess.errors(self.best) - CHOSEN)

    @property
    def error_left(self) -> float:
        """Error of the best epoch as a share of guessing's: 0 perfect, 1 no better."""
        if self.guess.errors(0.0) > 0:  # less is better
            return self.best / self.guess.value
        return (1 - self.best) / (1 - self.guess.value)

    @property
    def is_no_better(self) -> bool:
        """Whether nothing shows that it is better; of few rows, whether even its best epoch is not."""
        return self.guess.errors(self.best) <= 0 if self.rows < MIN_ROWS else self.errors <= BEYOND

    def __str__(self) -> str:
        name = self.guess.metric
        return (
            f"validation {name} {self.best:.3g} at the best epoch (median of the later half {self.usual:.3g}), and "
            f"{self.guess.how} gives {self.guess.value:.3g} ({self.rows} rows)"
        )


def beside_guessing(record: RunRecord, metric: str | None = None) -> Beside | None:
    """Return the score beside guessing that speaks best for the run; None where none can be compared.

    Args:
        metric: returned where the run is no better by any.
    """
    found = [one for guess in _guesses(record) if (one := _beside(record, guess)) is not None]
    if not found:
        return None
    best = max(found, key=lambda one: one.errors)
    asked = next((one for one in found if one.guess.metric == metric), best)
    return asked if all(one.is_no_better for one in found) or not asked.is_no_better else best


def errors_beyond_guessing(record: RunRecord) -> list[Sample]:
    """Standard errors by which validation is better than guessing, by the metric that speaks best for it (one sample).

    Not measured with fewer than thirty validation rows.
    """
    found = beside_guessing(record)
    if found is None or found.rows < MIN_ROWS:
        return []
    return [Sample(found.step, found.errors, found.epoch, detail=str(found))]


def error_left(record: RunRecord) -> list[Sample]:
    """Validation error of the best epoch as a share of guessing's (one sample); 1 where none can be compared.

    Before an epoch was validated it is that of the first steps, where guessing's loss is known: 1 of standardised
    targets.
    """
    found = beside_guessing(record)
    if found is not None:
        return [Sample(record.status.step, found.error_left)]
    is_known = record.loss == "mse" and record.config.target_scaling == "standardize"
    return [Sample(record.status.step, (record.starting_loss if is_known else None) or 1.0)]


def _beside(record: RunRecord, guess: Guess) -> Beside | None:
    samples = [one for one in record.by_epoch(f"validation/{guess.metric}") if math.isfinite(one.value)]
    if len(samples) < MIN_EPOCHS:
        return None
    kept = next((one.value for one in samples if record.best is not None and one.step == record.best.step), None)
    later = [one.value for one in samples[len(samples) // 2 :]]
    best = max(samples, key=lambda one: guess.errors(one.value)).value if kept is None else kept
    rows, last = record.data.splits["validation"].size, samples[-1]
    return Beside(guess, best, statistics.median(later), rows, last.step, last.epoch)


def _guesses(record: RunRecord) -> list[Guess]:
    split = record.data.splits.get("validation")
    if split is None or not split.size:
        return []
    return [*_of_classes(record, split.size), *_of_numbers(record, split.size)]


def _of_classes(record: RunRecord, rows: int) -> list[Guess]:
    shares = record.class_shares("validation")
    if not shares:
        return []
    common, count = shares[0], len(shares)
    by_class = [1 / count * (1 - 1 / count) / (share * rows) for share in shares]
    guesses = [
        _share(
            "accuracy", common, "always answering with the commonest class", math.sqrt(common * (1 - common) / rows)
        ),
        _share("balanced_accuracy", 1 / count, "any one class for all", math.sqrt(sum(by_class)) / count),
        *(_share(name, 0.0, "any one class for all", 1 / math.sqrt(rows)) for name in AGREEMENTS),
    ]
    if count == 2:
        pairs = 12 * shares[0] * shares[1] * rows
        guesses.append(_share("auc", 0.5, "a coin", math.sqrt((1 + 1 / rows) / pairs)))
        if (ones := (record.data.splits["validation"].classes or {}).get("1")) is not None:
            one, how = ones / rows, "always answering with class 1"
            error = 2 / (1 + one) ** 2 * math.sqrt(one * (1 - one) / rows)
            guesses.append(_share("f1_binary", 2 * one / (1 + one), how, error))
    if (surprise := _surprise_of_shares(record)) is not None:
        names = ("loss", "log_loss") if _is_plain(record) else ("log_loss",)
        gain = _of_gain(surprise, rows, relative=False)
        guesses += [Guess(name, surprise, "knowing the classes' shares alone", gain) for name in names]
    return guesses


OF_VARIANCE = ("r2", "worst_r2", "explained_variance")


def _of_numbers(record: RunRecord, rows: int) -> list[Guess]:
    if record.class_shares("validation"):
        return []
    how, constant = "the mean for all", _looked_at(record)
    guesses = [
        *(Guess(name, 0.0, how, lambda value: _root(rows * value)) for name in OF_VARIANCE),
        *(_share(name, 0.0, how, 1 / math.sqrt(rows)) for name in ("pearson", "spearman")),
        _share("concordance", 0.5, how, 1 / (3 * math.sqrt(rows))),
    ]
    if mean := constant.get("mae"):
        guesses.append(Guess("mae", mean, how, _of_gain(mean, rows, relative=True)))
    if square := constant.get("mse"):
        guesses.append(Guess("mse", square, how, lambda value: _root(rows * (1 - value / square))))
    return guesses


def _share(metric: str, value: float, how: str, error: float) -> Guess:
    return Guess(metric, value, how, lambda found: (found - value) / error)


def _of_gain(guess: float, rows: int, *, relative: bool) -> Callable[[float], float]:
    """Return the errors of a value of which less is better: chance correlations of z / √rows gain z² / (2 rows)."""
    return lambda value: _root(2 * rows * (guess - value) / (guess if relative else 1.0))


def _root(value: float) -> float:
    return math.copysign(math.sqrt(abs(value)), value)


def _is_plain(record: RunRecord) -> bool:
    """Return whether the loss is cross entropy without options: the log loss."""
    loss = record.config.loss
    return record.loss == CROSS_ENTROPY and (isinstance(loss, str) or not loss.args)


def _surprise_of_shares(record: RunRecord) -> float | None:
    """Return the cross entropy on validation of the train split's class shares; None where train lacks a class."""
    splits = (record.data.splits.get(name) for name in ("train", "validation"))
    train, held_out = ((one.classes if one is not None else None) or {} for one in splits)
    if not all(train.get(name) for name, count in held_out.items() if count):
        return None
    rows, total = sum(held_out.values()), sum(train.values())
    return -math.fsum(count / rows * math.log(train[name] / total) for name, count in held_out.items() if count)


def _looked_at(record: RunRecord) -> dict[str, float]:
    """Return what a constant scores on validation: the planning's smoke run measured it on the same rows."""
    found = record.part(LookedAt)
    known = record.part(Validation).known_from
    if not found and known is not None:
        beside = RunRecord(RunDirectory(record.run.path.parent / known))
        same = beside.data.fingerprint == record.data.fingerprint
        found = beside.part(LookedAt) if same else found
    split = found.splits.get("validation")
    return split.constant if split is not None else {}
