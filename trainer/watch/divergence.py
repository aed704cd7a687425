"""Trend before a divergence: which layer's norms or activations grew first, from what was inspected until then."""

from __future__ import annotations

import math
import statistics
from contextlib import suppress
from typing import NamedTuple

import torch

from trainwright.trainer.base.errors import DivergenceError
from trainwright.trainer.engine.observers.recorder import Recorder
from trainwright.trainer.engine.session import Session
from trainwright.trainer.run.metrics import MetricStore
from trainwright.trainer.watch.inspector import MAX_LAYERS, named_parameters
from trainwright.trainer.watch.inspectors.layer_norms import GRADIENT, gradient_norms

NAN_LOSS = "nan_loss"
"""The diagnostic that the finding belongs to."""
MEASURES = ("activation_max", "weight_norm", "gradient_norm")
"""In the order in which a step computes what blows up."""
GROWN = 10.0
"""Times the median of the values before: from here on a layer has blown up."""


class Growth(NamedTuple):
    """A layer's values at the step where they first were GROWN times what they had been."""

    step: int
    order: int
    """Of the measure, then of the recording."""
    measure: str
    layer: str
    value: float
    before: float


def note_divergence(session: Session, recorder: Recorder, error: DivergenceError) -> None:
    """Record the failing step's gradient norms where they are still there, and report what grew first."""
    if session.strategy.is_first and session.specification.inspects:
        with suppress(Exception):  # the divergence is what ends the run, whatever could be found out about it
            _note(session, recorder, error)


def _note(session: Session, recorder: Recorder, error: DivergenceError) -> None:
    step = int(error.details["step"])
    if step >= session.progress.step:  # on CUDA the error comes later, and the gradients are of another step
        recorder.add_measured(_gradients_now(session), step)
    recorder.flush()
    grown = growths(recorder.store)
    if not grown:
        return
    first = grown[0]
    session.run.append_event(
        "finding",
        id=NAN_LOSS,
        step=first.step,
        epoch=int(error.details["epoch"]) + 1,
        measured=first.value if math.isfinite(first.value) else None,
        layers=list(dict.fromkeys(growth.layer for growth in grown))[:MAX_LAYERS],
        rows=list(error.details.get("batch_indices", []))[:20],
        detail=f"{first.measure.replace('_', ' ')} of {first.layer} was {first.value:.3g} at step {first.step}, "
        f"{first.before:.3g} before; not finite at step {step}",
    )


def _gradients_now(session: Session) -> dict[str, float]:
    """Return the gradients' norms by parameter; none where they have been cleared."""
    named = named_parameters(session)
    with torch.no_grad():
        norms = gradient_norms([parameter for parameter in named.values() if parameter.grad is not None])
    return {GRADIENT + name: float(norms[id(p)]) for name, p in named.items() if id(p) in norms}


def growths(store: MetricStore) -> list[Growth]:
    """Return the layers that blew up, the first in time first. Raises IntegrityError."""
    found = []
    with store.reading():
        keys = [key for key in store.keys() if key.startswith("layers/")]  # noqa: SIM118 - no mapping
        for key in keys:
            _, measure, layer = key.split("/", 2)
            if measure in MEASURES:
                values = [(point.step, point.value) for point in store.tail(key, 1_000)]
                if (growth := _growth(MEASURES.index(measure), measure, layer, values)) is not None:
                    found.append(growth)
    return sorted(found)


def _growth(order: int, measure: str, layer: str, values: list[tuple[int, float]]) -> Growth | None:
    for index, (step, value) in enumerate(values):
        earlier = [before for _, before in values[:index] if math.isfinite(before)]
        before = statistics.median(earlier) if earlier else math.nan
        if not math.isfinite(value) or (before > 0 and value > GROWN * before):
            return Growth(step, order, measure, layer, value, before)
    return None
