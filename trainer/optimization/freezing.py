"""Parameters that are held as they are, for good or until an epoch."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn

from trainwright.trainer.config.parameters import FreezingSection
from trainwright.trainer.errors import ConfigurationError
from trainwright.trainer.optimization.parameters import matching
from trainwright.trainer.optimization.weight_observer import WeightObserver


@dataclass(frozen=True)
class Freezing(WeightObserver):
    """What is frozen is a function of the epoch alone, so there is no state to lose."""

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
                    remedy="Unfreeze what freezing.patterns names, or add it there.",
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
