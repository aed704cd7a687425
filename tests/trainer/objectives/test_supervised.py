"""How a model's output is read, and what is said where it has another form."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.losses.loss import Loss
from trainwright.trainer.objectives.supervised import Supervised


class Answers(torch.nn.Module):
    """A model that answers with what it was given, whatever it is asked."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self.result = result

    def forward(self, *_: Any) -> Any:
        return self.result


LOSS, ROWS = torch.tensor(1.0), torch.zeros(4, 3)
OTHER_FORMS = [
    ("output", (LOSS, ROWS), "'loss,logits'"),
    ("output", {"features": ROWS}, "return output['features']"),
    ("output", {"loss": LOSS, "logits": ROWS}, "'loss'"),
    ("loss,logits", (ROWS, LOSS), "'logits,loss'"),
    ("loss", ROWS, "'output'"),
    (".loss", SimpleNamespace(logits=ROWS), "'output'"),
    ("logits,loss", (ROWS, ROWS), "whose `step` computes the loss"),
]


@pytest.mark.requirement("TRAIN-1", "DIAG-10")
@pytest.mark.parametrize(("returns", "result", "says"), OTHER_FORMS)
def test_an_output_of_another_form_is_answered_by_the_form_that_it_has(returns: str, result: Any, says: str) -> None:
    loss = Loss("cross_entropy", torch.nn.functional.cross_entropy, task="classification")
    batch = (torch.zeros(4, 2), torch.zeros(4, dtype=torch.int64))
    with pytest.raises(ConfigurationError, match="does not fit") as caught:
        Supervised(loss, returns)(Answers(result), batch)
    assert says in caught.value.remedy
    fits = caught.value.details.get("changes", {}).get("returns")
    if fits is not None:  # following the remedy ends it
        Supervised(loss, fits)(Answers(result), batch)
