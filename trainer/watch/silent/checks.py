"""Checks of a step's record, in the order in which their findings are reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from trainwright.trainer.watch.inspector import Finding
from trainwright.trainer.watch.silent.inputs_check import bad_inputs, constant_output, wild_inputs
from trainwright.trainer.watch.silent.losses_check import (
    loss_of_all_pairs,
    loss_of_probabilities,
    loss_without_model,
    summed_loss,
)
from trainwright.trainer.watch.silent.modes_check import evaluation_while_training
from trainwright.trainer.watch.silent.parameters_check import frozen_parameters, unheld_parameters
from trainwright.trainer.watch.silent.record import StepRecord
from trainwright.trainer.watch.silent.steps_check import carried_gradients, clipped_gradients, zero_rates

CHECKS: tuple[Callable[[Sequence[StepRecord]], Iterator[Finding]], ...] = (
    bad_inputs,
    wild_inputs,
    loss_without_model,
    unheld_parameters,
    frozen_parameters,
    evaluation_while_training,
    loss_of_probabilities,
    loss_of_all_pairs,
    summed_loss,
    carried_gradients,
    clipped_gradients,
    zero_rates,
    constant_output,
)
"""Each is given the records of consecutive steps, the newest last, and yields what it finds in the newest."""


def check(history: Sequence[StepRecord]) -> list[Finding]:
    """Return everything that the checks find."""
    return [finding for each in CHECKS for finding in each(history)]
