"""Assembling a session: build the work, settle how the model is called, try one real batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from trainwright.trainer.acceleration.precision import apply_precision, build_scaler
from trainwright.trainer.acceleration.prepare import compile_where_asked, lay_out
from trainwright.trainer.assembly.build import build_work
from trainwright.trainer.assembly.dry_run import explained_build, require_validation, try_batch, try_validation
from trainwright.trainer.assembly.loaders import build_curriculum, make_loader, make_schedule
from trainwright.trainer.assembly.model import AS_IT_IS, Building
from trainwright.trainer.assembly.objective import (
    build_objective,
    build_plain_objective,
    evaluation_objective,
    with_batch_changes,
)
from trainwright.trainer.assembly.probes import probe_user_code
from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import ConfigurationError, DataError, UserCodeError
from trainwright.trainer.catalog.names import BUILT_IN
from trainwright.trainer.checkpoints.frozen_base import FrozenBase
from trainwright.trainer.checkpoints.packing import in_a_later_release, is_storable, pack
from trainwright.trainer.checkpoints.user_state import kinds_of
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.first_look import FirstLook
from trainwright.trainer.data.loader import BatchLoader
from trainwright.trainer.engine.components import snapshot, untouched
from trainwright.trainer.engine.loop import Standard, UserTrainStep
from trainwright.trainer.engine.memory import explained_shortage
from trainwright.trainer.engine.session import Session
from trainwright.trainer.frameworks.framework import Framework, framework_in
from trainwright.trainer.objectives.objective import Auxiliary, Objective, Work
from trainwright.trainer.optimization.optimizers.own import DOCUMENT, Own
from trainwright.trainer.optimization.optimizers.schedule_free import TrainingPoints
from trainwright.trainer.optimization.parameters import Freezing, trained_parameters
from trainwright.trainer.optimization.update import ByClosure, InTurn, Update, needs_closure, takes_closure
from trainwright.trainer.run import RunDirectory, RunKind, RunSpecification
from trainwright.trainer.strategies import divide_model
from trainwright.trainer.supervision.stop import StopRequest
from trainwright.trainer.user_code.context import Context
from trainwright.trainer.user_code.entries import import_files, is_entry
from trainwright.trainer.user_code.guard import user_code


def assemble(
    specification: RunSpecification, run: RunDirectory, stop: StopRequest, building: Building = AS_IT_IS
) -> Session:
    """Build everything and try one batch; the generators end in the state after building the model.

    Args:
        building: how the parts come to be; imagined ones are not tried.

    Raises:
        ConfigurationError, DataError, UserCodeError: found before training, each with its remedy.
    """
    config, root = specification.config, Path(specification.code_root)
    device = choose_device(config)
    context = Context(config.seed, root, device.type)
    apply_precision(config.training, device)
    seeding.seed_everything(config.seed)
    keeps_test = specification.kind in {RunKind.SMOKE, RunKind.EXPORT}  # to describe it, and to evaluate it
    import_files(config.code_files, root)
    work = build_work(config, root, context, _first_looks(specification), keeps_test=keeps_test, building=building)
    built_state = kinds_of(context.state)
    require_validation(config, work)
    if (framework := framework_in(work)) is not None:
        config = framework.effective(config)
    train_loader = _train_loader(config, work, root)
    _require_selection(config, work)
    with explained_build("model"):
        work.model.to(device)
        work.returns = specification.returns or work.returns
        config.objective.prepare(work)
        plain = build_plain_objective(work, context=context, loader=train_loader, device=device, root=root)
        lay_out(work.model, specification)
        built = build_objective(
            specification, work, plain, context=context, loader=train_loader, device=device, building=building
        )
    freezing = Freezing.build(work.model, config.freezing)
    freezing.before_epoch(finished_epochs=0)
    divide_model(work, config, device)
    optimizers = work.optimizers or _optimizers(config, work, freezing, built.auxiliary, device=device, root=root)
    parameters = trained_parameters(work.model, optimizers.values())
    _require_kept(parameters, work.model, built.auxiliary)
    ordered = list(optimizers.values())
    update = InTurn(ordered) if work.train_step is not None else choose_update(config, ordered, parameters)
    average = config.weight_averaging
    averaging = [average.build(config.training.epochs, work.model, parameters)] if average is not None else []
    session = Session(
        specification=specification,
        config=config,
        run=run,
        work=work,
        context=context,
        device=device,
        model=work.model,
        objective=built.training,
        auxiliary=built.auxiliary,
        validation_objective=evaluation_objective(work, built.validation, context),
        optimizers=dict(optimizers),
        rule=Standard() if work.train_step is None else UserTrainStep(work.train_step),
        update=update,
        parameters=parameters,
        base_rates={name: [group["lr"] for group in o.param_groups] for name, o in optimizers.items()},
        schedule=make_schedule(config, train_loader),
        weight_observers=[
            observer for observer in (freezing, TrainingPoints(optimizers), *averaging) if observer.is_needed
        ],
        train_loader=train_loader,
        validation_loader=make_loader(config, work, "validation"),
        stop=stop,
        built_state=built_state,
        infinite_buffers=frozenset(name for name, b in work.model.named_buffers() if bool(torch.isinf(b).any())),
        scaler=build_scaler(config.training, device, own_updates=work.train_step is not None),
        step_bound=min((n for n in (config.training.max_steps, specification.max_steps) if n), default=None),
    )
    if framework is not None:
        return with_framework(session, framework)
    if building.imagined:
        return session
    _try(session, plain, root)
    session.base = _frozen_base(session, freezing)
    compile_where_asked(session.model, specification, device)
    return session


def _frozen_base(session: Session, freezing: Freezing) -> FrozenBase:
    """Return the weights that checkpoints name by digest: frozen ones of a model by name, whole in each process.

    A model of the user's code is kept whole: what builds it may draw on anything, and its steps may change any weight.
    """
    config = session.config
    is_built_again = config.task is None and config.model is not None and not is_entry(config.model.use)
    if not is_built_again or config.distributed.strategy != "ddp":
        return FrozenBase(session.model)
    trained = {id(parameter) for parameter in session.parameters}
    return FrozenBase.of(session.model, trained, set(freezing.thawing))


def with_framework(session: Session, framework: Framework) -> Session:
    """Put a library's state among the session's, the generators last; its own first steps try everything."""
    own = framework.components()
    present = {name: each for name, each in session.components.items() if name not in own}
    generators = present.pop("generators")
    session.components = {**present, **own, "generators": generators}
    return session


def _first_looks(specification: RunSpecification) -> FirstLook | None:
    """Return where first looks at large files are kept. The smoke run, on which planning is decided, makes its own."""
    if specification.first_looks is None:
        return None
    return FirstLook(Path(specification.first_looks), reads=specification.kind is not RunKind.SMOKE)


def _optimizers(
    config: TrainingConfig, work: Work, freezing: Freezing, auxiliary: Auxiliary, *, device: torch.device, root: Path
) -> dict[str, Optimizer]:
    return config.optimizer.for_model(
        work.model,
        work.param_groups,
        code_root=root,
        thawing=freezing.thawing,
        auxiliary=auxiliary.settings(config.optimizer),
        fused=device.type == "cuda",
    )


def _require_kept(parameters: list[nn.Parameter], model: nn.Module, auxiliary: Auxiliary) -> None:
    """Refuse weights that no checkpoint can store, and optimizers over parameters that no checkpoint would store."""
    for name, value in model.state_dict().items():
        if isinstance(value, Tensor) and not is_storable(value.dtype):
            kind = str(value.dtype).removeprefix("torch.")
            raise in_a_later_release(f"{name}, of {kind},", value.dtype) or ConfigurationError(
                f"{name} is {kind}, which no checkpoint can hold (safetensors has no such type).",
                remedy="Keep it in another type, for example complex64 instead of complex128.",
            )
    kept = {id(parameter) for parameter in (*model.parameters(), *auxiliary.modules.parameters())}
    stray = [parameter for parameter in parameters if id(parameter) not in kept]
    if stray:
        shapes = ", ".join(str(tuple(parameter.shape)) for parameter in stray[:3])
        raise ConfigurationError(
            f"The optimizers hold {len(stray)} parameters that are not in `model` (shapes {shapes}): no checkpoint "
            "would keep them.",
            remedy="Make them from the parameters of the `model` that is returned, after its last layer was put in "
            "place: not of another model, or of a copy. Of several networks that train, return all as one `model`, a "
            "torch.nn.ModuleDict.",
            document="configs/your_code.md",
        )


def _train_loader(config: TrainingConfig, work: Work, root: Path) -> BatchLoader:
    loader = make_loader(config, work, "train")
    loader.curriculum = build_curriculum(config, work, root)
    if len(loader) == 0:
        raise DataError(
            "An epoch has no batch: the train split is smaller than loader.batch_size and loader.drop_last is set.",
            remedy="Lower loader.batch_size, or set loader.drop_last false.",
        )
    return loader


def _try(session: Session, plain: Objective, root: Path) -> None:
    """Make every kind of step once on a real batch, so that a misfit is reported before training."""
    if not session.rule.is_users:
        boundary = user_code("The first forward and backward pass", root)
        with explained_shortage(session), boundary, untouched(session):
            try_batch(session, plain)
            if session.specification.kind is RunKind.SMOKE:
                probe_user_code(session, plain)
            if isinstance(session.config.optimizer, Own):
                try_optimizer(session, next(session.train_loader.batches(0)))
    if session.work.validation_step is not None:
        with user_code("The first validation_step", root), untouched(session):
            try_validation(session)
    if session.config.mixing is not None or session.config.progressive_resizing is not None:
        with user_code("The first batch that is mixed or resized", root), untouched(session):
            session.objective = with_batch_changes(session, plain)
            try_batch(session, plain)


def choose_device(config: TrainingConfig) -> torch.device:
    """Return the device of the configuration. Raises ConfigurationError when there is no such device."""
    wanted = config.training.device
    if wanted == "cuda" and not torch.cuda.is_available():
        raise ConfigurationError(
            "`training.device` = 'cuda', and torch sees no CUDA device.",
            remedy="Set training.device to auto or cpu; `trainwright doctor` shows the devices.",
        )
    return torch.device("cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu")


def _require_selection(config: TrainingConfig, work: Work) -> None:
    """Refuse a selection metric that will never be measured, as far as the names show."""
    if work.framework is not None:  # its own code measures what it likes
        return
    names = {metric.name for metric in work.metrics}
    free_names = any(metric.user_defined for metric in work.metrics) or config.objective.name != "supervised"
    if config.selection.metric not in {"loss", *names} and not free_names:
        wanted, present = config.selection.metric, config.model_dump(mode="json")["metrics"]
        raise ConfigurationError(
            f"`selection.metric` = {wanted!r} is not measured; measured are {', '.join(['loss', *sorted(names)])}.",
            remedy=f"Add {wanted!r} to `metrics`, or return it as a metric from `build`: a run selects by the goal's.",
            document="configs/README.md",
            details={"changes": {"metrics": [*present, wanted]}} if wanted in BUILT_IN["metrics"] else None,
        )


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
    """Make one step with the user's optimizer, undo it, and check that a resumed run can load the optimizer's state.

    The caller restores the model; the optimizer's state is restored here.

    Raises:
        UserCodeError: it keeps state outside `state` and `param_groups`, or state that no checkpoint can store.
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
    """Return marks of the plain values and tensors that an optimizer has outside its state_dict."""
    held = {name: value for name, value in vars(optimizer).items() if isinstance(value, bool | int | float | str)}
    tensors = {name: value for name, value in vars(optimizer).items() if isinstance(value, Tensor)}
    return {**held, **{name: (id(value), value._version) for name, value in tensors.items()}}
