"""Weights in bfloat16: halved, with trained parts in float32, resumed to the bit; quantised ones where they can be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.trainer.saving import checkpoint_of

from trainwright.trainer.assembly.output_format import notes_on_model
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import parse_config
from trainwright.trainer.jobs.export.adapters import export_adapter
from trainwright.trainer.jobs.export.inputs import example_rows
from trainwright.trainer.jobs.export.library import write_library_folder
from trainwright.trainer.models.weight_types import held_in, is_quantised

pytestmark = pytest.mark.slow


def typed(values: dict[str, Any], **args: Any) -> dict[str, Any]:
    return {**values, "model": {"use": "transformers", "args": {**values["model"]["args"], **args}}}


@pytest.mark.requirement("TRAIN-1", "REPRO-6")
@pytest.mark.parametrize(
    "adapter", [pytest.param(None, id="full", marks=pytest.mark.long), pytest.param({"rank": 2}, id="adapter")]
)
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
    with pytest.raises(ConfigurationError, match="needs a CUDA device and bitsandbytes") as caught:
        open_session({**typed(saved, quantize="4bit"), "adapter": {}})
    assert caught.value.details["changes"]["model.args.dtype"] == "bfloat16"


LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "vocab_size": 800,
    "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 4096,
}  # fmt: skip


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize("origin", ["config", "path"])
def test_weights_in_bfloat16_answer_at_a_long_position_as_the_library_does(
    origin: str, project: Path, open_session: Any
) -> None:
    """The library keeps RoPE's frequencies in float32: rounded to bfloat16, position 4,000 is turned elsewhere."""
    from transformers import AutoModelForCausalLM, LlamaConfig

    args: dict[str, Any] = {"config": LLAMA}
    if origin == "path":
        torch.manual_seed(5)
        sizes = {name: value for name, value in LLAMA.items() if name != "model_type"}
        AutoModelForCausalLM.from_config(LlamaConfig(**sizes)).save_pretrained(project / "llama")
        args = {"path": "llama"}
    text = {"path": "sentences.jsonl", "text": "sentence", "tokenizer": "tokenizer", "block_size": 16}
    model = open_session({
        "model": {"use": "transformers", "args": {**args, "dtype": "bfloat16"}},
        "data": {"use": "jsonl", "args": text},
        "loss": "next_token",
    }).model.eval()  # fmt: skip
    wanted = AutoModelForCausalLM.from_config(model.config, **held_in(model.config, torch.bfloat16)).eval()
    wanted.load_state_dict(model.state_dict())
    tokens, places = torch.arange(40).reshape(1, -1), torch.arange(0, 4000, 100).reshape(1, -1)
    with torch.no_grad():
        found, right = (each(input_ids=tokens, position_ids=places).logits for each in (model, wanted))
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, right)


@pytest.mark.requirement("CKPT-5", "TRAIN-1")
def test_an_adapter_beside_bfloat16_is_merged_and_compared_in_float32(
    saved: dict[str, Any], open_session: Any, take_steps: Any, tmp_path: Path
) -> None:
    """In bfloat16 the merged outputs differed by 6e-4, more than the last gate takes."""
    session = open_session({**typed(saved, dtype="bfloat16"), "adapter": {"rank": 2}})
    take_steps(session, 8)
    digest = session.base.record()["digest"]
    session.model.cpu().eval()
    rows = example_rows(session)[0]
    found = export_adapter(session, rows, tmp_path)
    assert found is not None
    assert (found.is_sound, found.merged_in, found.base_digest) == (True, "transformers", digest)
    library = write_library_folder(session, rows, tmp_path / "transformers")  # no program was prepared before
    assert library is not None
    assert library["max_abs_difference"] <= library["tolerance"]


@pytest.mark.requirement("CKPT-5")
def test_nothing_is_told_to_be_merged_where_nothing_was_written(saved: dict[str, Any], open_session: Any) -> None:
    session = open_session({**saved, "adapter": {"rank": 2}})
    folder = session.run.artifacts / "final_model"
    uncompared = export_adapter(session, {}, folder)
    assert uncompared is not None
    assert (uncompared.merged_in, uncompared.is_sound) == (None, True)
    base = session.model.bert.embeddings.word_embeddings.weight
    base.data = base.data.to(torch.int8)  # as quantised weights are held
    assert is_quantised(session.model)
    quantised = export_adapter(session, example_rows(session)[0], folder)
    assert quantised is not None
    assert (quantised.merged_in, quantised.merged) == (None, None)
    assert write_library_folder(session, {}, folder / "transformers") is None
