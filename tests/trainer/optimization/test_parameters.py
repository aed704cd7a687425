"""Parameter groups: patterns, rates and decays of their own, layers, freezing, and what is told of a wrong pattern."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import parse_config
from trainwright.trainer.optimization.parameters import Freezing

WORK: dict[str, Any] = {"model": {"use": "mlp"}, "data": {"use": "digits"}}


class Encoder(nn.Module):
    """Named as the field names its models."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = nn.ModuleDict({"words": nn.Embedding(5, 4), "norm": nn.LayerNorm(4)})
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])})
        self.head = nn.Linear(4, 2)


def settled(model: nn.Module, **options: Any) -> dict[str, tuple[float, float]]:
    """Return (learning rate, weight decay) by parameter as the optimizer holds them."""
    names = {id(p): name for name, p in model.named_parameters()}
    section = parse_config({**WORK, "optimizer": {"learning_rate": 1.0, "weight_decay": 0.5, **options}}).optimizer
    (optimizer,) = section.for_model(model).values()
    return {
        names[id(p)]: (group["lr"], group["weight_decay"]) for group in optimizer.param_groups for p in group["params"]
    }


@pytest.mark.requirement("TRAIN-3")
@pytest.mark.parametrize("name", ["adamw", "sgd", "lion", "lamb"])
def test_norms_and_biases_do_not_decay(name: str) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    spared = {key for key, (_, decay) in settled(model, name=name).items() if decay == 0.0}
    assert spared == {"0.bias", "1.weight", "1.bias", "2.bias"}
    assert {decay for _, decay in settled(model, name=name, decay_norms_and_biases=True).values()} == {0.5}


@pytest.mark.requirement("TRAIN-3")
def test_groups_have_rates_and_decays_of_their_own_and_the_first_that_matches_holds() -> None:
    groups = [
        {"patterns": ["encoder.layer.0"], "learning_rate_factor": 0.1},
        {"patterns": ["encoder.*", "re:^embeddings\\.words"], "learning_rate": 0.3, "weight_decay": 0.25},
    ]
    found = settled(Encoder(), groups=groups)
    assert found == {
        "embeddings.words.weight": (0.3, 0.25),
        "embeddings.norm.weight": (1.0, 0.0),
        "embeddings.norm.bias": (1.0, 0.0),
        "encoder.layer.0.weight": (0.1, 0.5),
        "encoder.layer.0.bias": (0.1, 0.0),
        "encoder.layer.1.weight": (0.3, 0.25),
        "encoder.layer.1.bias": (0.3, 0.0),
        "head.weight": (1.0, 0.5),
        "head.bias": (1.0, 0.0),
    }


@pytest.mark.requirement("TRAIN-3")
def test_layer_decay_falls_from_the_output_to_the_input() -> None:
    rates = {name: rate for name, (rate, _) in settled(Encoder(), layer_decay=0.5).items()}
    assert [rates[f"{name}.weight"] for name in ("head", "encoder.layer.1", "encoder.layer.0")] == [1.0, 0.5, 0.25]
    assert rates["embeddings.words.weight"] == rates["embeddings.norm.bias"] == 0.125
    told = settled(Encoder(), layer_decay=0.5, layers=["embeddings", "encoder", "head"])
    assert told["embeddings.words.weight"][0] == 0.25
    assert told["encoder.layer.0.weight"][0] == told["encoder.layer.1.bias"][0] == 0.5
    both = settled(Encoder(), layer_decay=0.5, groups=[{"patterns": ["encoder.layer.0"], "learning_rate_factor": 0.1}])
    assert both["encoder.layer.0.weight"][0] == pytest.approx(0.025)


@pytest.mark.requirement("TRAIN-3", "CONF-1")
@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"groups": [{"patterns": ["head", "encodr.*"], "weight_decay": 0.0}]},
            "`optimizer.groups.0.patterns`: 'encodr.*' matches no parameter of the model. Near: encoder",
        ),
        (
            {"layer_decay": 0.5, "layers": ["embedding"]},
            "`optimizer.layers`: 'embedding' matches no parameter of the model. Near: embeddings",
        ),
        ({"groups": [{"patterns": ["re:("], "weight_decay": 0.0}]}, "no regular expression"),
    ],
)
def test_a_pattern_that_matches_nothing_is_told_with_near_names(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        settled(Encoder(), **options)
    assert told in caught.value.message


def freezing_of(model: nn.Module, epochs: int = 9, **options: Any) -> Freezing:
    config = parse_config({**WORK, "freezing": options, "training": {"epochs": epochs}})
    return Freezing.build(model, config.freezing)


@pytest.mark.requirement("TRAIN-3")
def test_freezing_and_unfreezing_follow_the_epochs() -> None:
    model = Encoder()
    unfreeze = [{"after_epochs": 2, "patterns": ["encoder.layer.1"]}, {"after_epochs": 4, "patterns": ["encoder"]}]
    freezing = freezing_of(model, patterns=["encoder", "embeddings"], unfreeze=unfreeze)
    trained = {}
    for epoch in (0, 1, 2, 3, 4, 8, 1):  # and back, as after a resume
        freezing.before_epoch(epoch)
        trained[epoch] = {name.rpartition(".")[0] for name, p in model.named_parameters() if p.requires_grad}
    assert trained[1] == {"head"}
    assert trained[2] == trained[3] == {"head", "encoder.layer.1"}
    assert trained[4] == trained[8] == {"head", "encoder.layer.0", "encoder.layer.1"}
    freezing.before_epoch(0)
    section = parse_config(WORK).optimizer
    (optimizer,) = section.for_model(model, thawing=freezing.thawing).values()
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert {name.split(".")[0] for name, p in model.named_parameters() if id(p) in held} == {"encoder", "head"}


@pytest.mark.requirement("CONF-1", "TRAIN-3")
def test_freezing_tells_what_cannot_happen() -> None:
    with pytest.raises(ConfigurationError, match="'hed' matches no parameter of the model. Near: head"):
        freezing_of(Encoder(), patterns=["hed"])
    with pytest.raises(ConfigurationError, match="none of these parameters is frozen"):
        freezing_of(Encoder(), patterns=["head"], unfreeze=[{"after_epochs": 1, "patterns": ["encoder"]}])
    with pytest.raises(ConfigurationError, match="after_epochs 9 never comes: training.epochs is 9"):
        freezing_of(Encoder(), patterns=["head"], unfreeze=[{"after_epochs": 9, "patterns": ["head"]}])


@pytest.mark.requirement("TRAIN-3")
def test_frozen_weights_stay_and_move_from_their_epoch_on(
    iris: dict[str, Any], open_session: Any, take_steps: Any
) -> None:
    freezing = {"patterns": ["layers.1"], "unfreeze": [{"after_epochs": 1, "patterns": ["layers.1.weight"]}]}
    session = open_session({**iris, "freezing": freezing})
    start = {name: p.detach().clone() for name, p in session.model.named_parameters()}

    def moved() -> set[str]:
        return {name for name, p in session.model.named_parameters() if not torch.equal(p, start[name])}

    take_steps(session, 99)
    assert moved() == start.keys() - {"layers.1.weight", "layers.1.bias"}
    session.progress.epoch, session.progress.batch = 1, 0
    for observer in session.weight_observers:
        observer.before_epoch(1)
    take_steps(session, 2)
    assert moved() == start.keys() - {"layers.1.bias"}


@pytest.mark.requirement("TRAIN-3")
def test_a_tasks_own_groups_and_the_configurations_do_not_mix() -> None:
    model = Encoder()
    section = parse_config({**WORK, "optimizer": {"layer_decay": 0.5}}).optimizer
    with pytest.raises(ConfigurationError, match="divides the parameters too"):
        section.for_model(model, [{"params": list(model.parameters())}])
    groups = [{"params": list(model.head.parameters()), "lr": 0.7}]
    (optimizer,) = parse_config(WORK).optimizer.for_model(model, groups).values()
    assert [group["lr"] for group in optimizer.param_groups] == [0.7]
