"""Update of the weights: how the optimizers are stepped, and a trial step with the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.optim import Optimizer

from trainwright.trainer.base.errors import ConfigurationError, UserCodeError
from trainwright.trainer.checkpoints.packing import pack
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.engine.components import snapshot
from trainwright.trainer.optimization.optimizers.own import DOCUMENT, Own
from trainwright.trainer.optimization.update import ByClosure, InTurn, Update, needs_closure, takes_closure

if TYPE_CHECKING:
    from trainwright.trainer.engine.session import Session


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
    own = isinstance(config.optimizer, Own) and takes_closure(optimizers[0])
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
