"""Scores beside what is known without a model, as signals: the commonest class, the shares of the classes."""

from __future__ import annotations

import itertools
import math

from trainwright.tools.training_monitor.record import TRAIN_LOSS, VALIDATION_LOSS, RunRecord
from trainwright.tools.training_monitor.signals.losses import loss_gap
from trainwright.trainer.run.conditions import Sample
from trainwright.trainer.run.rivals import Rivals

SCORES = frozenset({
    "accuracy", "balanced_accuracy", "precision", "recall", "f1", "macro_f1", "auc", "top_3_accuracy", "top_5_accuracy",
    "f1_micro", "f1_weighted", "precision_macro", "recall_macro",
})  # fmt: skip
"""Metrics in [0, 1] of which more is better; the run's own selection metric joins them if it is maximized."""
SHARES_OF_ALL = frozenset({"accuracy", "f1_micro", "top_3_accuracy", "top_5_accuracy"})
"""Scores in which every sample counts alike."""
CLEARLY = 0.05
"""Of a score."""
NO_RIVAL = Sample(0, math.inf)


def commonest_class(record: RunRecord) -> list[Sample]:
    """Share of the commonest class among the train samples (one sample)."""
    shares = record.class_shares("train")
    return [Sample(record.status.step, shares[0])] if shares else []


def beyond_commonest(record: RunRecord) -> list[Sample]:
    """Per epoch: how far validation is from always answering with the commonest class.

    Balanced accuracy less that of equal chances where it is recorded; else accuracy beside that class's share. A run
    that selects by AUC ranks, and leaves it to its user where the classes part: its AUC less that of a coin.
    """
    shares = record.class_shares("validation")
    balanced = record.by_epoch("validation/balanced_accuracy")
    if not shares:
        return []
    if record.selection_key == "validation/auc":
        return [one._replace(value=abs(one.value - 0.5)) for one in record.by_epoch("validation/auc")]
    known, without = (balanced, 1 / len(shares)) if balanced else (record.by_epoch("validation/accuracy"), shares[0])
    return [one._replace(value=abs(one.value - without)) for one in known if math.isfinite(one.value)]


def gain_over_prior(record: RunRecord) -> list[Sample]:
    """How far the lowest validation loss is below that of the classes' shares alone, as a share of it (one sample).

    Only of plain cross entropy; 0 or less: the inputs have told the model nothing about other samples.
    """
    losses = [sample for sample in record.by_epoch(VALIDATION_LOSS) if math.isfinite(sample.value)]
    if record.prior_loss is None or not losses:
        return []
    best = min(losses, key=lambda sample: sample.value)
    return [best._replace(value=1 - best.value / record.prior_loss)]


def gap_beyond_chance(record: RunRecord) -> list[Sample]:
    """Per epoch: the gap ÷ the standard error of what so few validation samples measure.

    Of a share: the largest that it can have; where each class counts alike, by the samples of each. Of losses: single
    ones scatter about as wide as their mean. Infinite where samples are not counted, or a loss is not positive.
    """
    if found := _gaps_of_scores(record):
        widest: dict[int, Sample] = {}
        for name, gaps in found.items():
            error = _standard_error(record, by_class=name not in SHARES_OF_ALL)
            for beyond in (_beyond(gap, error) for gap in gaps):
                widest[beyond.step] = max(beyond, widest.get(beyond.step, beyond), key=lambda one: one.value)
        return [widest[step] for step in sorted(widest)]
    losses = {sample.step: sample.value for sample in record.by_epoch(VALIDATION_LOSS)}
    trained = {sample.step: sample.value for sample in record.by_epoch(TRAIN_LOSS)}
    error = 2 * _standard_error(record, by_class=False)
    gaps = [gap._replace(value=losses[gap.step] - trained[gap.step]) for gap in loss_gap(record)]
    return [_beyond(gap, max(losses[gap.step], 0.0) * error) for gap in gaps]


def _standard_error(record: RunRecord, *, by_class: bool) -> float:
    """Return the largest standard error of a share of the validation samples, or of a mean of the classes' shares."""
    split = record.data.splits.get("validation")
    classes = [count for count in ((split.classes or {}) if split is not None else {}).values() if count]
    if by_class and classes:
        return math.sqrt(sum(1 / count for count in classes)) / (2 * len(classes))
    return 0.5 / math.sqrt(split.size) if split is not None and split.size else 0.0


def _beyond(gap: Sample, error: float) -> Sample:
    """Return a gap in standard errors."""
    beyond = gap.value / error if error > 0 else math.copysign(math.inf, gap.value)
    return gap._replace(value=beyond if gap.value else 0.0)


def more_is_known(record: RunRecord) -> list[Sample]:
    """0 where a rival on the same rows scored no better than the run's best epoch, else 1 (one sample)."""
    return [Sample(record.status.step, float(any(one.value > CLEARLY for one in rival_ahead(record) or [NO_RIVAL])))]


def rival_ahead(record: RunRecord) -> list[Sample]:
    """By how much a rival on the same rows scored better than the run's best epoch (one sample, the most)."""
    theirs: dict[str, float] = {}
    for name, value in (figure for one in record.part(Rivals).rivals for figure in one.metrics.items()):
        theirs[name] = max(value, theirs.get(name, value))
    ours = {name: record.by_epoch(f"validation/{name}") for name in theirs if name in {*SCORES, "r2"}}
    best = {name: max(samples, key=lambda one: one.value) for name, samples in ours.items() if samples}
    leads = [
        own._replace(value=theirs[name] - own.value, detail=f"{name} {theirs[name]:.3g}, the model {own.value:.3g}")
        for name, own in best.items()
    ]
    return [max(leads, key=lambda one: one.value)] if leads else []


def generalisation_gap(record: RunRecord) -> list[Sample]:
    """Per epoch: training minus validation score, both in [0, 1] (the widest); `loss_gap` where there is none."""
    return _score_gap(record) or loss_gap(record)


def _score_gap(record: RunRecord) -> list[Sample]:
    """Per epoch: training minus validation score, both in [0, 1] (the widest); none without such a score."""
    widest: dict[int, Sample] = {}
    for gap in itertools.chain.from_iterable(_gaps_of_scores(record).values()):
        widest[gap.step] = max(gap, widest.get(gap.step, gap), key=lambda one: one.value)
    return [widest[step] for step in sorted(widest)]


def _gaps_of_scores(record: RunRecord) -> dict[str, list[Sample]]:
    """Return each score's gaps by its name."""
    found: dict[str, list[Sample]] = {}
    for name in sorted(SCORES | _selected_score(record)):
        trained = {sample.step: sample.value for sample in record.by_epoch(f"train/{name}")}
        for sample in record.by_epoch(f"validation/{name}"):
            train = trained.get(sample.step, math.nan)
            if 0 <= train <= 1 and 0 <= sample.value <= 1:
                found.setdefault(name, []).append(sample._replace(value=train - sample.value))
    return found


def _selected_score(record: RunRecord) -> set[str]:
    selection = record.config.selection
    return {selection.metric} if selection.direction == "maximize" and selection.metric != "loss" else set()
