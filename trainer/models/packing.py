"""Packed documents in a model: it is shown on a real block that one document does not see another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.releases import PACKED

if TYPE_CHECKING:
    from torch import Tensor, nn

TOLERANCE = 1e-3
"""Largest difference of logits, times the largest where that is above 1: sums run in another order."""


def require_apart(model: nn.Module, samples: Any) -> None:
    """Refuse a model that gives other logits for a document packed than for it alone, on a first block of several.

    Raises:
        ConfigurationError: it does, or takes no positions.
    """
    import torch

    from trainwright.trainer.base import seeding

    several = next((place for place, group in enumerate(samples.groups) if len(group) > 1), None)
    if several is None:
        return
    block = samples.gather([several])
    inputs = {name: block[name] for name in ("input_ids", "position_ids")}
    start = int(samples.parts.lengths[samples.groups[several][0]])
    end = start + int(samples.parts.lengths[samples.groups[several][1]])
    was_training = model.training
    with torch.no_grad(), seeding.preserved():
        model.eval()
        try:
            beside = model(**inputs).logits[:, start:end]
            alone = model(**{name: value[:, start:end] for name, value in inputs.items()}).logits
        except TypeError as error:
            raise _refusal(model, f"takes no positions ({str(error)[:120]})") from error
        finally:
            model.train(was_training)
    if not _are_close(beside, alone):
        raise _refusal(model, "lets a document see those before it in its block")


def _are_close(one: Tensor, other: Tensor) -> bool:
    largest = max(float(other.abs().max()), 1.0)
    return bool((one - other).abs().max() <= TOLERANCE * largest)


def _refusal(model: nn.Module, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"`data.args.packed` puts several documents into a block, and {type(model).__name__} {why}.",
        remedy="Set data.args.packed false; or use a model that separates packed documents by position_ids "
        f"(gpt2, llama, qwen2 and most causal ones, from {PACKED.package} {PACKED.least} on).",
        document="configs/text.md",
        details={"changes": {"data.args.packed": False}},
    )
