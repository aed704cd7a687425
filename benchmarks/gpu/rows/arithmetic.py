"""Number formats, optimizers, compiled code, loading and quantised weights on the device."""

from __future__ import annotations

import importlib.util
import math
from typing import Any

from lane import Lane, check, differences, lacks, steps

from rows.foundations import CNN, GPT, TEXT

PERCEPTRON = {
    "model": {"use": "mlp", "args": {"hidden": [64, 32], "dropout": 0.1, "norm": "batch"}},
    "data": {"use": "digits"},
}


@check("optimizers", 120)
def optimizers(lane: Lane) -> None:
    """Every optimizer steps on the device, fused where it says so, and resumes from its state to the same bits."""
    from trainwright.trainer.optimization.optimizers import OPTIMIZERS

    fused, failed = [], {}
    has_8bit = importlib.util.find_spec("bitsandbytes") is not None
    for name, section in OPTIMIZERS.items():
        if name == "own" or lacks(section.since) or (name == "adam8bit" and not (lane.on_card and has_8bit)):
            continue
        try:
            values = {**PERCEPTRON, "optimizer": {"name": name, "learning_rate": 1e-3}}
            session = lane.session(name, {**values, **({"schedule": {"name": "constant"}} if section.averages else {})})
            assert all(map(math.isfinite, steps(session, 3))), "a loss is not finite"
            _continues(lane, name, session)
            if all(each.defaults.get("fused") for each in session.optimizers.values()):
                fused.append(name)
        except Exception as error:  # noqa: BLE001 - each optimizer is a finding of its own
            failed[name] = f"{type(error).__name__}: {str(error)[:300]}"
    lane.figures |= {"fused": fused, "8bit": has_8bit}
    assert not failed, "\n".join(f"{name}: {why}" for name, why in failed.items())
    assert bool(fused) == lane.on_card
    assert {"adamw", "adam", "sgd"} <= set(fused) or not lane.on_card


def _continues(lane: Lane, name: str, session: Any) -> None:
    """Load the session's state into a fresh one, and take a step in both."""
    import torch

    from trainwright.trainer.checkpoints.store import DirectoryStore, newest_whole

    model, state, tensors = session.state()
    store = DirectoryStore(session.run)
    store.save(model=model, tensors=tensors, state=state, manifest={
        "step": session.progress.step, "epoch": 0, "run_id": name, "config_digest": "lane"})  # fmt: skip
    loaded, _ = newest_whole(store, config_digest="lane")
    assert loaded is not None
    [loss] = steps(session, 1)
    fresh = lane.session(f"{name}-resumed", session.config.model_dump(mode="json", exclude_unset=True))
    fresh.load(loaded)
    assert [loss] == steps(fresh, 1)
    kinds = [
        {key: value.device.type for key, value in state.items() if isinstance(value, torch.Tensor)}
        for each in (session, fresh) for optimizer in each.optimizers.values() for state in optimizer.state.values()
    ]  # fmt: skip
    half = len(kinds) // 2
    assert kinds[:half] == kinds[half:], "a resumed state lies on another device"
    ours, theirs = (dict(each.model.state_dict()) for each in (session, fresh))
    assert all(torch.equal(ours[key], theirs[key]) for key in ours)


@check("tf32", 45, only_on_card="a CPU has no TF32")
def tf32(lane: Lane) -> None:
    """fp32 multiplies exactly; TF32 only where it is asked for."""
    import torch

    drawn = torch.Generator().manual_seed(0)
    left, right = (torch.randn(1024, 1024, generator=drawn, dtype=torch.float64) for _ in range(2))
    exact, errors = left @ right, {}
    for precision in ("fp32", "tf32"):
        lane.session(precision, {**CNN, "training": {"precision": precision}})
        product = (left.float().to(lane.device) @ right.float().to(lane.device)).double().cpu()
        errors[precision] = float((product - exact).norm() / exact.norm())
    lane.figures |= {f"relative_error_{name}": float(f"{value:.2e}") for name, value in errors.items()}
    assert errors["fp32"] < 1e-6
    assert errors["tf32"] > 1e-5


@check("precisions", 60)
def precisions(lane: Lane) -> None:
    """bf16 and fp16 train as fp32 does; an overflow under the scale is left out and counted."""
    lane.write("text.txt", TEXT)
    last = {}
    for precision in ("fp32", "bf16", "fp16"):
        values = {**GPT, "training": {"precision": precision}, "loader": {"batch_size": 8}}
        last[precision] = steps(lane.session(precision, values), 20)[-1]
    lane.figures |= {f"loss_{name}": round(value, 4) for name, value in last.items()}
    assert max(last.values()) - min(last.values()) < 0.1 * last["fp32"]
    assert len(set(map(repr, last.values()))) == 3, "one of them computes in the format of another"
    scaled = {**GPT, "training": {"precision": "fp16", "initial_loss_scale": 2.0**24}}
    session = lane.session("overflow", scaled)
    steps(session, 8)
    lane.figures["skipped_updates"] = session.scaler.skipped_updates
    assert not lane.on_card or 0 < session.scaler.skipped_updates < 8


@check("compiled", 180)
def compiled(lane: Lane) -> None:
    """torch.compile and CUDA graphs train as plain code does, with metrics gathered and uneven last batches."""
    from trainwright.trainer.run.evidence import Summary

    modes: dict[str, dict[str, Any] | None] = {
        "plain": None,
        "default": {},
        "reduce-overhead": {"mode": "reduce-overhead"},
    }
    losses, graphs = {}, {}
    for name, section in modes.items():
        values = {**CNN, "training": {"epochs": 2, "compile": section}, "loader": {"batch_size": 50}}
        losses[name] = lane.trained(name, values).part(Summary).final["loss"]
        graphs[name] = _compiled_graphs(lane, name, values)
    lane.figures["graphs"] = graphs
    assert (graphs["plain"] == 0, graphs["default"] > 0, graphs["reduce-overhead"] > 0) == (True, True, True)
    lane.figures |= {f"loss_{name}": round(value, 6) for name, value in losses.items()}
    assert all(abs(value - losses["plain"]) < 0.02 * losses["plain"] for value in losses.values()), losses


def _compiled_graphs(lane: Lane, name: str, values: dict[str, Any]) -> int:
    """Return how many graphs were compiled for three steps; on a card none may be left out of CUDA's own graphs."""
    import torch._dynamo as dynamo

    dynamo.reset()
    dynamo.utils.counters.clear()
    steps(lane.session(f"{name}-counted", values), 3)
    assert not lane.on_card or dynamo.utils.counters["inductor"]["cudagraph_skips"] == 0
    return int(dynamo.utils.counters["stats"]["unique_graphs"])


@check("loading", 60)
def loading(lane: Lane) -> None:
    """Pinned, prefetched loading with workers gives the bits of plain loading."""
    plain = lane.trained("plain/run", {**CNN, "loader": {"batch_size": 32}})
    loader = {"batch_size": 32, "num_workers": 2, "prefetch_factor": 4, "persistent_workers": True, "pin_memory": True}
    fetched = lane.trained("fetched/run", {**CNN, "loader": loader})
    keys = ("train/loss", "validation/loss")
    assert all(
        [point.value for point in plain.metrics().series(key)]
        == [point.value for point in fetched.metrics().series(key)]
        for key in keys
    )
    session = lane.session("pinned", {**CNN, "loader": loader})
    assert next(session.train_loader.batches(0))[0].is_pinned() == lane.on_card


@check("quantised", 300, only_on_card="bitsandbytes quantises on CUDA", needs=("bitsandbytes",))
def quantised(lane: Lane) -> None:
    """4- and 8-bit bases with LoRA train, are killed, and resume to the same bits."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = LlamaForCausalLM(LlamaConfig(**sizes, vocab_size=300, bos_token_id=1, eos_token_id=2))
    model.save_pretrained(lane.folder / "base")
    lane.write("text.txt", TEXT)
    for bits in ("8bit", "4bit"):
        args = {"path": "base", "task": "causal_lm", "quantize": bits, "dtype": "bfloat16"}
        values = {**GPT, "model": {"use": "transformers", "args": args}, "adapter": {"name": "lora", "rank": 4},
                  "training": {"epochs": 1, "precision": "bf16"}}  # fmt: skip
        held = {parameter.dtype for parameter in lane.session(f"{bits}-held", values).model.parameters()}
        assert held & {torch.int8, torch.uint8}
        whole = lane.trained(f"{bits}/whole/run", values)
        run = lane.make(f"{bits}/killed/run", values)
        lane.work(run, "step", "5")
        lane.work(run)
        assert not (found := differences(run, whole)), found
