"""Base classes of the optimizers: their options with the papers' defaults, and how they are built for a model.

An optimizer is one section: its options are fields, its abilities are class attributes, `build` makes it. Torch and
the packages are imported inside `build`, for the server reads configurations too.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from trainwright.trainer.base import releases
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.section import LearningRate, NonNegativeFloat, Probability
from trainwright.trainer.optimization.parameters import DivisionSection, Setting, settings_of, to_groups

if TYPE_CHECKING:
    import torch
    from torch import nn

    Optimizer = torch.optim.Optimizer
else:
    Optimizer = Any  # a word of every file here

Betas = Annotated[tuple[Probability, Probability], Field(strict=False)]
Groups = list[dict[str, Any]]
"""Torch's parameter groups."""


class OptimizerSection(DivisionSection):
    """An optimizer of torch or of a package; every one takes a rate, a decay and a division of the parameters.

    Attributes:
        fused: it has kernels that can skip an update on the device; its `build` takes `fused`.
        shardable: it updates each entry by itself, so that parts of a tensor can be updated apart.
        needs_closure: it asks for the loss again within a step.
        averages: it averages the weights on the way, in place of a decaying rate.
        divides: it divides the parameters among several optimizers.
        made_by: the class that it is an instance of, by its full name.
        since: the release that has it, where that is newer than the oldest supported one.
    """

    fused: ClassVar[bool] = False
    shardable: ClassVar[bool] = False
    needs_closure: ClassVar[bool] = False
    averages: ClassVar[bool] = False
    divides: ClassVar[bool] = False
    made_by: ClassVar[str]
    since: ClassVar[releases.Newer | None] = None

    learning_rate: LearningRate = 1e-3
    weight_decay: NonNegativeFloat = 0.01

    def for_model(
        self,
        model: nn.Module,
        groups: Groups | None = None,
        *,
        code_root: Path | None = None,  # noqa: ARG002 - for the user's optimizer
        thawing: Sequence[str] = (),
        auxiliary: Sequence[Setting] = (),
        fused: bool = False,
    ) -> dict[str, Optimizer]:
        """Return the optimizers by name: one, but for those that divide the parameters.

        Args:
            model: its parameters are trained.
            groups: the user's parameter groups, with any options of the optimizer (`lr`, `weight_decay`, ...).
            code_root: where an entry of the user's is found.
            thawing: names of parameters that are frozen by now and trained later.
            auxiliary: parameters beside the model's, those of the objective.
            fused: use the kernels that can skip an update on the device (CUDA), where the optimizer has them.

        Raises:
            ConfigurationError: a pattern matches nothing, a package is missing, or there is nothing to train.
        """
        self._require_one_division(groups)
        try:
            settings = [*settings_of(model, self, thawing), *auxiliary]
            given = to_groups(settings) if groups is None else [*groups, *to_groups(auxiliary)]
            kernels = {"fused": True} if fused and self.fused else {}
            return self.build_all(given, settings, model, **kernels)
        except (ValueError, TypeError) as error:
            raise ConfigurationError(
                f"The optimizer cannot be built: {error}.",
                remedy="The model needs parameters that require gradients; check param_groups.",
            ) from error

    def build_all(
        self,
        groups: Groups,
        settings: Sequence[Setting],  # noqa: ARG002 - for those that divide the parameters; the model too
        model: nn.Module,  # noqa: ARG002
        **kernels: Any,
    ) -> dict[str, Optimizer]:
        """Return the optimizers by name; by default the one that `build` makes, over all groups."""
        return {"optimizer": self.build(groups, **kernels)}

    def build(self, groups: Groups, **kernels: Any) -> Optimizer:
        """Return the optimizer over torch's parameter groups.

        Raises:
            ConfigurationError: its package is missing, or of a release that does not have it.
        """
        module, _, kind = self.made_by.rpartition(".")
        home = import_module(module)
        if self.since is not None and not hasattr(home, kind):
            raise releases.needed(f"optimizer.name {self.name}", self.since, "Set optimizer.name adamw")
        optimizer: Optimizer = getattr(home, kind)(groups, **self.options(), **kernels)
        return optimizer

    def options(self) -> dict[str, Any]:
        """Return the arguments of `made_by`: by default the rate, the decay and the section's fields."""
        own = {key: getattr(self, key) for key in type(self).model_fields if key not in DivisionSection.model_fields}
        return {"lr": self.learning_rate, "weight_decay": self.weight_decay, **own}

    def _require_one_division(self, groups: Groups | None) -> None:
        """Refuse to divide the parameters twice."""
        if groups is not None and (self.divides or self.groups or self.layer_decay is not None):
            key = f"optimizer.name {self.name}" if self.divides else "optimizer.groups or optimizer.layer_decay"
            raise ConfigurationError(
                f"The task returns `param_groups`, and the configuration divides the parameters too ({key}).",
                remedy="Leave out one of the two.",
            )
