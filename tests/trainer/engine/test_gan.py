"""A GAN through `train_step`: two optimizers, exact after a kill, and samples that are like digits."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression

from trainwright.trainer.checkpoints.store import DirectoryStore
from trainwright.trainer.run import RunDirectory

pytestmark = [pytest.mark.slow, pytest.mark.requirement("TRAIN-5")]

PROJECTS = Path(__file__).parent.parent / "projects"
GAN: dict[str, Any] = {
    "task": {"use": "gan.py:build"},
    "training": {"epochs": 40},
    "weight_averaging": {"name": "ema", "decay": 0.98},
    "early_stopping": {"enabled": False},
    "checkpoints": {"checkpoint_every_n_epochs": 40},
    "logging": {"tensorboard": False},
}


def project() -> Any:
    """The user's own module."""
    spec = importlib.util.spec_from_file_location("gan", PROJECTS / "gan.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, make_run: Any, work: Any) -> RunDirectory:
    run: RunDirectory = make_run(tmp_path_factory.mktemp("gan") / "whole", GAN, code_root=str(PROJECTS))
    assert work(run) == 0, run.log.read_text()
    return run


def samples(run: RunDirectory | None, number: int = 1000) -> Any:
    """Return what the run's generator makes (of the weights that were judged), or an untrained one."""
    torch.manual_seed(0)
    module = project()
    model = module.networks()
    if run is not None:
        model.load_state_dict(DirectoryStore(run).open(DirectoryStore(run).names()[-1]).model)
    model.eval()
    with torch.no_grad():
        return model["generator"](torch.randn(number, module.NOISE)).numpy()


def frechet_distance(one: Any, other: Any) -> float:
    """Distance of two normal distributions with the samples' moments (Dowson and Landau 1982; Heusel et al. 2017)."""
    first, second = np.cov(one, rowvar=False), np.cov(other, rowvar=False)
    between = np.real(sqrtm(first @ second))
    return float(((one.mean(0) - other.mean(0)) ** 2).sum() + np.trace(first + second - 2 * between))


@pytest.mark.long
def test_samples_are_closer_to_digits_than_those_of_an_untrained_generator(whole: RunDirectory) -> None:
    """Fréchet distance on 20 principal components of real images, and what a classifier of real digits sees.

    Measured: 1.0 (untrained generator 5.6, uniform noise 2.8, the other half of the real images 0.04); all ten digits
    are made, the rarest by 4.5 % of the samples.
    """
    bunch = load_digits()
    real = bunch.data / 16.0
    features = PCA(20, random_state=0).fit(real)
    half = features.transform(real[::2])
    noise = np.random.default_rng(0).random((1000, 64))
    distances = {
        name: frechet_distance(features.transform(made), half)
        for name, made in (
            ("real", real[1::2]), ("trained", samples(whole)), ("untrained", samples(None)), ("noise", noise)
        )
    }  # fmt: skip
    assert distances["real"] < distances["trained"] < 0.6 * distances["noise"]
    assert distances["trained"] < 0.3 * distances["untrained"]
    classes = LogisticRegression(max_iter=300).fit(real, bunch.target).predict(samples(whole))
    assert (np.bincount(classes, minlength=10) >= 10).sum() >= 8, "not one digit again and again"


@pytest.mark.requirement("REPRO-6")
def test_a_halted_gan_ends_with_the_same_bits(tmp_path: Path, assert_halted_ends_the_same: Any) -> None:
    (tmp_path / "gan.py").write_text((PROJECTS / "gan.py").read_text())
    values = {**GAN, "training": {"epochs": 3}, "checkpoints": {}}
    assert_halted_ends_the_same(values, 22 + 10, "train/told_apart", "train/fooled")
