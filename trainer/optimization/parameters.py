"""Parameters by group: their rates and decays, and those that are frozen until an epoch."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, model_validator

from trainwright.trainer.base.errors import ConfigurationError, near_matches
from trainwright.trainer.base.section import (
    ImpossibleError,
    LearningRate,
    NonNegativeFloat,
    Patterns,
    PositiveFloat,
    PositiveInt,
    Section,
)
from trainwright.trainer.optimization.weight_averaging import WeightObserver

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer


class GroupSection(Section):
    """Parameters with their own rate or decay. Of several groups that match a name, the first applies."""

    patterns: Patterns
    learning_rate: LearningRate | None = None
    learning_rate_factor: PositiveFloat | None = None
    """Share of optimizer.learning_rate."""
    weight_decay: NonNegativeFloat | None = None
    """Of the group's weights; norms and biases stay without decay."""

    @model_validator(mode="after")
    def _one_rate_and_something_of_its_own(self) -> Self:
        if self.learning_rate is not None and self.learning_rate_factor is not None:
            raise ValueError("give learning_rate or learning_rate_factor, not both")
        if self.learning_rate is None and self.learning_rate_factor is None and self.weight_decay is None:
            raise ValueError("a group needs learning_rate, learning_rate_factor or weight_decay of its own")
        return self


class DivisionSection(Section):
    """The rate and the decay, and how the parameters are divided among others."""

    learning_rate: LearningRate | None = None
    """null: decided by the user's optimizer; the decay too."""
    weight_decay: NonNegativeFloat | None = None
    decay_norms_and_biases: bool = False
    """Apply weight decay to one-dimensional parameters too (normalisation weights and biases)."""
    groups: list[GroupSection] = Field(default_factory=list)
    layer_decay: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    """Each layer's rate is that of the layer above it times this; the last layer's is the full rate."""
    layers: Patterns | None = None
    """The layers for layer_decay from input to output; found from the parameters' names where it is left out."""
    name: str

    def rate(self) -> tuple[str, float] | None:
        """Return the dotted key that holds the peak rate, with its value; None where only the user's code knows it."""
        return None if self.learning_rate is None else ("optimizer.learning_rate", self.learning_rate)

    @model_validator(mode="after")
    def _layers_are_for_layer_decay(self) -> Self:
        if self.layers is not None and self.layer_decay is None:
            raise ImpossibleError(
                "optimizer.layers has a meaning only with optimizer.layer_decay",
                {"optimizer.layer_decay": 0.9},
                {"optimizer.layers": None},
            )
        return self


class UnfreezeSection(Section):
    """Parameters that are trained from some epoch on."""

    after_epochs: PositiveInt
    """Epochs that are over when it happens."""
    patterns: Patterns


class FreezingSection(Section):
    """Parameters that are frozen, always or until an epoch."""

    patterns: Patterns
    unfreeze: list[UnfreezeSection] = Field(default_factory=list)


@dataclass(frozen=True)
class Setting:
    """Parameter with the settings of its update."""

    name: str
    parameter: nn.Parameter
    learning_rate: float | None
    """None where only the user's optimizer knows it; the decay too."""
    weight_decay: float | None


def settings_of(model: nn.Module, section: DivisionSection, spared: Iterable[str] = ()) -> list[Setting]:
    """Return the parameters to train in the model's order, with the rates and decays of the configuration.

    Args:
        spared: names of parameters that are frozen by now and trained later.

    Raises:
        ConfigurationError: a pattern matches no parameter.
    """
    named, later = dict(model.named_parameters()), set(spared)
    groups = _groups_by_name(section.groups, list(named))
    shares = _layer_shares(section, list(named))
    return [
        _setting(name, parameter, section, groups.get(name), shares.get(name, 1.0))
        for name, parameter in named.items()
        if parameter.requires_grad or name in later
    ]


def to_groups(settings: Sequence[Setting], **options: Any) -> list[dict[str, Any]]:
    """Return torch's parameter groups: one for each rate and decay, in order of first appearance."""
    groups: dict[tuple[float | None, float | None], dict[str, Any]] = {}
    for setting in settings:
        rate, decay = setting.learning_rate, setting.weight_decay
        known = {key: value for key, value in (("lr", rate), ("weight_decay", decay)) if value is not None}
        group = groups.setdefault((rate, decay), {"params": [], **known, **options})
        group["params"].append(setting.parameter)
    return list(groups.values())


def matching(names: Sequence[str], patterns: Iterable[str], key: str, what: str = "parameter") -> list[str]:
    """Return the names that a pattern matches: itself, a shell pattern, a module's name, or `re:` with an expression.

    Raises:
        ConfigurationError: a pattern matches nothing, or is no regular expression; names near matches.
    """
    matched: set[str] = set()
    for pattern in patterns:
        found = {name for name in names if _matches(name, pattern, key)}
        if not found:
            modules = {name.rsplit(".", depth)[0] for name in names for depth in range(name.count(".") + 1)}
            raise ConfigurationError(
                f"`{key}`: {pattern!r} matches no {what} of the model.{near_matches(pattern, sorted(modules))}",
                remedy=f"The {what}s are {_listed(names)}; correct the pattern.",
            )
        matched |= found
    return [name for name in names if name in matched]


def trained_parameters(model: nn.Module, optimizers: Iterable[Optimizer]) -> list[nn.Parameter]:
    """Return the parameters that the optimizers update: in the model's order (a norm needs one), then the rest."""
    updated = {id(p): p for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]}
    own = [updated.pop(id(parameter)) for parameter in model.parameters() if id(parameter) in updated]
    return [*own, *updated.values()]


def _setting(
    name: str, parameter: nn.Parameter, section: DivisionSection, group: GroupSection | None, share: float
) -> Setting:
    rate, decay = section.learning_rate, section.weight_decay
    if group is not None:
        rate = group.learning_rate or (rate and rate * (group.learning_rate_factor or 1.0))
        decay = decay if group.weight_decay is None else group.weight_decay
    if parameter.dim() < 2 and not section.decay_norms_and_biases and decay is not None:
        decay = 0.0
    return Setting(name, parameter, rate and rate * share, decay)


def _groups_by_name(groups: Sequence[GroupSection], names: Sequence[str]) -> dict[str, GroupSection]:
    held: dict[str, GroupSection] = {}
    for number, group in enumerate(groups):
        for name in matching(names, group.patterns, f"optimizer.groups.{number}.patterns"):
            held.setdefault(name, group)
    return held


def _layer_shares(section: DivisionSection, names: Sequence[str]) -> dict[str, float]:
    """Return each parameter's share of the rate by its layer: decay ** (layers above it).

    Layer-wise decay: Clark et al. 2020 (ELECTRA, arXiv:2003.10555); discriminative rates: Howard and Ruder 2018
    (ULMFiT, arXiv:1801.06146).
    """
    if section.layer_decay is None:
        return {}
    if section.layers is None:
        layers = _layers_by_name(names)
    else:
        layers = [matching(names, [pattern], "optimizer.layers") for pattern in section.layers]
    top = len(layers) - 1
    return {name: section.layer_decay ** (top - depth) for depth, layer in enumerate(layers) for name in layer}


def _layers_by_name(names: Sequence[str]) -> list[list[str]]:
    """Return the layers from input to output: runs of parameters that share a name up to its first number.

    Without a number (`bert.embeddings.words.weight`) they share all but the last two parts (`bert.embeddings`).
    """
    layers: list[tuple[str, list[str]]] = []
    for name in names:
        parts = name.split(".")
        number = next((place for place, part in enumerate(parts) if part.isdigit()), None)
        own = parts[: number + 1] if number is not None else parts[: max(len(parts) - 2, 1)]
        layer = ".".join(own)
        if not layers or layers[-1][0] != layer:
            layers.append((layer, []))
        layers[-1][1].append(name)
    return [members for _, members in layers]


def _matches(name: str, pattern: str, key: str) -> bool:
    if pattern.startswith("re:"):
        try:
            return re.search(pattern[3:], name) is not None
        except re.error as error:
            raise ConfigurationError(
                f"`{key}`: {pattern!r} is no regular expression: {error}.",
                remedy="Correct it, or use a shell pattern such as `encoder.*`.",
            ) from error
    return fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name, f"{pattern}.*")


def _listed(names: Sequence[str], limit: int = 12) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


@dataclass(frozen=True)
class Freezing(WeightObserver):
    """Freezing is a function of the epoch alone, so there is no state to lose."""

    model: nn.Module
    until: dict[str, int | None] = field(default_factory=dict)
    """Frozen parameter to the number of finished epochs from which on it is trained; None: never."""

    @classmethod
    def build(cls, model: nn.Module, section: FreezingSection | None) -> Freezing:
        """Settle the patterns.

        Raises:
            ConfigurationError: a pattern matches no parameter; unfreezing names none that is frozen.
        """
        if section is None:
            return cls(model)
        names = [name for name, _ in model.named_parameters()]
        until: dict[str, int | None] = dict.fromkeys(matching(names, section.patterns, "freezing.patterns"))
        for number, unfreeze in enumerate(section.unfreeze):
            key = f"freezing.unfreeze.{number}.patterns"
            thawed = [name for name in matching(names, unfreeze.patterns, key) if name in until]
            if not thawed:
                raise ConfigurationError(
                    f"`{key}` = {unfreeze.patterns}: none of these parameters is frozen.",
                    remedy="Unfreeze parameters that freezing.patterns names, or add the pattern there.",
                )
            for name in thawed:
                earlier = until[name]
                until[name] = unfreeze.after_epochs if earlier is None else min(earlier, unfreeze.after_epochs)
        return cls(model, until)

    @property
    def is_needed(self) -> bool:
        """Whether anything is frozen."""
        return bool(self.until)

    @property
    def thawing(self) -> list[str]:
        """Names of the parameters that are frozen at first and trained later."""
        return [name for name, epoch in self.until.items() if epoch is not None]

    def before_epoch(self, finished_epochs: int) -> None:
        """Make the frozen parameters require a gradient, or not, as the epoch has it."""
        for name, parameter in self.model.named_parameters() if self.is_needed else ():
            if name in self.until:
                epoch = self.until[name]
                parameter.requires_grad_(epoch is not None and finished_epochs >= epoch)
