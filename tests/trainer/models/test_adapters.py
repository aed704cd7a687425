"""Adapters by name: peft reads what was saved, merged weights give the same, and a run starts from a released one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.releases import param
from tests.trainer.saving import checkpoint_of
from tests.variants import variants

from trainwright.trainer.base import releases
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.models.adapters import ADAPTERS
from trainwright.trainer.models.adapters.saved import load_adapter, merged, write_adapter
from trainwright.trainer.objectives.supervised import plain_output

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning"),  # peft's own call
    pytest.mark.filterwarnings("ignore:fan_in_fan_out is set:UserWarning"),  # and what it settles by itself
]

NEWER = {"prompt": releases.VOCABULARY}
"""What is needed of peft beyond its oldest supported release."""
FORMS: dict[str, dict[str, Any]] = {
    "lora": {"name": "lora", "rank": 2},
    "dora": {"name": "lora", "rank": 2, "use_dora": True},
    "rslora": {"name": "lora", "rank": 4, "use_rslora": True},
    "ia3": {"name": "ia3"},
    "prompt": {"name": "prompt", "tokens": 3},
    "prefix": {"name": "prefix", "tokens": 3},
    "projected prefix": {"name": "prefix", "tokens": 3, "projection": True},
}
SIZES = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
KINDS = ("bert", "gpt2", "t5")


def base_of(kind: str) -> Any:
    from transformers import (
        AutoConfig,
        AutoModelForCausalLM,
        AutoModelForSeq2SeqLM,
        AutoModelForSequenceClassification,
    )

    torch.manual_seed(1)
    if kind == "bert":
        return AutoModelForSequenceClassification.from_config(AutoConfig.for_model("bert", **SIZES))
    if kind == "gpt2":
        sizes = {"vocab_size": 40, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 32, "bos_token_id": 0}
        return AutoModelForCausalLM.from_config(AutoConfig.for_model("gpt2", **sizes, eos_token_id=0))
    sizes = {"vocab_size": 40, "d_model": 16, "d_kv": 8, "num_layers": 1, "num_heads": 2, "d_ff": 32}
    return AutoModelForSeq2SeqLM.from_config(AutoConfig.for_model("t5", **sizes, decoder_start_token_id=0))


def trained(form: str, kind: str, seed: int = 3) -> torch.nn.Module:
    """A model with an adapter that is no longer as it began; each of its parameters has had a gradient."""
    model = ADAPTERS[FORMS[form]["name"]].model_validate(FORMS[form]).build(base_of(kind), Path())
    output(model, kind).square().sum().backward()
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            assert parameter.requires_grad == (parameter.grad is not None), name
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def output(model: Any, kind: str) -> torch.Tensor:
    ids = torch.arange(1, 13).reshape(2, 6)
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    found: torch.Tensor = plain_output(model(**given, **({"decoder_input_ids": ids[:, :4]} if kind == "t5" else {})))
    return found


@pytest.mark.requirement("CKPT-5", "TRAIN-1", "TRAIN-5")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", [param(form, NEWER.get(form)) for form in FORMS])
def test_peft_reads_what_was_saved_alone_and_merged_weights_give_the_same(form: str, kind: str, tmp_path: Path) -> None:
    from peft import PeftModel

    model = trained(form, kind)
    with torch.no_grad():
        wanted, plain = output(model, kind), output(base_of(kind).eval(), kind)
        assert wanted.shape == plain.shape
        assert (wanted - plain).abs().max() > 1e-3
        write_adapter(model, tmp_path, None)
        assert {path.name for path in tmp_path.iterdir()} == {"adapter_config.json", "adapter_model.safetensors"}
        again = output(PeftModel.from_pretrained(base_of(kind), str(tmp_path)).eval(), kind)
        near = {"rtol": 1e-5, "atol": 1e-6} if form == "projected prefix" else {"rtol": 0, "atol": 0}  # a product apart
        torch.testing.assert_close(again[:, -wanted.shape[1] :], wanted, **near)
        if ADAPTERS[FORMS[form]["name"]].merges:
            alone = merged(model)
            assert alone.state_dict().keys() == base_of(kind).state_dict().keys()
            torch.testing.assert_close(output(alone, kind), wanted, rtol=1e-4, atol=1e-5)
        section = ADAPTERS[FORMS[form]["name"]].model_validate(FORMS[form])
        fresh = section.build(base_of(kind), Path()).eval()
        if form == "projected prefix":
            with pytest.raises(ConfigurationError, match="saved without the network"):
                load_adapter(fresh, tmp_path)
        else:
            load_adapter(fresh, tmp_path)
            assert torch.equal(output(fresh, kind), wanted)


@pytest.mark.requirement("CKPT-5")
def test_adapters_of_two_runs_stand_on_one_base(tmp_path: Path) -> None:
    from peft import PeftModel

    models = [trained("lora", "gpt2", seed) for seed in (1, 2)]
    for number, model in enumerate(models):
        write_adapter(model, tmp_path / str(number), "models/gpt2")
    shared = PeftModel.from_pretrained(base_of("gpt2"), str(tmp_path / "0"), adapter_name="first")
    shared.load_adapter(str(tmp_path / "1"), adapter_name="second")
    shared.eval()
    assert shared.peft_config["second"].base_model_name_or_path == "models/gpt2"
    with torch.no_grad():
        for name, model in zip(("first", "second"), models, strict=True):
            shared.set_adapter(name)
            assert torch.equal(output(shared, "gpt2"), output(model, "gpt2"))


@pytest.mark.requirement("REPRO-6", "TRAIN-5", "CKPT-5")
@pytest.mark.parametrize("form", variants(["dora", "ia3", "prompt", "projected prefix"], quick=["ia3"], newer=NEWER))
def test_every_kind_resumes_to_the_bit_and_another_run_starts_from_it(
    form: str, saved: dict[str, Any], project: Path, assert_resumes_exactly: Any, open_session: Any
) -> None:
    from trainwright.trainer.models.adapters.saved import adapter_state

    data = {**saved["data"], "args": {**saved["data"]["args"], "max_length": 40}}
    values = {**saved, "data": data, "adapter": FORMS[form]}
    session = assert_resumes_exactly(values, before=1, after=1)
    held = checkpoint_of(session)
    assert sum(value.numel() for value in held.model.values()) < 10_000
    if form == "projected prefix":
        return
    write_adapter(session.model, project / "released", "bert")
    started = open_session({**values, "adapter": {**FORMS[form], "start_from": "released"}, "seed": 9}, "started")
    ours, theirs = adapter_state(started.model), adapter_state(session.model)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())
    assert "adapter_model.safetensors" in {path.name for path in started.work.model_files}


@pytest.mark.requirement("TRAIN-5", "CONF-1")
@pytest.mark.parametrize(
    ("adapter", "told"),
    [
        ({"name": "ia3", "start_from": "released"}, "it is LORA, and this one IA3"),
        ({"rank": 3, "start_from": "released"}, r"lora_A.weight is \(2, 16\), and here \(3, 16\)"),
        ({"rank": 2, "start_from": "."}, "has no adapter_config.json"),
        ({"rank": 2, "start_from": "../elsewhere"}, "outside the code root"),
    ],
)
def test_an_adapter_that_does_not_fit_is_refused_by_what_differs(
    adapter: dict[str, Any], told: str, tmp_path: Path
) -> None:
    write_adapter(trained("lora", "gpt2"), tmp_path / "released", None)
    section = ADAPTERS[adapter.get("name", "lora")].model_validate(adapter)
    with pytest.raises(ConfigurationError, match=told):
        section.build(base_of("gpt2"), tmp_path)


@pytest.mark.requirement("TRAIN-5", "CONF-1")
def test_a_prompt_is_refused_where_outputs_would_be_wrong() -> None:
    from transformers import AutoConfig, AutoModelForSequenceClassification

    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    reader = AutoModelForSequenceClassification.from_config(AutoConfig.for_model("gpt2", vocab_size=40, **sizes))
    section = ADAPTERS["prompt"].model_validate({"name": "prompt"})
    with pytest.raises(ConfigurationError, match="depend on the padding"):
        section.build(reader, Path())
    with pytest.raises(ConfigurationError, match="no language model that peft can prompt"):
        section.build(torch.nn.Sequential(torch.nn.Linear(4, 2)), Path())
    with pytest.raises(ConfigurationError, match="before texts of up to 500 tokens, and the model takes 512") as caught:
        section.require_texts(base_of("bert"), 500, packed=False)
    assert "at most 492" in caught.value.remedy
    with pytest.raises(ConfigurationError, match="would stand before the first alone"):
        section.require_texts(base_of("gpt2"), 4, packed=True)
