"""Memory of a configuration's training on one device, from the trace of its first steps.

What is followed are the tensors; what an operation's kernel takes for itself while it works is not seen. The margins
cover that: the CPU's is set by benchmarks/memory, whose errors measured.json keeps. A GPU takes memory for its
context besides, which is a published figure, and its allocator rounds and leaves gaps.
"""

from __future__ import annotations

import json
from dataclasses import replace
from math import ceil
from pathlib import Path

from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.loader import BatchLoader
from trainwright.trainer.estimation.results import PARTS, Estimate, MemoryEstimate
from trainwright.trainer.estimation.trace import Traced, bytes_of, divides, trace

MEASURED = Path(__file__).with_name("measured.json")
"""Figures of the last `make bench-memory`, which writes them: the one place that an estimate's error is read from."""
MARGIN = {"cpu": 0.005, "cuda": 0.05}
"""Allowance for kernels' working space, as a share of the traced peak; on a GPU also for the allocator's gaps."""
MIN_MARGIN_BYTES = 2**16
CONTEXT_BYTES = {"cpu": 0, "cuda": 512 * 2**20}
"""A CUDA context, which no allocator sees."""
ON_GPU = (
    "attention is traced as a GPU's kernels keep it: on an H200 within 5 % of the allocator's peak for nine small "
    "models of ten, and 15 % below it for grouped-query attention in fp32 (docs/gpu.md); the context is published"
)

QUANTISED = "quantised weights by the sizes of bitsandbytes' layers, which were not measured here"


def estimate(config: TrainingConfig, code_root: Path, folder: Path, device_kind: str = "cpu") -> Estimate:
    """Return memory and work of the configuration's training, on the strategy and processes that it names.

    Args:
        folder: a folder of this process's own, for what an assembly writes.
        device_kind: cpu or cuda: whose margins and optimizer kernels hold.

    Raises:
        ConfigurationError: it cannot be traced. And the errors of assembling.
    """
    traced = trace(config, code_root, folder, on_gpu=device_kind == "cuda")
    memory = _memory(traced, device_kind)
    section = config.distributed
    if divides(config):
        memory = _built_whole(memory.changed(section.strategy, section.processes))
    elif section.processes > 1:
        memory = with_strategy(memory, _strategy(config), section.processes)
    notes = _notes(config, device_kind)
    if QUANTISED in notes:
        memory = replace(memory, error_percent=None)
    return Estimate(memory.changed(memory.strategy, memory.devices, *notes), traced.work)


def _memory(traced: Traced, device_kind: str) -> MemoryEstimate:
    session = traced.session
    model, trained = session.model, session.parameters
    peak = sum(traced.parts.values())
    parts = dict.fromkeys(PARTS, 0) | traced.parts
    parts["context"] = CONTEXT_BYTES[device_kind]
    parts["margin"] = max(round(peak * MARGIN[device_kind]), MIN_MARGIN_BYTES)
    return MemoryEstimate(
        parts=parts,
        device_kind=device_kind,
        parameters=sum(getattr(one, "stands_for", one.numel()) for one in model.parameters()),
        trained_parameters=sum(parameter.numel() for parameter in trained if parameter.requires_grad),
        trained_bytes=bytes_of([parameter for parameter in trained if parameter.requires_grad]),
        weights_bytes=bytes_of(list(model.parameters())),
        state_bytes=traced.state_bytes,
        largest_layer_bytes=largest_layer(model),
        batch_size=_own_rows(session.train_loader),
        batch_shapes=[list(leaf.shape) for leaf in tree_leaves(traced.batch) if isinstance(leaf, Tensor)][:8],
        peak_phase=traced.tracker.peak_phase,
        error_percent=float(json.loads(MEASURED.read_bytes())["worst_percent"]),
        notes=sorted(traced.tracker.assumed),
    )


def _built_whole(memory: MemoryEstimate) -> MemoryEstimate:
    """Return the estimate with the moment at which the whole model stands beside its own parts, where that is more."""
    whole = memory.weights_bytes + memory.parts["weights"] + memory.parts["buffers"]
    more = max(whole + memory.parts["margin"] + memory.parts["context"] - memory.peak_bytes, 0)
    return memory.changed(memory.strategy, memory.devices, exchange=memory.parts["exchange"] + more)


def largest_layer(model: nn.Module) -> int:
    """Return the bytes of the largest group of weights that strategies/sharded.py gathers at once."""
    layers = [layer for each in model.modules() if isinstance(each, nn.ModuleList) for layer in each]
    inside = {id(parameter) for layer in layers for parameter in layer.parameters()}
    rest = bytes_of([parameter for parameter in model.parameters() if id(parameter) not in inside])
    return max([rest, *(bytes_of(list(layer.parameters())) for layer in layers)])


def _own_rows(loader: BatchLoader) -> int | None:
    """Return the rows of a batch that the first process takes."""
    size = loader.batch_size
    return size if size is None or loader.share is None else len(range(*loader.share.rows(size).indices(size)))


def _strategy(config: TrainingConfig) -> str:
    section = config.distributed
    if section.strategy != "deepspeed":
        return section.strategy
    stage = ((section.deepspeed or {}).get("zero_optimization") or {}).get("stage", 1)
    return f"zero{stage}"


def _notes(config: TrainingConfig, device_kind: str) -> list[str]:
    notes = [ON_GPU] if device_kind == "cuda" else []
    if config.model is not None and config.model.args.get("quantize") is not None:
        notes.append(QUANTISED)
    if config.training.compile is not None:
        notes.append("training.compile: compiled code keeps less; this is the plain model's")
    return notes


# Memory under strategies of several processes, by formula over the traced figures of one. Light: free of torch.
#
# N processes, W bytes of weights, T of them trained, S of optimizer state. Sources: Rajbhandari et al. 2020 (ZeRO,
# arXiv:1910.02054), table 1; Zhao et al. 2023 (FSDP, arXiv:2304.11277); torch's DistributedDataParallel, whose buckets
# are a second copy of the gradients. Activations are those of one device's share of the batch, which was traced.

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
