"""Signals that a diagnostic document may watch: each turns a run's record into samples, in order of step.

A signal knows no threshold; the documents do. An empty list means "not measured", never "fine".
Shares are dimensionless: 0.15 is 15 %.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.training_monitor.data_findings import improbable_labels, leaks_found
from trainwright.tools.training_monitor.guessing import error_left, errors_beyond_guessing
from trainwright.tools.training_monitor.no_effect import keys_without_effect, unused_keys
from trainwright.tools.training_monitor.signals import (
    adversaries,
    costs,
    layers,
    losses,
    ranges,
    scores,
    suddenness,
    turns,
    updates,
)
from trainwright.trainer.run.conditions import FINDINGS, Sample, finding_sample

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainwright.tools.training_monitor.record import RunRecord

SIGNALS: dict[str, Callable[[RunRecord], list[Sample]]] = {
    signal.__name__: signal
    for signal in (
        losses.non_finite_losses,
        losses.loss_gap,
        losses.validation_loss_rise,
        losses.train_loss_remaining,
        losses.epochs_without_improvement,
        losses.recent_improvement,
        losses.learned,
        losses.best_epoch,
        losses.loss_fall_since_best,
        losses.best_score,
        losses.below_earlier,
        losses.validation_gain,
        losses.selection_gain,
        losses.loss_rebound,
        losses.progress_lost,
        losses.epochs_completed,
        losses.steps_done,
        losses.first_loss,
        losses.first_loss_of_a_task,
        losses.numbers_unscaled,
        suddenness.sudden_non_finite,
        suddenness.sudden_jump,
        suddenness.sudden_gradient,
        suddenness.non_finite_second_step,
        suddenness.overshoot,
        turns.worse_since_warmup,
        turns.learning_since_best,
        turns.validation_jaggedness,
        turns.jaggedness_beyond_chance,
        scores.generalisation_gap,
        scores.commonest_class,
        scores.beyond_commonest,
        scores.gain_over_prior,
        scores.start_over_prior,
        scores.gap_beyond_chance,
        scores.more_is_known,
        scores.rival_ahead,
        ranges.error_at_an_end,
        ranges.scale_off_at_an_end,
        layers.gradient_norm,
        layers.applied_gradient_norm,
        layers.first_gradient_norm,
        layers.layer_gradient_spread,
        layers.dead_share,
        layers.saturated_share,
        layers.activation_max,
        layers.input_scale,
        updates.update_ratio,
        updates.peak_update_ratio,
        updates.usual_update_ratio,
        updates.update_ratio_before_jump,
        updates.update_ratio_before_gradient,
        updates.rate_on_curve,
        updates.rate_spent_share,
        updates.decay_per_step,
        updates.clipped_to,
        updates.unclipped,
        updates.effective_batch,
        updates.scale_is_harmless,
        updates.weight_decay,
        updates.dropout,
        adversaries.discriminator_loss,
        adversaries.generator_loss,
        costs.training_ended,
        costs.gpu_utilisation,
        costs.data_wait_share,
        costs.wait_per_step,
        costs.memory_growth,
        costs.out_of_memory_failures,
        costs.out_of_memory_while_building,
        unused_keys,
        keys_without_effect,
        errors_beyond_guessing,
        error_left,
        leaks_found,
        improbable_labels,
    )
}
"""Every signal by its name, but for FINDINGS, which depends on who reads it."""
OF_PROBES = frozenset({"rate_on_curve"})
"""Signals that are measured by a probe, which trains nothing that the others could judge."""
KNOWN = frozenset({*SIGNALS, FINDINGS})


def findings(record: RunRecord, of: str) -> list[Sample]:
    """What the worker's inspectors found under a diagnostic's id: its measured value, or 1 where it has none."""
    return [found for event in record.findings.get(of, []) if (found := finding_sample(event.data, of)) is not None]


def read_signal(record: RunRecord, name: str, of: str) -> list[Sample]:
    """Return a signal's samples; `of` is the id of the diagnostic that reads them."""
    return findings(record, of) if name == FINDINGS else SIGNALS[name](record)
