"""Objective of a run: the plain one, tried on a real batch, and the wrappers around it.

The plain objective of model and data is wrapped or replaced by that of the `objective` section. Changes of a batch
(mixing of samples, for example) wrap the result, so that attack and teacher see the model's inputs. Validation keeps
the plain objective, to which an objective may add measures.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch.nn.parameter import UninitializedParameter

from trainwright.trainer.assembly.causes import explained_call
from trainwright.trainer.assembly.model import AS_IT_IS, Building, build_model
from trainwright.trainer.assembly.output_format import find_returns
from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.checkpoints.user_state import kinds_of, unchanged
from trainwright.trainer.data.loader import BatchLoader
from trainwright.trainer.data.tensors import to_device
from trainwright.trainer.engine.components import kept_state
from trainwright.trainer.engine.session import Session
from trainwright.trainer.losses import built_in_loss
from trainwright.trainer.objectives.episodes import Played
from trainwright.trainer.objectives.objective import Built, NoObjective, Objective, Setup, Work
from trainwright.trainer.objectives.sections import SupervisedSection
from trainwright.trainer.objectives.supervised import CustomStep, JudgedStep, Supervised
from trainwright.trainer.objectives.writing import Written
from trainwright.trainer.run import RunKind, RunSpecification
from trainwright.trainer.strategies.group import world_size
from trainwright.trainer.user_code.context import Context
from trainwright.trainer.user_code.guard import user_code


def build_plain_objective(
    work: Work, *, context: Context, loader: BatchLoader, device: torch.device, root: Path
) -> Objective:
    """Return the objective of model and data, `returns` inferred from a real batch where nothing states it."""
    if work.target_scaling is not None and (work.step or work.train_step):
        raise _own_loss("the task's own step computes its loss")
    if work.train_step is not None:
        return NoObjective()
    if work.step is not None:
        return CustomStep(work.step, context)
    lazy = any(isinstance(parameter, UninitializedParameter) for parameter in work.model.parameters())
    if work.returns is None or lazy:
        with user_code("Calling the model on a first batch", root), seeding.preserved(), torch.no_grad():
            own = loader.batch_size and -(-loader.batch_size // world_size())  # no more than a step has here
            few = replace(loader, batch_size=own and min(own, 8), share=None)
            with kept_state(work.model), explained_call(work.model, loader) as call:
                call.batch = to_device(next(few.batches(0)), device)
                found = find_returns(work.model, call.batch, getattr(loader.samples, "key", None))
        work.returns = work.returns or found
    if work.target_scaling is not None and work.returns != "output":
        raise _own_loss(f"the model computes its loss itself (`returns` {work.returns})")
    return Supervised(work.loss, work.returns, work.target_scaling)


def _own_loss(why: str) -> ConfigurationError:
    return ConfigurationError(
        f"`target_scaling` scales what a loss of the configuration compares, and {why}.",
        remedy="Scale the targets there, or take target_scaling out (null).",
        document="configs/losses.md",
        details={"changes": {"target_scaling": None}},
    )


def build_objective(
    specification: RunSpecification,
    work: Work,
    plain: Objective,
    *,
    context: Context,
    loader: BatchLoader,
    device: torch.device,
    building: Building = AS_IT_IS,
) -> Built:
    """Return the configuration's objective around the plain one; under a train_step there is nothing to go around.

    The global generators are left alone, so that an objective's auxiliary modules do not change the run's draws.

    Raises:
        ConfigurationError: the objective does not fit the work.
    """
    config = specification.config
    if isinstance(plain, NoObjective):
        if not isinstance(config.objective, SupervisedSection):
            raise ConfigurationError(
                f"`objective.name` = {config.objective.name!r}, and the task's train_step makes the updates itself.",
                remedy="Leave `objective` out, or return `step` or plain parts from the task.",
            )
        return _with_measures(Built(plain, plain), work)
    if config.objective.replaces and work.step is not None:
        raise ConfigurationError(
            f"The objective {config.objective.name} calls the model itself, and so does the task's `step`.",
            remedy="Return plain parts from the task, or leave `objective` out.",
        )
    setup = Setup(
        untouched=lambda: unchanged(context.state, kinds_of(context.state), device),
        work=work,
        context=context,
        device=device,
        batch=lambda: to_device(next(loader.batches(0)), device),
        make_model=lambda entry: build_model(
            config.model_copy(update={"model": entry}),
            context.code_root,
            work.splits,
            work.loss or built_in_loss("cross_entropy", {}),
            building,
        ),
        exporting=specification.kind is RunKind.EXPORT,
    )
    with user_code("The objective", context.code_root), seeding.preserved():
        seeding.seed_measurement(config.seed, 0)
        built = config.objective.build(plain, setup)
    return _with_measures(built, work)


def _with_measures(built: Built, work: Work) -> Built:
    """Return the objective with measures of the metrics that need more than outputs: texts, and episodes."""
    names = [metric.name for metric in work.metrics if metric.of_texts]
    played = [metric for metric in work.metrics if metric.episodes]
    writing = [Written(names, work.splits.samples["train"].writing)] if names else []
    playing = [Played(played, work)] if played else []
    measures = [*built.auxiliary.measures, *writing, *playing]
    return replace(built, auxiliary=replace(built.auxiliary, measures=measures))


def evaluation_objective(work: Work, objective: Objective, context: Context) -> Objective:
    """Return the objective that measures validation and test."""
    if work.validation_step is not None:
        objective = CustomStep(work.validation_step, context, "validation_step")
    if type(objective) is CustomStep and work.gathers:
        return JudgedStep(objective.function, objective.context, objective.name)
    return objective


def with_batch_changes(session: Session, plain: Objective) -> Objective:
    """Return the training objective with all around it that changes the batches it sees: mixing, then resizing."""
    config, objective = session.config, session.objective
    if session.rule.is_users:
        raise ConfigurationError(
            "`mixing` and `progressive_resizing` go around an objective, and the task's train_step makes the updates.",
            remedy="Take them out (null), or change the batches in train_step.",
        )
    batch = to_device(next(session.train_loader.batches(0)), session.device)
    if config.mixing is not None:
        objective = config.mixing.build(objective, plain, batch, session.model)
    if (resizing := config.progressive_resizing) is not None:
        objective = resizing.build(config.training.epochs, objective, session.context, batch, session.model)
    return objective
