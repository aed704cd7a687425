"""Objectives of the user's own: `step(model, batch, context) -> {"loss": ...}`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from trainwright.trainer.data.tensors import batch_size
from trainwright.trainer.errors import UserCodeError
from trainwright.trainer.objectives.outcome import Outcome
from trainwright.trainer.user_code.context import Context

_GATHERED = {"loss", "output", "outputs", "logits", "target", "targets"}


class CustomStep:
    """The user's step function as an objective."""

    def __init__(self, function: Callable[..., Any], context: Context, name: str = "step") -> None:
        self.function, self.context, self.name = function, context, name

    def __call__(self, model: nn.Module, batch: Any) -> Outcome:
        """Call the user's step. Raises UserCodeError when it returns no scalar loss."""
        result = self.function(model, batch, self.context)
        values = dict(result) if isinstance(result, Mapping) else {"loss": result}
        loss = values.get("loss")
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            raise UserCodeError(
                f"{self.name} returned {sorted(map(str, values))} with a loss of type {type(loss).__name__}.",
                remedy='Return {"loss": scalar tensor, ...}.',
            )
        output = next((values[name] for name in ("output", "outputs", "logits") if name in values), None)
        target = next((values[name] for name in ("target", "targets") if name in values), None)
        others = {name: value for name, value in values.items() if name not in _GATHERED}
        return Outcome(loss.reshape(()), output, target, others)

    def count(self, batch: Any) -> int:
        """Return the samples of the batch, as far as they can be told."""
        return batch_size(batch)
