"""No built-in part uses an operation that CUDA refuses under the deterministic default, nor mixes devices.

Each is trained, validated and watched on a pretended card (card/pretended.py): real values, on the CPU, and the engine
takes the branches of a card. What torch refuses on a card is data: card/cuda_operations.yaml.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from tests.trainer.reproducibility.card import configurations, guard
from tests.trainer.reproducibility.card.configurations import missing_library
from tests.variants import variants

from trainwright.trainer.base.failures import refusal
from trainwright.trainer.checkpoints.store import DirectoryStore, newest_whole
from trainwright.trainer.config import config_digest, parse_config
from trainwright.trainer.run import RunDirectory, RunKind, RunState

pytestmark = [pytest.mark.slow, pytest.mark.requirement("REPRO-2")]
REPOSITORY = Path(__file__).parents[3]
PARTS = configurations.every()
OFTEN = ["model gpt", "optimizer muon", "precision fp16"]
"""Parts that every suite runs, of unlike operations; the others are among the long tests."""

LIST = yaml.safe_load(guard.LIST.read_text(encoding="utf-8"))


class OnCard:
    """A process with the card, which works on one piece after the other; a run that was made is not made again."""

    def __init__(self, folder: Path, library: Path, make_run: Any) -> None:
        self.folder, self.make_run, self.made = folder, make_run, {}
        self.calls: dict[str, Any] = {}
        paths = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "src")])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.trainer.reproducibility.card.runs", str(library)],
            cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": paths},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def do(self, **piece: Any) -> None:
        """Have a piece done, and wait."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(piece) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def run(self, part: str) -> RunDirectory:
        """Return the run of a part."""
        root = self.folder / f"root-{len(list(self.folder.iterdir()))}"
        root.mkdir()
        configurations.write_files(root)
        values = configurations.values_of(part, root)
        kind = RunKind(PARTS[part].get("kind", "trial"))
        key = (kind, config_digest(parse_config(values)))
        if key not in self.made:
            self.made[key] = self.make_run(root / "run", values, code_root=str(root), kind=kind)
            self.do(run=str(self.made[key].path))
        found: RunDirectory = self.made[key]
        return found

    def said(self, name: str) -> str | None:
        """Return the error of a call, None where it ran."""
        if not self.calls:
            answers = self.folder / "calls.json"
            self.do(calls={name: call.text for name, call in CALLS.items()}, to=str(answers))
            self.calls = json.loads(answers.read_text())
        return self.calls[name]["error"]  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def on_card(tmp_path_factory: pytest.TempPathFactory, make_run: Any) -> Iterator[OnCard]:
    """The card's process."""
    if torch.version.cuda is not None or shutil.which("g++") is None:
        pytest.skip("a card is pretended in torch's build for the CPU, and needs g++")
    card = OnCard(tmp_path_factory.mktemp("card"), guard.compiled(tmp_path_factory.mktemp("guard")), make_run)
    with card.process:  # which closes what it reads from, and waits
        yield card


@pytest.mark.parametrize("part", variants(PARTS, quick=OFTEN))
def test_a_part_trains_on_a_card_and_nothing_of_it_is_refused(part: str, on_card: OnCard) -> None:
    if (library := missing_library(part)) is not None:
        pytest.skip(f"needs {library}")
    run = on_card.run(part)
    assert run.status().state is RunState.COMPLETED, f"{run.status().failure}\n{run.log.read_text()[-3000:]}"
    found = json.loads((run.path / "card.json").read_text())
    assert found["refused"] == {}
    assert len(found["operations"]) > 20, "forward, backward and update were made on the card"
    failed = [event.model_dump()["text"] for event in run.events("unjudged") if "it failed at" in str(event)]
    assert not failed, "an inspector that fails is left out of the run"


OWN = """
import torch
from torch import nn
from torch.nn.functional import cross_entropy

def data(rows=40):
    return torch.utils.data.TensorDataset(torch.randn(rows, 6), torch.arange(rows) % 3)

def build(config, context):
    return {"model": nn.Linear(6, 3), "train": data(), "validation": data(16), "step": step}

def step(model, batch, context):
"""
OF_TASK: dict[str, Any] = {
    "task": {"use": "own.py:build"}, "loader": {"batch_size": 8}, "training": {"epochs": 2, "device": "cuda"},
    "logging": {"tensorboard": False},
}  # fmt: skip


def _own(on_card: OnCard, name: str, step: str, **values: Any) -> RunDirectory:
    """Work on a run of the user's own step on the card."""
    root = on_card.folder / name
    root.mkdir()
    (root / "own.py").write_text(OWN + step)
    run: RunDirectory = on_card.make_run(root / "run", {**OF_TASK, **values}, code_root=str(root))
    on_card.do(run=str(run.path))
    return run


DIVERGING = """
    assert torch.isfinite(model.weight.detach().cpu()).all(), "a weight was changed"
    loss = cross_entropy(model(batch[0]), batch[1])
    return {"loss": loss * (float("nan") if context.training and context.step == 6 else 1.0)}
"""


@pytest.mark.requirement("DIAG-1")
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_on_a_card_a_step_that_is_not_finite_changes_no_weight(precision: str, on_card: OnCard) -> None:
    run = _own(on_card, f"diverging-{precision}", DIVERGING, training={**OF_TASK["training"], "precision": precision})
    failure = run.status().failure
    assert failure is not None, run.log.read_text()[-3000:]
    assert (failure.category, failure.details["step"]) == ("divergence", 7), failure.message
    loaded, _ = newest_whole(DirectoryStore(run), config_digest=run.specification().config_digest)
    assert loaded is not None
    assert loaded.manifest["step"] <= 6
    assert all(bool(torch.isfinite(value).all()) for value in loaded.model.values())


ON_THE_CPU = """
    loss = cross_entropy(model(batch[0]).cpu(), batch[1].cpu())
    return {"loss": loss, "of_cpu": loss.detach() * 2, "of_card": batch[0].sum()}
"""


def test_on_a_card_a_loss_that_is_computed_on_the_cpu_trains_and_is_recorded(on_card: OnCard) -> None:
    run = _own(on_card, "loss-of-the-cpu", ON_THE_CPU)
    assert run.status().state is RunState.COMPLETED, run.log.read_text()[-3000:]
    read = {name: [point.value for point in run.metrics().series(f"train/{name}")] for name in ("loss", "of_cpu")}
    assert len(read["loss"]) == 10
    assert read["of_cpu"] == pytest.approx([2 * value for value in read["loss"]])


DRAWING = """
    drawn = torch.rand((), device=batch[0].device)
    loss = cross_entropy(model(batch[0]), batch[1])
    return {"loss": loss if context.training else drawn + 0 * loss, "drawn": drawn}
"""


def test_on_a_card_validation_draws_the_same_each_time_and_training_goes_on_drawing(on_card: OnCard) -> None:
    often, once = (
        _own(on_card, f"drawing-{n}", DRAWING, training={"epochs": 3, "device": "cuda", "validate_every_n_epochs": n})
        for n in (1, 3)
    )
    validated = [point.value for point in often.metrics().series("validation/loss")]
    assert len(validated) == 3, often.log.read_text()[-3000:]
    assert len(set(validated)) == 1
    drawn, again = ([point.value for point in run.metrics().series("train/drawn")] for run in (often, once))
    assert len(set(drawn)) == 15
    assert drawn == again, "validation moved what training draws from"


@dataclass(frozen=True)
class Call:
    """A piece of Python on the card."""

    text: str
    alert: str | None = None
    """Torch's name for the operation that is refused; None: it runs, and its own assertions hold."""


EQUAL = "assert torch.equal(route.cpu(), wanted.cpu()); route.sum().backward()"
NEAR = "torch.testing.assert_close(route.cpu(), wanted.cpu()); route.sum().backward()"
ROUTES = {
    "put_": "x = x1.detach().clone(); x.view(-1).index_put_((x1[0, 0].argsort(),), x1[0, 0].detach(), accumulate=True)",
    "upsample_linear1d": "wanted = F.interpolate(x1, 12, mode='linear'); "
    "route = F.interpolate(x1.unsqueeze(2), size=(1, 12), mode='bilinear').squeeze(2); " + NEAR,
    "upsample_bilinear2d_aa": "F.interpolate(x2, 6, mode='bilinear').sum().backward()",
    "upsample_bicubic2d": "F.interpolate(x2, 12, mode='nearest').sum().backward()",
    "upsample_trilinear3d": "F.interpolate(x3, 12, mode='trilinear').sum().backward()",
    "adaptive_avg_pool2d": "wanted = F.adaptive_avg_pool2d(x2, 1); route = x2.mean((2, 3), keepdim=True); " + EQUAL,
    "adaptive_avg_pool2d to fixed windows": "wanted = F.adaptive_avg_pool2d(x2, 4); route = F.avg_pool2d(x2, 2); "
    + NEAR,
    "adaptive_avg_pool3d": "wanted = F.adaptive_avg_pool3d(x3, 1); route = x3.mean((2, 3, 4), keepdim=True); " + EQUAL,
    "avg_pool3d": "wanted = F.avg_pool3d(x3, 2); flat = F.avg_pool2d(x3.flatten(1, 2), 2).unflatten(1, (3, 8)); "
    "route = F.avg_pool2d(flat.flatten(3), (2, 1)).unflatten(3, (4, 4)); " + NEAR,
    "adaptive_max_pool2d": "wanted = F.adaptive_max_pool2d(x2, 1); route = x2.amax((2, 3), keepdim=True); " + EQUAL,
    "max_pool3d": "wanted = F.max_pool3d(x3, 2); flat = F.max_pool2d(x3.flatten(1, 2), 2).unflatten(1, (3, 8)); "
    "route = F.max_pool2d(flat.flatten(3), (2, 1)).unflatten(3, (4, 4)); " + EQUAL,
    "reflection_pad1d": "places = torch.tensor([1, *range(8), 6], device=x1.device); "
    "wanted = F.pad(x1, [1, 1], mode='reflect'); route = x1[..., places]; " + EQUAL,
    "replication_pad2d": "F.pad(x2, [1] * 4, mode='replicate').sum().backward()",
    "nll_loss": "target = x2.argmax(1); wanted = F.cross_entropy(x2.cpu(), target.cpu()); "
    "route = F.cross_entropy(x2, target, reduction='none').sum() / (target != -100).sum(); " + NEAR,
    "nll_loss, flattened": "target = x2.argmax(1); wanted = F.cross_entropy(x2.cpu(), target.cpu()); "
    "route = F.cross_entropy(x2.movedim(1, -1).flatten(0, 2), target.flatten()); " + NEAR,
    "ctc_loss": "F.ctc_loss(x1.log_softmax(2).cpu(), torch.ones(3, 1, dtype=torch.long), [2] * 3, [1] * 3).backward()",
    "cumsum": "wanted = x1.detach().cpu().cumsum(2); route = x1 @ torch.ones(8, 8, device=x1.device).triu(); " + NEAR,
    "histc": "x = x1.detach(); edges = torch.linspace(float(x.min()), float(x.max()), 101, device=x.device); "
    "assert torch.bincount(torch.bucketize(x.flatten(), edges)).sum() == x.numel()",
    "bincount": "places, weights = x1[0, 0].argsort(), x1[0, 0].detach(); "
    "wanted = torch.bincount(places.cpu(), weights.cpu()); "
    "assert torch.equal(torch.zeros(8, device=x1.device).index_add_(0, places, weights).cpu(), wanted)",
    "median": "wanted = x1.detach().cpu().median(2).values; route = x1.sort(2).values[..., 3]; " + EQUAL,
    "kthvalue": "wanted = x1.detach().cpu().kthvalue(2, 2).values; route = x1.sort(2).values[..., 1]; " + EQUAL,
    "embedding_bag": "F.embedding(x1.argmax(2), x2[0, 0]).amax(1).sum().backward()",
    "index_reduce": "x1.scatter_reduce(2, x1.argsort(2), x1, 'amax').sum().backward()",
    "scatter": "x1.detach().clone().scatter_add_(2, x1.argsort(2), x1.detach())",
}
"""What the remedies of trainer/base/failures.py say, by the part of the name that they are chosen by."""
RULES = {
    "losses of the CPU and in bfloat16 are noted": (
        "noted = NonFinite(x1.device); noted.note(x1.sum().detach().cpu(), x1.sum().detach().bfloat16()); "
        "assert noted.found.item() == 0; noted.note(x1.sum().detach().cpu() / 0); assert noted.found.item() == 1",
        None,
    ),
    "quick reading puts the card's generator back": (
        "with seeding.quickly_preserved(): first = torch.rand(8, device='cuda').cpu()\n"
        "assert torch.equal(torch.rand(8, device='cuda').cpu(), first)",
        None,
    ),
    "a number of the CPU checked by the card": (
        "torch._amp_foreach_non_finite_check_and_unscale_([torch.ones(())], x1.detach().sum(), x1.detach().sum())",
        "Expected all tensors to be on the same",
    ),
    "tensors of two devices": ("x1 + torch.ones(8)", "Expected all tensors to be on the same device"),
    "a number of the CPU": ("x1 + torch.ones(())", None),
    "one of them in a list": ("torch.stack([x1.sum(), torch.ones(())])", "Expected all tensors to be on the same"),
    "a number of the CPU that is added to": ("torch.zeros(()).add_(x1.detach().sum())", "Expected all tensors to be"),
    "indices of the CPU": ("x1[torch.tensor([0])]", None),
    "indices of the card": ("torch.ones(3)[x1[0, 0, :1].long()]", "Expected all tensors to be on the same device"),
    "a generator of the CPU": ("torch.rand(2, device='cuda', generator=torch.Generator())", "Expected a 'cuda' device"),
    "numbers on the card read by numpy": ("x1.detach().numpy()", "can't convert cuda:0 device type tensor to numpy"),
    "each pixel's cross entropy": ("F.cross_entropy(x2, x2.argmax(1), reduction='none').sum().backward()", None),
    "bilinear interpolation": ("F.interpolate(x2, 12, mode='bilinear').sum().backward()", None),
}
CALLS = {
    **{f"planted {entry['alert']}": Call(entry["planted"], entry["alert"]) for entry in LIST["refused"]},
    **{f"route {name}": Call(text) for name, text in ROUTES.items()},
    **{f"rule {name}": Call(text) for name, (text, _) in RULES.items()},
}


@pytest.mark.parametrize("alert", [entry["alert"] for entry in LIST["refused"]])
def test_a_planted_operation_is_found_by_torchs_name_with_a_route_around_it(alert: str, on_card: OnCard) -> None:
    said = on_card.said(f"planted {alert}")
    assert said is not None
    found = refusal(RuntimeError(said))
    assert found is not None, said
    assert found.details["operation"] == alert
    assert "basic operations" not in found.remedy


@pytest.mark.parametrize("name", ROUTES)
def test_a_route_of_a_remedy_runs_on_the_card_and_gives_the_same(name: str, on_card: OnCard) -> None:
    assert on_card.said(f"route {name}") is None


@pytest.mark.parametrize("name", RULES)
def test_the_pretended_card_is_as_strict_as_a_card(name: str, on_card: OnCard) -> None:
    said, wanted = on_card.said(f"rule {name}"), RULES[name][1]
    assert said is None if wanted is None else wanted in (said or "")


def test_the_list_has_every_operation_that_the_installed_torch_documents() -> None:
    """A newer torch that documents more fails here: it belongs into the list, with the version."""
    text = torch.use_deterministic_algorithms.__doc__ or ""
    text = text[text.index("operations will throw a") : text.index("In addition")]
    documented = {name.rpartition(".")[2] for name in re.findall(r":(?:class|func):`([\w.]+)`", text)} - {
        "RuntimeError"
    }
    assert len(documented) > 20
    listed = {name for entry in LIST["refused"] for name in entry.get("documented", [])} | set(LIST["elsewhere"])
    assert documented <= listed
