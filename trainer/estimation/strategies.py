"""Memory under strategies of several processes, by formula over the traced figures of one. Light: free of torch.

N processes, W bytes of weights, T of them trained, S of optimizer state. Sources: Rajbhandari et al. 2020 (ZeRO,
arXiv:1910.02054), table 1; Zhao et al. 2023 (FSDP, arXiv:2304.11277); torch's DistributedDataParallel, whose buckets
are a second copy of the gradients. Activations are those of one device's share of the batch, which was traced.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from trainwright.trainer.estimation.results import MemoryEstimate

STRATEGIES = ("single", "ddp", "fsdp2", "zero1", "zero2", "zero3")
BUCKET_BYTES = 2 * 500_000_000
"""DeepSpeed's two buckets (reduce_bucket_size, allgather_bucket_size: 5e8 elements) are at most this in bf16."""
FORMULA = "divided by formula over the traced figures of one device, which was not measured"


def with_strategy(estimate: MemoryEstimate, strategy: str, devices: int) -> MemoryEstimate:
    """Return the estimate of one device among several, from that of one alone with the same batch on it.

    Raises:
        ValueError: an unknown strategy, or an estimate that is of several devices already.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy {strategy!r} is none of {', '.join(STRATEGIES)}")
    if estimate.devices != 1:
        raise ValueError(f"this estimate is of {estimate.devices} devices already: divide that of one")
    if devices == 1 or strategy == "single":
        return estimate
    if strategy == "ddp":
        return estimate.changed(strategy, devices, exchange=estimate.trained_bytes)
    if strategy == "fsdp2":
        return _divided(estimate, strategy, devices)
    return replace(_zero(estimate, strategy, devices), error_percent=None)


def _divided(estimate: MemoryEstimate, strategy: str, devices: int) -> MemoryEstimate:
    """Return that of divided weights: two layers are gathered at a time, the next beside the present one.

    A gathered layer exists as the received bytes and as its weights; its full gradient is there until it is summed.
    """
    parts, layer = estimate.parts, estimate.largest_layer_bytes
    trained = estimate.trained_bytes / max(estimate.weights_bytes, 1)
    gathered = 2 * layer + layer + ceil(2 * layer * trained)
    return estimate.changed(
        strategy,
        devices,
        FORMULA,
        weights=_share(parts["weights"], devices),
        gradients=_share(parts["gradients"], devices),
        optimizer=_share(parts["optimizer"], devices),
        exchange=gathered,
    )


def _zero(estimate: MemoryEstimate, strategy: str, devices: int) -> MemoryEstimate:
    """Return ZeRO's: stage 1 divides the optimizer's state and its fp32 copy, 2 gradients too, 3 weights too."""
    parts, stage = estimate.parts, int(strategy[-1])
    if stage == 3:
        return _divided(estimate, strategy, devices)
    main_copy = _share(estimate.trained_bytes, devices)
    gradients = estimate.trained_bytes if stage == 1 else _share(estimate.trained_bytes, devices)
    buckets = min(2 * estimate.trained_bytes, BUCKET_BYTES)
    return estimate.changed(
        strategy,
        devices,
        FORMULA,
        optimizer=_share(max(parts["optimizer"], estimate.state_bytes), devices) + main_copy,
        gradients=max(parts["gradients"], gradients),
        exchange=buckets,
    )


def _share(total: int, devices: int) -> int:
    return ceil(total / devices)
