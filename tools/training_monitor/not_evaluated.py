"""Gaps of a diagnosis and their reasons: a document without an alert means "fine" only where its signal was there."""

from __future__ import annotations

from collections.abc import Callable

from trainwright.tools.training_monitor.chance_baseline import MIN_ROWS, beside_guessing
from trainwright.tools.training_monitor.documents import Diagnostic
from trainwright.tools.training_monitor.record import GRADIENT_NORM, STEP_LOSS, TRAIN_LOSS, VALIDATION_LOSS, RunRecord
from trainwright.tools.training_monitor.signals.costs import gpu_utilisation
from trainwright.tools.training_monitor.signals.turns import MIN_AFTER, MIN_CURVE
from trainwright.trainer.run.conditions import FINDINGS, READINGS, Condition
from trainwright.trainer.run.validation import Validation

BY_EPOCH = frozenset({"generalisation_gap", "loss_gap", "validation_loss_rise", "train_loss_remaining"})
"""Signals of which every sample takes an epoch."""
COUNTS_EPOCHS = frozenset({"epochs_without_improvement", "epochs_completed"})
"""Signals whose value is a number of epochs."""
OF_VALIDATION = frozenset({
    "generalisation_gap", "loss_gap", "epochs_without_improvement", "recent_improvement", "gain_over_prior",
    "errors_beyond_guessing", "rival_ahead", "worse_since_warmup", "validation_jaggedness",
})  # fmt: skip
EPOCHS = {"recent_improvement": 4, "worse_since_warmup": MIN_AFTER + 1, "validation_jaggedness": MIN_CURVE}
"""Epochs without which a signal says nothing: of the first, three are compared with the one before."""
OF_GRADIENTS = frozenset({"gradient_norm", "sudden_gradient", "applied_gradient_norm", "first_gradient_norm"})
OF_STEPS = frozenset({
    "sudden_non_finite", "sudden_jump", "non_finite_second_step", "overshoot", "loss_rebound", "rate_spent_share",
    "first_loss",
})  # fmt: skip
OF_CLASSES, OF_TWO = frozenset({"beyond_commonest"}), frozenset({"discriminator_loss"})
OF_GUESSES = frozenset({"errors_beyond_guessing", "rival_ahead"})
OF_DATA = frozenset({"leaks_found", "improbable_labels"})
LAYERS, WAIT = "layers/", READINGS["data_wait_share"]
OF_LAYERS = frozenset({
    FINDINGS, "update_ratio", "peak_update_ratio", "usual_update_ratio", "dead_share", "saturated_share",
    "input_scale", "layer_gradient_spread",
})  # fmt: skip
"""Signals that the worker measures at inspected steps."""
MIN_STEPS = 50
"""Of loss_rebound: five means of ten steps."""


def unjudged(record: RunRecord, diagnostics: list[Diagnostic], raised: set[str]) -> list[str]:
    """Return one sentence for each reason, the documents that it concerns first.

    Args:
        raised: documents whose alert is raised: those were judged.
    """
    by_reason: dict[str, list[str]] = {}
    for diagnostic in diagnostics:
        reasons = [_reason(record, trigger.signal, [trigger, *trigger.only_if]) for trigger in diagnostic.triggers]
        if diagnostic.id not in raised and reasons and all(reasons):
            by_reason.setdefault(reasons[0], []).append(diagnostic.id)
    sentences = [f"{', '.join(names)}: {reason}." for reason, names in by_reason.items()]
    if (reason := _no_inspection(record)) and reason not in by_reason:
        sentences.append(f"single layers: {reason}.")
    return sentences + _substitutes(record)


def _reason(record: RunRecord, signal: str, conditions: list[Condition]) -> str:
    """Return why a signal says nothing in this run; empty where it says something."""
    for names, reason in _REASONS:
        if signal in names and (found := reason(record)):
            return found
    needed = max(map(epochs_needed, conditions), default=0)
    done = len(record.by_epoch(VALIDATION_LOSS if signal in OF_VALIDATION else TRAIN_LOSS))
    return f"needs {needed} epochs, {done} so far" if done < needed else ""


def epochs_needed(condition: Condition) -> int:
    """Return how many epochs a condition needs before it can hold."""
    if condition.signal in COUNTS_EPOCHS:
        return int(condition.threshold)
    return EPOCHS.get(condition.signal, condition.points if condition.signal in BY_EPOCH else 0)


def _no_validation(record: RunRecord) -> str:
    if record.by_epoch(VALIDATION_LOSS) or (record.selection_key or "").startswith("validation/"):
        return ""
    return "no epoch was validated" if record.status.state.is_ended else "no epoch has been validated yet"


def _no_gradients(record: RunRecord) -> str:
    if record.metrics.last(GRADIENT_NORM) is not None:
        return ""
    own = record.resolved.objective == "train_step"
    return "your train_step records no gradient_norm" if own else "no gradient norm was recorded"


def _no_inspection(record: RunRecord) -> str:
    if any(key.startswith(LAYERS) for key in record.metrics.keys()):  # noqa: SIM118 - a store, not a mapping
        return ""
    return "no step was inspected" if record.specification.inspects else "monitoring.inspect is off"


def _few_steps(record: RunRecord) -> str:
    steps = record.metrics.last(STEP_LOSS)
    return "" if steps and steps.step >= MIN_STEPS else f"needs {MIN_STEPS} steps, {steps.step if steps else 0} so far"


def _no_guess(record: RunRecord) -> str:
    found = beside_guessing(record)
    if found is None:
        return "no recorded score has a known value for guessing"
    return "" if found.rows >= MIN_ROWS else f"needs {MIN_ROWS} validation rows, there are {found.rows}"


def _no_data_verdicts(record: RunRecord) -> str:
    validation = record.part(Validation)
    if validation.known_from is not None or validation.report.checks:
        return ""
    return f"the data were not validated{f' ({validation.problem})' if validation.problem else ''}"


_REASONS: tuple[tuple[frozenset[str], Callable[[RunRecord], str]], ...] = (
    (OF_VALIDATION, _no_validation),
    (OF_GRADIENTS, _no_gradients),
    (frozenset({"gpu_utilisation"}), lambda run: "" if gpu_utilisation(run) else "no GPU was used"),
    (
        frozenset({"data_wait_share"}),
        lambda run: "" if run.metrics.last(WAIT) else "no wait for data was recorded",
    ),
    (frozenset({"loss_rebound"}), _few_steps),
    (OF_STEPS, lambda run: "" if run.metrics.last(STEP_LOSS) else "no step was recorded"),
    (OF_LAYERS, _no_inspection),
    (OF_CLASSES, lambda run: "" if run.class_shares("validation") else "the validation samples have no known classes"),
    (OF_GUESSES, _no_guess),
    (OF_TWO, lambda run: "" if run.is_adversarial else "no losses of two networks were recorded"),
    (OF_DATA, _no_data_verdicts),
)


def _substitutes(record: RunRecord) -> list[str]:
    """Name what was judged by something else than the configuration asks for."""
    wanted, used = f"validation/{record.config.selection.metric}", record.selection_key
    if used is None or used == wanted or not record.epoch_at:
        return []
    return [f"{record.config.selection.metric}: not recorded; the best epoch is that of {used}."]
