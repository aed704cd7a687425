"""Measures of texts that a model writes: it generates an answer to every row of a split, which is compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trainwright.trainer.clean_room.texts import OF_TEXTS
from trainwright.trainer.data.tensors import IGNORED, to_device

if TYPE_CHECKING:
    from trainwright.trainer.data.loader import BatchLoader
    from trainwright.trainer.data.text.sequences import Writing
    from trainwright.trainer.objectives.objective import MeasuredRun


class Written:
    """Measures of greedy generation over a split, by the names that the configuration asks for."""

    def __init__(self, names: Sequence[str], writing: Writing) -> None:
        self.names, self.writing = tuple(names), writing

    def __call__(self, run: MeasuredRun, loader: BatchLoader) -> dict[str, float]:
        """Generate at most as many tokens as the split's longest wanted text has, and compare.

        Bounded by the batch, the measure would depend on which texts stand together.
        """
        written: list[str] = []
        wanted: list[str] = []
        most = int(loader.samples.ragged["labels"].lengths.max())
        for batch in loader.batches(0):
            labels = batch["labels"]
            inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
            with run.autocast():
                found = self._generated(run.model, to_device(inputs, run.device), most)
            written += self._texts(found[:, 1:].cpu())
            wanted += self._texts(labels)
        return {name: OF_TEXTS[name](written, wanted) for name in self.names}

    def _generated(self, model: Any, inputs: dict[str, Tensor], most: int) -> Tensor:
        """Return tokens, (rows, tokens), the start of the decoder first."""
        writing = self.writing
        generate: Callable[..., Tensor] = model.generate
        return generate(
            **inputs,
            max_new_tokens=most,
            do_sample=False,
            num_beams=1,
            decoder_start_token_id=writing.start,
            eos_token_id=writing.end,
            pad_token_id=writing.padding,
        )

    def _texts(self, tokens: Tensor) -> Iterator[str]:
        for row in torch.where(tokens == IGNORED, self.writing.padding, tokens).tolist():
            end = row.index(self.writing.end) if self.writing.end in row else len(row)
            yield self.writing.decode([token for token in row[:end] if token != self.writing.padding])
