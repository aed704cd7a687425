"""Episodes that a worker plays with the model: on the same seeds in every epoch, without a trace in training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.worlds.pole import CODE, CONFIG

from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import ConfigurationError, UserCodeError
from trainwright.trainer.clean_room.episodes import seeds_of
from trainwright.trainer.engine.evaluation import evaluate_split
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.artifacts import Program
from trainwright.trainer.run.evidence import Summary

pytestmark = pytest.mark.requirement("GATE-6")
SELECTED = {"selection": {"metric": "balanced", "direction": "maximize"}, "code_root": "."}


def config(**changes: Any) -> dict[str, Any]:
    return {**CONFIG, **SELECTED, "evaluation_gate": None, **changes}


def test_a_model_is_selected_by_what_it_does_in_episodes(tmp_path: Path, open_session: Callable[..., Any]) -> None:
    (tmp_path / "pole.py").write_text(CODE)
    session = open_session(config())
    balanced = session.work.metrics[1].compute

    def program(cells: Any) -> Any:
        with torch.no_grad():
            return session.model(torch.as_tensor(np.asarray(cells, dtype=np.float32))).numpy()

    expected = np.mean([balanced(program, seed) for seed in seeds_of(session.seed, 60)])
    before = seeding.capture()
    values = evaluate_split(session, session.validation_loader)
    assert values["balanced"] == expected
    assert values.keys() == {"loss", "accuracy", "balanced"}
    assert torch.equal(before["torch"], seeding.capture()["torch"])
    assert evaluate_split(session, session.validation_loader) == values
    assert session.model.training


def test_a_function_that_takes_no_program_and_seed_is_refused_with_its_parameters(
    tmp_path: Path, open_session: Callable[..., Any]
) -> None:
    (tmp_path / "pole.py").write_text(CODE + "\n\ndef other(outputs):\n    return 1.0\n")
    metrics = ["accuracy", {"use": "pole.py:other", "episodes": 5}]
    with pytest.raises(ConfigurationError, match=r"called as \(program, seed\), and its parameters are \(outputs\)"):
        open_session(config(metrics=metrics, selection={"metric": "accuracy", "direction": "maximize"}))


def test_an_episode_without_a_number_is_the_users_error(tmp_path: Path, open_session: Callable[..., Any]) -> None:
    (tmp_path / "pole.py").write_text(CODE + "\n\ndef idle(program, seed):\n    return 1.0\n")
    metrics = [{"use": "pole.py:idle", "episodes": 5}]
    session = open_session(config(metrics=metrics, selection={"metric": "idle", "direction": "maximize"}))
    with pytest.raises(UserCodeError, match="Metric idle: it never calls the program") as caught:
        evaluate_split(session, session.validation_loader)
    assert "program(inputs)" in caught.value.remedy


MAKER = '''\
import torch


def build(config, context):
    """A generator: noise in, samples out, whose moments are to be those of the data."""
    wanted = 3.0 + 0.5 * torch.randn(200, 2, generator=torch.Generator().manual_seed(0))

    def step(model, batch, context):
        (real,) = batch
        made = model(torch.randn(real.shape))
        means, spreads = made.mean(0) - real.mean(0), made.var(0, correction=0) - real.var(0, correction=0)
        return {"loss": (means**2 + spreads**2).sum()}

    rows = torch.utils.data.TensorDataset
    return {"model": torch.nn.Linear(2, 2), "train": rows(wanted[:150]), "validation": rows(wanted[150:]), "step": step}


def off(program, seed):
    """How far the samples that are drawn with a seed lie from where the data do."""
    noise = torch.randn(64, 2, generator=torch.Generator().manual_seed(seed)).numpy()
    return abs(program(noise) - 3.0).mean()
'''


def test_a_generator_is_selected_by_samples_that_it_draws(
    tmp_path: Path, open_session: Callable[..., Any], take_steps: Callable[..., Any]
) -> None:
    (tmp_path / "maker.py").write_text(MAKER)
    session = open_session({
        "task": {"use": "maker.py:build"},
        "metrics": [{"use": "maker.py:off", "episodes": 10}],
        "selection": {"metric": "off", "direction": "minimize"},
        "loader": {"batch_size": 5},
        "optimizer": {"learning_rate": 0.3},
    })  # fmt: skip
    before = evaluate_split(session, session.validation_loader)
    take_steps(session, 30)
    after = evaluate_split(session, session.validation_loader)
    assert after["off"] < before["off"] / 2


PLAYER = (
    CODE
    + '''

def build(config, context):
    """A policy by the rewards of its own draws (Williams 1992): rows are states to begin with."""
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

    def chosen(model, batch):
        (cells,) = batch
        draws = torch.distributions.Categorical(logits=model(cells))
        pushes = draws.sample()
        rewards = (pushes == (cells[:, 2] + 0.5 * cells[:, 3] + 0.1 * cells[:, 1] > 0)).float()
        return -(draws.log_prob(pushes) * (rewards - 0.5)).mean()

    def train_step(model, batch, context):
        loss = chosen(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return {"loss": loss.detach()}

    ends = {"train": (0, 300), "validation": (300, 350), "test": (350, 400)}
    rows = {name: torch.utils.data.TensorDataset(states().tensors[0][slice(*at)]) for name, at in ends.items()}
    steps = {"train_step": train_step, "validation_step": lambda model, batch, context: {"loss": chosen(model, batch)}}
    return {"model": model, **rows, "optimizers": optimizer, **steps}
'''
)


@pytest.mark.slow
def test_a_policy_of_own_updates_exports_the_program_that_its_episodes_are_played_with(
    tmp_path: Path, make_run: Any, work: Any
) -> None:
    (tmp_path / "pole.py").write_text(PLAYER)
    metrics = [{"use": "pole.py:balanced", "episodes": 5}]
    rest = {"training": {"epochs": 3}, "logging": {"tensorboard": False}}
    values = {"task": {"use": "pole.py:build"}, "metrics": metrics, "selection": SELECTED["selection"], **rest}
    run = make_run(
        tmp_path / "baseline-1", values, kind=RunKind.BASELINE, code_root=str(tmp_path), exports_program=True
    )
    assert work(run) == 0, run.log.read_text()
    program = run.part(Program)
    assert (program.problem, program.path) == (None, "model/model.onnx")
    assert run.part(Summary).best_metrics["balanced"] > 50
