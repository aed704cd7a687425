"""Weights in bfloat16: halved, with trained parts in float32, resumed to the bit; quantised ones where they can be."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
import torch
from tests.trainer.saving import checkpoint_of

from trainwright.trainer.assembly.output_format import notes_on_model
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import parse_config

pytestmark = pytest.mark.slow


def typed(values: dict[str, Any], **args: Any) -> dict[str, Any]:
    return {**values, "model": {"use": "transformers", "args": {**values["model"]["args"], **args}}}


@pytest.mark.requirement("TRAIN-1", "REPRO-6")
@pytest.mark.parametrize("adapter", [None, {"rank": 2}], ids=["full", "adapter"])
def test_weights_in_bfloat16_say_their_master_precision_and_resume_to_the_bit(
    adapter: dict[str, Any] | None, saved: dict[str, Any], assert_resumes_exactly: Any
) -> None:
    session = assert_resumes_exactly({**typed(saved, dtype="bfloat16"), "adapter": adapter}, before=2, after=1)
    types = {(p.requires_grad, p.dtype) for p in session.model.parameters()}
    told = notes_on_model(session.work)[-1]
    if adapter is None:
        assert types == {(True, torch.bfloat16)}
        assert told == "Updates are made in bfloat16, with no float32 copy."
    else:
        assert types == {(True, torch.float32), (False, torch.bfloat16)}
        assert told == "Updates are made in float32; frozen weights bfloat16."
        assert {value.dtype for value in checkpoint_of(session).model.values()} == {torch.float32}


@pytest.mark.requirement("TRAIN-1", "CONF-1")
def test_quantised_weights_need_an_adapter_and_a_device(saved: dict[str, Any], open_session: Any) -> None:
    with pytest.raises(ConfigurationError, match="no update can change: add an adapter"):
        parse_config(typed(saved, quantize="4bit"))
    if torch.cuda.is_available() and importlib.util.find_spec("bitsandbytes") is not None:
        pytest.skip("this machine has a CUDA device and bitsandbytes: nothing is refused")
    with pytest.raises(ConfigurationError, match="needs a CUDA device and bitsandbytes") as caught:
        open_session({**typed(saved, quantize="4bit"), "adapter": {}})
    assert caught.value.details["changes"]["model.args.dtype"] == "bfloat16"


@pytest.mark.gpu
@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize("bits", ["8bit", "4bit"])
def test_quantised_weights_are_trained_beside(
    bits: str, saved: dict[str, Any], open_session: Any, take_steps: Any
) -> None:
    pytest.importorskip("bitsandbytes", reason="quantised weights need bitsandbytes")
    session = open_session({**typed(saved, quantize=bits), "adapter": {"rank": 2}})
    take_steps(session, 2)
    assert any(parameter.dtype in {torch.int8, torch.uint8} for parameter in session.model.parameters())
