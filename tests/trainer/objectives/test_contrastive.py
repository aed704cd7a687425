"""Features without labels: the loss, the views, what a linear probe finds, and that all of it resumes exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import parse_config
from trainwright.trainer.objectives.batches import Augmentation
from trainwright.trainer.objectives.contrastive import nt_xent
from trainwright.trainer.objectives.sections import AugmentationSection

pytestmark = pytest.mark.slow

IMAGES: dict[str, Any] = {
    "model": {"use": "cnn", "args": {"channels": [16, 32]}},
    "data": {"use": "digits"},
    "loader": {"batch_size": 128},
    "optimizer": {"learning_rate": 0.01},
    "training": {"epochs": 5},
    "objective": {"name": "contrastive", "outputs": 32, "augmentation": {"rotate_degrees": 10}},
}
ROWS: dict[str, Any] = {
    **IMAGES,
    "model": {"use": "mlp", "args": {"hidden": [32]}},
    "data": {"use": "breast_cancer"},
    "optimizer": {"learning_rate": 3e-3},
    "training": {"epochs": 30},
    "objective": {"name": "contrastive", "outputs": 4},
}


@pytest.mark.long
@pytest.mark.requirement("TRAIN-5")
@pytest.mark.parametrize(("values", "margin"), [(IMAGES, 0.03), (ROWS, 0.06)], ids=["images", "table rows"])
def test_a_linear_probe_reads_more_from_learned_features_than_from_random_ones(
    values: dict[str, Any], margin: float, open_session: Any, trained: Any, judge: Any
) -> None:
    """Measured over 3 seeds: digits 0.93 to 0.96 against 0.86 to 0.90 of the same network untrained; breast_cancer 0.96
    to 0.98 against 0.80 to 0.85."""
    gains = []
    for seed in (0, 1, 2):
        session = open_session({**values, "seed": seed})
        before = judge(session)
        after = judge(trained(session))
        assert after["loss"] < before["loss"]
        gains.append(after["linear_probe_accuracy"] - before["linear_probe_accuracy"])
    assert sum(gains) / 3 > margin, gains
    assert min(gains) > 0, gains


@pytest.mark.requirement("TRAIN-5")
def test_the_loss_is_the_papers() -> None:
    torch.manual_seed(0)
    z, size, temperature = torch.randn(6, 4), 3, 0.5
    u = z / z.norm(dim=1, keepdim=True)
    total = 0.0
    for i in range(6):
        j = (i + size) % 6
        others = [torch.exp(u[i] @ u[k] / temperature) for k in range(6) if k != i]
        total += -torch.log(torch.exp(u[i] @ u[j] / temperature) / sum(others)).item()
    assert nt_xent(z, temperature)[0].item() == pytest.approx(total / 6, abs=1e-5)
    same = torch.eye(3, 4).repeat(2, 1)
    assert nt_xent(same, temperature)[1] == 1.0


@pytest.mark.requirement("TRAIN-5")
def test_views_of_rows_take_values_from_their_own_column() -> None:
    x = torch.arange(5.0).repeat(64, 1) * 10 + torch.rand(64, 5)
    view = Augmentation(AugmentationSection(noise=0.0, swap=0.5), images=False)(x)
    assert all(bool(torch.isin(view[:, column], x[:, column]).all()) for column in range(5))
    changed = (view != x).float().mean()
    assert 0.3 < changed < 0.7


@pytest.mark.requirement("TRAIN-5")
def test_views_of_images_differ_from_each_other_and_without_any_change_are_the_image() -> None:
    x = torch.rand(8, 3, 10, 12)
    views = Augmentation(AugmentationSection(rotate_degrees=20, flip=0.5), images=True)
    assert views(x).shape == x.shape
    assert not torch.equal(views(x), views(x))
    still = Augmentation(AugmentationSection(noise=0.0, crop=1.0, jitter=0.0), images=True)
    assert torch.equal(still(x), x)
    mirrored = Augmentation(AugmentationSection(noise=0.0, crop=1.0, jitter=0.0, flip=1.0), images=True)
    assert torch.allclose(mirrored(x), x.flip(3), atol=1e-5)


@pytest.mark.requirement("TRAIN-5", "REPRO-6")
def test_the_number_of_loader_workers_changes_nothing(open_session: Any, take_steps: Any, root: Path) -> None:
    (root / "listed.py").write_text(
        "import torch\n"
        "class Noisy(torch.utils.data.Dataset):\n"
        "    def __init__(self):\n        self.x = torch.rand(60, 6, generator=torch.Generator().manual_seed(0))\n"
        "    def __len__(self):\n        return 60\n"
        "    def __getitem__(self, index):\n"
        "        return self.x[index] + 0.1 * torch.randn(6), int(self.x[index, 0] > 0.5)\n"
        "def net():\n    return torch.nn.Linear(6, 8)\n"
    )
    values = {**ROWS, "model": {"use": "listed:net"}, "data": {"use": "listed:Noisy"}}
    ends = []
    for workers in (0, 2):
        session = open_session({**values, "loader": {"batch_size": 10, "num_workers": workers}})
        take_steps(session, 4)
        ends.append(session.model.weight.detach().clone())
    assert torch.equal(*ends)


@pytest.mark.requirement("TRAIN-5")
def test_without_labels_there_is_a_loss_and_no_probe(
    open_session: Any, take_steps: Any, judge: Any, root: Path
) -> None:
    (root / "unlabelled.py").write_text(
        "import torch\n"
        "def data():\n    return [torch.rand(6) for _ in range(80)]\n"
        "def net():\n    return torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.ReLU(), torch.nn.Linear(12, 3))\n"
    )
    objective = {"name": "contrastive", "features": "1"}
    values = {**ROWS, "model": {"use": "unlabelled:net"}, "data": {"use": "unlabelled:data"}, "objective": objective}
    session = open_session(values)
    take_steps(session, 1)
    assert judge(session).keys() == {"loss"}
    assert session.auxiliary.modules["head"][0].in_features == 12, "the named module's width"


@pytest.mark.requirement("TRAIN-5")
def test_the_probe_can_choose_the_run_and_measures_the_same_each_time(open_session: Any, judge: Any) -> None:
    session = open_session({**ROWS, "selection": {"metric": "linear_probe_accuracy", "direction": "maximize"}})
    assert judge(session) == judge(session)


REFUSED: dict[str, dict[str, Any]] = {
    "leave `metrics` out": {"metrics": ["accuracy"]},
    "did you mean `objective.augmentation.flip`": {"objective": {"name": "contrastive", "augmentation": {"flipp": 1}}},
    "`objective.projection` = \\[\\]": {"objective": {"name": "contrastive", "projection": []}},
}


@pytest.mark.requirement("CONF-1")
@pytest.mark.parametrize("told", REFUSED)
def test_an_impossible_configuration_is_refused_at_once(told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        parse_config({**ROWS, **REFUSED[told]})


UNFIT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "`objective.augmentation.crop` is for images": (ROWS, {"augmentation": {"crop": 0.5}}),
    "`objective.augmentation.swap` is for flat inputs": (IMAGES, {"augmentation": {"swap": 0.5}}),
    "`objective.features` = 'layer.1'": (ROWS, {"features": "layer.1"}),
}


@pytest.mark.requirement("TRAIN-5")
@pytest.mark.parametrize("told", UNFIT)
def test_what_does_not_fit_data_or_model_is_told_before_training(told: str, open_session: Any) -> None:
    values, changes = UNFIT[told]
    with pytest.raises(ConfigurationError, match=told):
        open_session({**values, "objective": {"name": "contrastive", **changes}})
