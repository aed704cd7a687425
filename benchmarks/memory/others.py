"""What two tools in wide use say of the same training: they know a model's parameters, and nothing of its data.

`accelerate estimate-memory` asks the hub for a model, so its own functions are called with the model's size here. Of
DeepSpeed, which is not installed, the published formulas are computed: estimate_zero2_model_states_mem_needs and
estimate_zero3_model_states_mem_needs, without offloading (runtime/zero/stage_1_and_2.py, stage3.py).
"""

from __future__ import annotations

from typing import Any


def by_accelerate(memory: dict[str, Any], precision: str) -> int:
    """Return the largest of the figures that accelerate prints as the peak of training with Adam."""
    from accelerate.commands.estimate import estimate_training_usage

    name = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}[precision]
    return int(max(estimate_training_usage(4 * memory["parameters"], name).values()))


def by_deepspeed(memory: dict[str, Any], largest_layer: int) -> int:
    """Return what DeepSpeed's formula says: ZeRO-3's for divided weights, else ZeRO-2's over the devices."""
    parameters, devices = memory["parameters"], memory["devices"]
    if memory["strategy"] in {"fsdp2", "zero3"}:
        return 4 * largest_layer + int(18 * parameters / devices)
    return 4 * parameters + int(16 * parameters / devices)
