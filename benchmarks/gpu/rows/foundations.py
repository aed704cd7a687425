"""Where a run computes, what it draws, and whether it computes the same bits twice."""

from __future__ import annotations

import copy
from typing import Any

from lane import RESUMED, ROOT, Lane, check, differences, importable, scenario, steps

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
    from trainwright.trainer.data.tensors import to_device
    from trainwright.trainer.run.evidence import Environment

    run = lane.trained("chosen", {**CNN, "training": {"epochs": 2, "device": "auto" if lane.on_card else "cpu"}})
    found = run.part(Environment)
    assert found.fingerprint_basis["device"] == lane.device
    assert bool(found.hardware["gpus"]) >= lane.on_card
    session = lane.session("placed", CNN)
    steps(session, 2)
    averages = session.weight_observers[-1].averages
    state = [value for each in session.optimizers.values() for one in each.state.values() for value in one.values()]
    batch = to_device(next(session.train_loader.batches(0)), session.device)
    placed = [*batch, *session.model.parameters(), *session.model.buffers(), *averages, *state]
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


TEXT = " ".join(
    f"row {number} of {number * number % 97}: a lane runs wherever a card is at hand," for number in range(1200)
)
GPT = {
    "model": {"use": "gpt", "args": {"layers": 2, "heads": 2, "width": 32, "dropout": 0.1}},
    "data": {"use": "text", "args": {"path": "text.txt", "block_size": 32}},
    "loss": "next_token",
}


@check("built_in_parts", 240, needs=("pytest",))
def built_in_parts(lane: Lane) -> None:
    """Every part of the registries trains and validates on the device in deterministic mode; optimizers: see there."""
    from trainwright.trainer.config import config_digest, parse_config
    from trainwright.trainer.engine.evaluation import evaluate_split

    with importable(ROOT):
        from tests.trainer.reproducibility.card import configurations

    configurations.write_files(lane.folder)
    failed, tried = {}, set()
    for name in configurations.every():
        if name.startswith(("optimizer ", "run ")) or configurations.missing_library(name):
            continue
        values = configurations.values_of(name, lane.folder)
        digest = config_digest(parse_config(values))
        if digest in tried or (values["training"].get("precision") == "tf32" and not lane.on_card):
            continue
        tried.add(digest)
        try:
            session = lane.session(f"part-{len(tried)}", values)
            assert steps(session, 3)
            evaluate_split(session, session.validation_loader)
        except Exception as error:  # noqa: BLE001 - each part is a finding of its own
            failed[name] = f"{type(error).__name__}: {str(error)[:300]}"
    lane.figures["parts"] = len(tried)
    assert not failed, "\n".join(f"{name}: {why}" for name, why in failed.items())


@check("replay", 60)
def replay(lane: Lane) -> None:
    """A replay of a run equals it tensor by tensor."""
    from trainwright.trainer.run import RunKind
    from trainwright.trainer.run.results import Comparison

    values = scenario("augmented data, batch norm, dropout")
    source = lane.trained("source", values, code_root=str(RESUMED))
    again = lane.trained("again", values, code_root=str(RESUMED), kind=RunKind.REPLAY, source_run=str(source.path))
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

    from trainwright.trainer.checkpoints.store import DirectoryStore, newest_whole

    lane.write("fault.py", FAULT)
    values = {"task": {"use": "fault.py:build"}, "loader": {"batch_size": 8}, "training": {"epochs": 4},
              "checkpoints": {"checkpoint_every_n_steps": 3},
              "logging": {"every_n_steps": 4, "tensorboard": False}}  # fmt: skip
    run = lane.work(lane.make("run", values), expected=1)
    failure = run.status().failure
    assert failure.category == "divergence", failure.message
    assert failure.details["step"] == 7, failure.details
    checkpoint, _ = newest_whole(DirectoryStore(run), config_digest=run.specification().config_digest)
    assert checkpoint is not None
    assert 0 < checkpoint.manifest["step"] <= 6
    assert all(bool(torch.isfinite(value).all()) for value in checkpoint.model.values())
