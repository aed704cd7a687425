"""Where a run computes, what it draws, and whether it computes the same bits twice."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from lane import Lane, check, differences, scenario, steps

CNN: dict[str, Any] = {
    "model": {"use": "cnn", "args": {"channels": [16, 32], "dropout": 0.1}},
    "data": {"use": "digits"},
    "metrics": ["accuracy"],
    "training": {"epochs": 2},
    "weight_averaging": {"name": "ema"},
}


@check("device", 60)
def device(lane: Lane) -> None:
    """Device choice and placement: parameters, batches, averages, optimizer state; recorded as it is."""
    from trainwright.trainer.run.evidence import Environment

    run = lane.trained("chosen", {**CNN, "training": {"epochs": 2, "device": "auto" if lane.on_card else "cpu"}})
    found = run.part(Environment)
    assert found.fingerprint_basis["device"] == lane.device
    assert bool(found.hardware["gpus"]) >= lane.on_card
    session = lane.session("placed", CNN)
    steps(session, 2)
    averages = session.weight_observers[-1].averages
    state = [value for each in session.optimizers.values() for one in each.state.values() for value in one.values()]
    placed = [*session.model.parameters(), *session.model.buffers(), *averages, *state]
    assert {tensor.device.type for tensor in placed} == {lane.device}
    lane.figures["accuracy"] = run.metrics().last("validation/accuracy").value
    assert lane.figures["accuracy"] > 0.5


DETERMINISM = """
import torch
from torch import nn

class Net(nn.Module):
    '''Gathers, scatters, sums by index, normalises and convolves: where kernels race if they may.'''
    def __init__(self):
        super().__init__()
        self.table, self.conv = nn.Embedding(17, 16), nn.Conv2d(1, 8, 3, padding=1)
        self.norm, self.head = nn.BatchNorm2d(8), nn.Linear(8 * 64 + 16, 10)
    def forward(self, x):
        x = x.reshape(-1, 1, 8, 8)
        words = self.table((x.flatten(1) * 16).long().clamp(0, 16))
        sums = words.new_zeros(len(x), 16).index_add(0, torch.arange(len(x), device=x.device), words.sum(1))
        return self.head(torch.cat([self.norm(self.conv(x)).relu().flatten(1), sums], 1))
"""


@check("determinism", 90)
def determinism(lane: Lane) -> None:
    """Deterministic settings with their effect: two processes give the same bits, and an operation without is named."""
    from trainwright.trainer.run.evidence import Reproducibility

    lane.write("racing.py", DETERMINISM)
    values = {"model": {"use": "racing.py:Net"}, "data": {"use": "digits"}, "training": {"epochs": 2}}
    first, second = (lane.trained(f"{name}/same", values) for name in ("first", "second"))
    assert not (found := differences(second, first)), found
    proof = first.part(Reproducibility)
    assert proof.passed
    assert proof.settings["cudnn_deterministic"]
    assert proof.settings["cublas_workspace_config"]
    assert proof.probe.nondeterministic_operation_refused
    lane.write(
        "refused.py", DETERMINISM.replace("words.sum(1)", "words.sum(1).put_(words[0, 0].long() * 0, words[0, 0])")
    )
    refused = lane.work(lane.make("refused", {**values, "model": {"use": "refused.py:Net"}}), expected=1)
    assert "put_" in refused.status().failure.message


@check("seeding", 60)
def seeding(lane: Lane) -> None:
    """Seeds of the device: the probe's, the same draws in two sessions, and restored exactly."""
    import torch

    from trainwright.trainer.base import seeding as generators
    from trainwright.trainer.run.evidence import Reproducibility

    draws = []
    for name in ("one", "two"):
        session = lane.session(name, CNN)
        draws.append(torch.rand(64, device=session.device).tolist())
    assert draws[0] == draws[1]
    torch.rand(7, device=session.device)
    state = copy.deepcopy(generators.capture())
    wanted = torch.rand(64, device=session.device)
    torch.rand(100, device=session.device)
    generators.restore(state)
    assert torch.equal(torch.rand(64, device=session.device), wanted)
    with generators.preserved():
        torch.rand(5, device=session.device)
    assert bool(state["cuda"]) == lane.on_card
    measured = []
    for _ in range(2):
        generators.seed_measurement(42, 0)
        measured.append(torch.rand(64, device=session.device))
    assert torch.equal(*measured), "draws of an evaluation are the same each time"
    probe = lane.trained("probed", {**CNN, "training": {"epochs": 1}}).part(Reproducibility).probe
    assert probe.draws_repeat["cuda"] is (True if lane.on_card else None)


PICTURES = """
import torch
from torch.utils.data import TensorDataset
drawn = torch.Generator().manual_seed(1)
def pictures(rows=48):
    return TensorDataset(torch.rand(rows, 3, 16, 16, generator=drawn), torch.arange(rows) % 4)
def rows(rows=96):
    return TensorDataset(torch.randn(rows, 12, generator=drawn), torch.arange(rows) % 4)
def numbers(rows=96):
    x = torch.randn(rows, 12, generator=drawn)
    return TensorDataset(x, x[:, :1].clone())
def labels(rows=96):
    x = torch.randn(rows, 12, generator=drawn)
    return TensorDataset(x, (x[:, :4] > 0).float())
"""
TEXT = " ".join(
    f"row {number} of {number * number % 97}: a lane runs wherever a card is at hand," for number in range(1200)
)
GPT = {
    "model": {"use": "gpt", "args": {"layers": 2, "heads": 2, "width": 32, "dropout": 0.1}},
    "data": {"use": "text", "args": {"path": "text.txt", "block_size": 32}},
    "loss": "next_token",
}


def _draw_masks(folder: Path) -> None:
    """Write pictures with a mask of four classes each, some of whose pixels are ignored."""
    import numpy as np
    from PIL import Image

    drawn = np.random.default_rng(0)
    for number in range(48):
        mask = drawn.integers(0, 4, (16, 16), dtype=np.uint8)
        mask[0] = 255
        for name, array in (("photos", drawn.integers(0, 255, (16, 16, 3), dtype=np.uint8)), ("masks", mask)):
            (folder / name).mkdir(exist_ok=True)
            Image.fromarray(array).save(folder / name / f"{number}.png")


def _parts() -> dict[str, dict[str, Any]]:
    """Return configurations that have every built-in model, loss, metric, mixing and objective between them."""
    own = {name: {"use": f"parts.py:{name}"} for name in ("pictures", "rows", "numbers", "labels")}
    models = {
        **{name: {"model": {"use": name}, "data": own["rows"], "metrics": ["f1", "matthews_correlation"]}
           for name in ("mlp", "tabular_resnet", "ft_transformer")},
        **{name: {"model": {"use": name}, "data": own["pictures"], "metrics": ["balanced_accuracy"]}
           for name in ("cnn", "resnet")},
        "unet": {"model": {"use": "unet", "args": {"depth": 2}}, "metrics": ["mean_iou"], "data": {
            "use": "images", "args": {"path": "photos", "masks": "masks", "classes": ["a", "b", "c", "d"]}}},
        "gpt": {**GPT, "metrics": ["perplexity", "bits_per_byte"]},
        "bert": {"model": {"use": "transformers", "args": {"config": {
            "model_type": "bert", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
            "intermediate_size": 48, "vocab_size": 300}}}, "data": {**GPT["data"], "args": {
                "path": "text.txt", "block_size": 32, "masked": 0.2}}, "loss": "masked_token"},
        "llama": {**GPT, "model": {"use": "transformers", "args": {"config": {
            "model_type": "llama", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
            "intermediate_size": 48, "vocab_size": 300, "bos_token_id": 1, "eos_token_id": 2}}}},
    }  # fmt: skip
    losses = {
        **{f"loss {name}": {**models["mlp"], "loss": name} for name in ("focal", "class_balanced")},
        **{f"loss {name}": {"model": {"use": "mlp"}, "data": own["numbers"], "loss": name, "metrics": ["mae", "r2"]}
           for name in ("mse", "mae", "huber", "log_cosh")},
        "loss bce_with_logits": {"model": {"use": "mlp"}, "data": own["labels"], "loss": "bce_with_logits",
            "metrics": ["auc"]},
        **{f"pixels {name}": {**models["unet"], "loss": name} for name in ("dice", "dice_cross_entropy", "focal")},
        "pixels weighted": {**models["unet"], "loss": {"use": "cross_entropy", "args": {
            "weights": [1.0, 2.0, 1.0, 1.0], "label_smoothing": 0.1}}},
    }  # fmt: skip
    around = {
        "mixup": {**models["cnn"], "mixing": {"name": "mixup"}},
        "cutmix": {**models["cnn"], "mixing": {"name": "cutmix"}},
        "adversarial": {**models["cnn"], "objective": {"name": "adversarial", "epsilon": 0.1}},
        "contrastive": {**models["cnn"], "objective": {"name": "contrastive"}, "metrics": []},
        "distillation": {
            **models["mlp"],
            "metrics": ["accuracy"],
            "objective": {"name": "distillation", "teacher": {"use": "mlp", "weights": "teacher.safetensors"}},
        },
        "progressive resizing": {**models["cnn"], "progressive_resizing": {"sizes": [8, 12]}},
        "SWA": {**models["cnn"], "weight_averaging": {"name": "swa", "after_epochs": 1}},
        "LoRA": {**models["llama"], "adapter": {"name": "lora", "rank": 2}},
        "recomputed": {**models["gpt"], "training": {"gradient_checkpointing": {"modules": ["*"]}}},
        "channels last": {**models["resnet"], "training": {"channels_last": True, "precision": "bf16"}},
    }
    return {**models, **losses, **around}


@check("built_in_parts", 180)
def built_in_parts(lane: Lane) -> None:
    """Models, losses, metrics and objectives, parts of each kind, train and validate in deterministic mode."""
    from safetensors.torch import save_file

    from trainwright.trainer.engine.evaluation import evaluate_split
    from trainwright.trainer.models.small import MLP

    _draw_masks(lane.folder)
    lane.write("parts.py", PICTURES)
    lane.write("text.txt", TEXT)
    save_file(MLP((12,), 4, hidden=[128, 64]).state_dict(), lane.folder / "teacher.safetensors")
    failed = {}
    for name, values in _parts().items():
        try:
            session = lane.session(name.replace(" ", "-"), {"loader": {"batch_size": 16}, **values})
            assert steps(session, 3)
            evaluate_split(session, session.validation_loader)
        except Exception as error:  # noqa: BLE001 - each part is a finding of its own
            failed[name] = f"{type(error).__name__}: {str(error)[:300]}"
    lane.figures["parts"] = len(_parts())
    assert not failed, "\n".join(f"{name}: {why}" for name, why in failed.items())


@check("replay", 60)
def replay(lane: Lane) -> None:
    """A replay of a run equals it tensor by tensor."""
    from trainwright.trainer.run import RunKind
    from trainwright.trainer.run.results import Comparison

    values = scenario("augmented data, batch norm, dropout")
    source = lane.trained("source", values, code_root=lane.project())
    again = lane.trained("again", values, code_root=lane.project(), kind=RunKind.REPLAY, source_run=str(source.path))
    found = again.part(Comparison)
    assert found.identical, found.causes
    assert found.metrics_identical


FAULT = """
import torch
from torch import nn
def build(config, context):
    x = torch.randn(96, 4, generator=torch.Generator().manual_seed(0))
    data = torch.utils.data.TensorDataset(x, (x[:, 0] > 0).long())
    def step(model, batch, context):
        output = model(batch[0])
        loss = nn.functional.cross_entropy(output, batch[1])
        if context.step == 6 and context.training:
            loss = loss * float("nan")
        return {"loss": loss}
    return {"model": nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), "train": data, "validation": data,
            "step": step}
"""


@check("divergence", 60)
def divergence(lane: Lane) -> None:
    """A step that is not finite is held back on the device, reported with its number, and saved nowhere."""
    import torch

    from trainwright.trainer.checkpoints.store import newest_whole, store_of

    lane.write("fault.py", FAULT)
    values = {"task": {"use": "fault.py:build"}, "loader": {"batch_size": 8}, "training": {"epochs": 4},
              "checkpoints": {"checkpoint_every_n_steps": 3},
              "logging": {"every_n_steps": 4, "tensorboard": False}}  # fmt: skip
    run = lane.work(lane.make("run", values), expected=1)
    failure = run.status().failure
    assert failure.category == "divergence", failure.message
    assert failure.details["step"] == 7, failure.details
    checkpoint, _ = newest_whole(store_of(run), config_digest=run.specification().config_digest)
    assert checkpoint is not None
    assert all(bool(torch.isfinite(value).all()) for value in checkpoint.model.values())
