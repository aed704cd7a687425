"""The user's own optimizer: an entry that gets the parameters and returns a torch optimizer, or several by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.optim import Optimizer

from trainwright.trainer.base.errors import ConfigurationError, UserCodeError
from trainwright.trainer.checkpoints.packing import pack
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.engine.components import snapshot
from trainwright.trainer.optimization.optimizer_sections import OwnSection
from trainwright.trainer.optimization.parameters import Setting, settings_of, to_groups
from trainwright.trainer.optimization.update import ByClosure, InTurn, Update, needs_closure, takes_closure
from trainwright.trainer.user_code.entries import call_entry, resolve_entry

if TYPE_CHECKING:
    from trainwright.trainer.engine.session import Session

DOCUMENT = "configs/your_code.md"
RATE_NAMES = ("lr", "learning_rate")


def build_own_optimizers(
    model: nn.Module,
    section: OwnSection,
    code_root: Path,
    groups: list[dict[str, Any]] | None = None,
    *,
    thawing: Sequence[str] = (),
    own: Sequence[Setting] = (),
) -> dict[str, Optimizer]:
    """Call the user's entry with the parameters to train; return its optimizers by name.

    It gets a list of parameters, or of torch's parameter groups where the configuration (or `groups`, the task's own)
    divides them; and `lr` where optimizer.learning_rate is given.

    Raises:
        ConfigurationError: it takes no rate that was given, returns no optimizer, or leaves parameters out.
        UserCodeError: it raised.
    """
    what = f"optimizer `{section.use}`"
    function = resolve_entry(section.use, code_root, key="optimizer.use")
    settings = [*settings_of(model, section, thawing), *own]
    if not settings:
        raise ConfigurationError(
            f"{what}: nothing is to be trained.", remedy="The model needs parameters that require gradients."
        )
    if groups is not None:
        given: list[Any] = [*groups, *to_groups(own)]
    elif section.groups or section.layer_decay is not None or section.weight_decay is not None:
        given = to_groups(settings)
    else:
        given = [setting.parameter for setting in settings]
    args = {**_rate(section, function, what), **section.args}
    optimizers = named_optimizers(call_entry(function, args, what, code_root, given), what) or {}
    _require_rates(optimizers, section, what)
    if groups is None:
        _require_all(optimizers, settings, what)
    return optimizers


def named_optimizers(given: Any, what: str) -> dict[str, Optimizer] | None:
    """Return one optimizer, several in order, or several by name as a dict; None for none.

    Raises:
        ConfigurationError: something among them is no torch optimizer.
    """
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


def choose_update(
    config: TrainingConfig, optimizers: Sequence[Optimizer], parameters: Sequence[nn.Parameter]
) -> Update:
    """Return how the optimizers are stepped: by a closure where one asks for it and may have it.

    Raises:
        ConfigurationError: an optimizer cannot do without a closure, and this run cannot give it one.
    """
    asking = [optimizer for optimizer in optimizers if needs_closure(optimizer)]
    why = _no_closure(config, alone=len(optimizers) == 1)
    if asking and why is not None:
        rule, changes = why
        wanted = " and ".join(f"{key} {value}" for key, value in changes.items())
        raise ConfigurationError(
            f"{type(asking[0]).__name__} measures the loss several times in an update, which is not possible {rule}.",
            remedy=f"Set {wanted}." if changes else "Return this optimizer alone.",
            document=DOCUMENT,
            details={"changes": changes},
        )
    own = isinstance(config.optimizer, OwnSection) and takes_closure(optimizers[0])
    return ByClosure(optimizers[0], parameters) if why is None and (asking or own) else InTurn(optimizers)


def _no_closure(config: TrainingConfig, *, alone: bool) -> tuple[str, dict[str, Any]] | None:
    """Return why the loss cannot be measured again within an update, and the changes after which it can."""
    if config.training.precision == "fp16":
        return "under training.precision fp16, whose losses are scaled", {"training.precision": "bf16"}
    if config.distributed.processes > 1:
        return "with several processes", {"distributed.processes": 1}
    return None if alone else ("beside other optimizers", {})


def try_optimizer(session: Session, batch: Any) -> None:
    """Make one step on trial with the user's optimizer, and hold what it keeps to what a resumed run can take up.

    Called where the model is put back afterwards; the optimizer's state is put back here.

    Raises:
        UserCodeError: it keeps state outside `state` and `param_groups`, or state that no checkpoint can hold.
        DivergenceError: the batch's loss is not finite.
    """
    held = {name: _attributes(optimizer) for name, optimizer in session.optimizers.items()}
    with snapshot(session.components, "optimizers", "scaler", "totals"):
        session.rule(session, [batch])
        for name, optimizer in session.optimizers.items():
            pack(optimizer.state_dict(), f"The state of optimizer {type(optimizer).__name__}", {})
            present = _attributes(optimizer)
            moved = [key for key, value in held[name].items() if present.get(key) != value]
            if moved:
                raise UserCodeError(
                    f"{type(optimizer).__name__} keeps {moved[0]!r} as an attribute that a step changes: it is not in "
                    "the optimizer's state_dict, so a resumed run would go on without it.",
                    remedy="Keep it in self.state[parameter] or in self.param_groups.",
                    document=DOCUMENT,
                )


def _attributes(optimizer: Optimizer) -> dict[str, Any]:
    """Return marks of the plain values and tensors that an optimizer holds beside what its state_dict gives."""
    held = {name: value for name, value in vars(optimizer).items() if isinstance(value, bool | int | float | str)}
    tensors = {name: value for name, value in vars(optimizer).items() if isinstance(value, Tensor)}
    return {**held, **{name: (id(value), value._version) for name, value in tensors.items()}}


def _rate(section: OwnSection, function: Any, what: str) -> dict[str, float]:
    """Return optimizer.learning_rate under the name by which the entry takes it."""
    if section.learning_rate is None:
        return {}
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:  # a callable written in C says nothing
        return {RATE_NAMES[0]: section.learning_rate}
    named = next((name for name in RATE_NAMES if name in parameters), None)
    anything = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    if named is None and not anything:
        raise ConfigurationError(
            f"`optimizer.learning_rate` = {section.learning_rate:g}, and {what} has no parameter `lr` to take it.",
            remedy="Give it one, `def make(parameters, lr, ...)`, or take optimizer.learning_rate out (null) and "
            "search over optimizer.args.",
            document=DOCUMENT,
            details={"changes": {"optimizer.learning_rate": None}},
        )
    return {named or RATE_NAMES[0]: section.learning_rate}


def _require_rates(optimizers: Mapping[str, Optimizer], section: OwnSection, what: str) -> None:
    """Refuse optimizers whose groups have no `lr` for the schedule to set, or no use for a decay that was given."""
    for optimizer in optimizers.values():
        if any("lr" not in group for group in optimizer.param_groups):
            raise ConfigurationError(
                f"{what}: a parameter group of {type(optimizer).__name__} has no 'lr', which the schedule sets.",
                remedy='Give torch.optim.Optimizer.__init__ defaults with "lr", and update by group["lr"].',
                document=DOCUMENT,
            )
        if section.weight_decay is not None and "weight_decay" not in optimizer.defaults:
            raise ConfigurationError(
                f"`optimizer.weight_decay` = {section.weight_decay:g}, and {type(optimizer).__name__} knows no "
                "'weight_decay'.",
                remedy="Take optimizer.weight_decay out (null).",
                document=DOCUMENT,
                details={"changes": {"optimizer.weight_decay": None}},
            )


def _require_all(optimizers: Mapping[str, Optimizer], settings: Sequence[Setting], what: str) -> None:
    """Refuse to leave parameters untrained that nobody froze."""
    groups = [group for optimizer in optimizers.values() for group in optimizer.param_groups]
    held = {id(parameter) for group in groups for parameter in group["params"]}
    left = [setting.name for setting in settings if id(setting.parameter) not in held]
    if left:
        raise ConfigurationError(
            f"{what} leaves {len(left)} of {len(settings)} parameters out: {', '.join(left[:5])}.",
            remedy="Return several optimizers by name that hold them all, or freeze what is not to be trained: "
            "freezing.patterns.",
            document=DOCUMENT,
            details={"changes": {"freezing.patterns": left}} if len(left) <= 20 else None,
        )
