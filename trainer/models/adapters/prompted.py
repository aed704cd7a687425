"""Model behind a soft prompt, called like the model itself."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

LENGTHWISE = ("logits", "start_logits", "end_logits")
"""Outputs with one row for each token of the input."""


class Prompted(nn.Module):
    """peft's wrapper whose outputs are those of the text: of the learned vectors before it there are none.

    Args:
        inner: peft's PeftModel.
        virtual: outputs that stand before those of the text.
    """

    def __init__(self, inner: Any, virtual: int) -> None:
        super().__init__()
        self.inner, self.virtual = inner, virtual

    @property
    def config(self) -> Any:
        """The model's own configuration."""
        return self.inner.get_base_model().config

    def forward(self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None, **inputs: Any) -> Any:
        """Map tokens (batch, length) to the model's outputs, (batch, length, ...) or (batch, ...)."""
        result = self.inner(input_ids=input_ids, attention_mask=attention_mask, **inputs)
        if self.virtual:
            for name in LENGTHWISE:
                value = getattr(result, name, None)
                if isinstance(value, Tensor):
                    setattr(result, name, value[:, self.virtual :])
        return result
