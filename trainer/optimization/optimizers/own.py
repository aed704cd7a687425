"""The user's optimizer: an entry that gets the parameters and returns a torch optimizer, or several by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.section import LearningRate, NonNegativeFloat
from trainwright.trainer.optimization.optimizers.section import Groups, Optimizer, OptimizerSection
from trainwright.trainer.optimization.parameters import Setting, settings_of, to_groups

if TYPE_CHECKING:
    from torch import nn

DOCUMENT = "configs/your_code.md"
RATE_NAMES = ("lr", "learning_rate")


class Own(OptimizerSection):
    """Section of a user's optimizer: an entry that returns one torch optimizer, or several by name."""

    name: Literal["own"] = "own"
    learning_rate: LearningRate | None = None  # type: ignore[assignment]  # wider than the others'
    """Passed on as `lr`; null: the value of `args` or the callable."""
    weight_decay: NonNegativeFloat | None = None  # type: ignore[assignment]
    """Written into the parameter groups; null: the value of `args` or the callable."""
    use: Annotated[str, Field(min_length=1)]
    args: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _an_entry_with_a_rate_to_divide(self) -> Self:
        if ":" not in self.use:
            raise ValueError(
                f'optimizer.use {self.use[:60]!r} is no entry: write "file.py:callable"; a built-in optimizer is '
                "chosen by optimizer.name"
            )
        if (self.groups or self.layer_decay is not None) and self.learning_rate is None:
            raise ValueError(
                "optimizer.groups and optimizer.layer_decay divide optimizer.learning_rate: give it, and `lr` will be "
                "in every group that the callable gets"
            )
        return self

    def rate(self) -> tuple[str, float] | None:
        """Return the dotted key that holds the peak rate, with its value; None where only the user's code knows it."""
        if self.learning_rate is not None:
            return super().rate()
        for name in ("lr", "learning_rate"):
            if isinstance(self.args.get(name), float) and self.args[name] > 0:
                return f"optimizer.args.{name}", self.args[name]
        return None

    def for_model(
        self,
        model: nn.Module,
        groups: Groups | None = None,
        *,
        code_root: Path | None = None,
        thawing: Sequence[str] = (),
        auxiliary: Sequence[Setting] = (),
        fused: bool = False,  # noqa: ARG002 - the user's code chooses its kernels
    ) -> dict[str, Optimizer]:
        """Call the user's entry with the parameters to train; return its optimizers by name.

        It gets a list of parameters, or of torch's parameter groups where the configuration (or `groups`, the task's
        own) divides them; and `lr` where optimizer.learning_rate is given.

        Raises:
            ConfigurationError: it takes no rate that was given, returns no optimizer, or leaves parameters out.
            UserCodeError: it raised.
        """
        from trainwright.trainer.user_code.entries import call_entry, resolve_entry

        assert code_root is not None, "a worker has one"  # noqa: S101
        what = f"optimizer `{self.use}`"
        function = resolve_entry(self.use, code_root, key="optimizer.use")
        settings = [*settings_of(model, self, thawing), *auxiliary]
        if not settings:
            raise ConfigurationError(
                f"{what}: nothing is to be trained.", remedy="The model needs parameters that require gradients."
            )
        if groups is not None:
            given: list[Any] = [*groups, *to_groups(auxiliary)]
        elif self.groups or self.layer_decay is not None or self.weight_decay is not None:
            given = to_groups(settings)
        else:
            given = [setting.parameter for setting in settings]
        args = {**self._rate_argument(function, what), **self.args}
        optimizers = named_optimizers(call_entry(function, args, what, code_root, given), what) or {}
        self._require_rates(optimizers, what)
        if groups is None:
            _require_all(optimizers, settings, what)
        return optimizers

    def _rate_argument(self, function: Any, what: str) -> dict[str, float]:
        """Return optimizer.learning_rate under the name by which the entry takes it."""
        if self.learning_rate is None:
            return {}
        try:
            parameters = inspect.signature(function).parameters
        except ValueError:  # a callable written in C says nothing
            return {RATE_NAMES[0]: self.learning_rate}
        named = next((name for name in RATE_NAMES if name in parameters), None)
        anything = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        if named is None and not anything:
            raise ConfigurationError(
                f"`optimizer.learning_rate` = {self.learning_rate:g}, and {what} has no parameter `lr` to take it.",
                remedy="Give it one, `def make(parameters, lr, ...)`, or take optimizer.learning_rate out (null) and "
                "search over optimizer.args.",
                document=DOCUMENT,
                details={"changes": {"optimizer.learning_rate": None}},
            )
        return {named or RATE_NAMES[0]: self.learning_rate}

    def _require_rates(self, optimizers: Mapping[str, Optimizer], what: str) -> None:
        """Refuse optimizers whose groups have no `lr` for the schedule to set, or no use for a decay that was given."""
        for optimizer in optimizers.values():
            if any("lr" not in group for group in optimizer.param_groups):
                raise ConfigurationError(
                    f"{what}: a parameter group of {type(optimizer).__name__} has no 'lr', which the schedule sets.",
                    remedy='Give torch.optim.Optimizer.__init__ defaults with "lr", and update by group["lr"].',
                    document=DOCUMENT,
                )
            if self.weight_decay is not None and "weight_decay" not in optimizer.defaults:
                raise ConfigurationError(
                    f"`optimizer.weight_decay` = {self.weight_decay:g}, and {type(optimizer).__name__} knows no "
                    "'weight_decay'.",
                    remedy="Take optimizer.weight_decay out (null).",
                    document=DOCUMENT,
                    details={"changes": {"optimizer.weight_decay": None}},
                )


def named_optimizers(given: Any, what: str) -> dict[str, Optimizer] | None:
    """Return one optimizer, several in order, or several by name as a dict; None for none.

    Raises:
        ConfigurationError: something among them is no torch optimizer.
    """
    from torch.optim import Optimizer

    if given is None:
        return None
    named = dict(given) if isinstance(given, Mapping) else None
    if named is None:
        several = given if isinstance(given, tuple | list) else [given]
        single = "optimizer" if several is not given else None
        named = {single or f"optimizer_{number}": optimizer for number, optimizer in enumerate(several)}
    for name, optimizer in named.items():
        if not isinstance(optimizer, Optimizer):
            raise ConfigurationError(
                f"{what}: {name!r} is a {type(optimizer).__name__}, and must be a torch.optim.Optimizer.",
                remedy="Return a torch optimizer, or several by name.",
                document=DOCUMENT,
            )
    return named


def _require_all(optimizers: Mapping[str, Optimizer], settings: Sequence[Setting], what: str) -> None:
    """Refuse to leave parameters untrained that are not frozen."""
    groups = [group for optimizer in optimizers.values() for group in optimizer.param_groups]
    held = {id(parameter) for group in groups for parameter in group["params"]}
    left = [setting.name for setting in settings if id(setting.parameter) not in held]
    if left:
        raise ConfigurationError(
            f"{what} leaves {len(left)} of {len(settings)} parameters out: {', '.join(left[:5])}.",
            remedy="Return several optimizers by name that hold them all, or freeze those that are not to be trained: "
            "freezing.patterns.",
            document=DOCUMENT,
            details={"changes": {"freezing.patterns": left}} if len(left) <= 20 else None,
        )
